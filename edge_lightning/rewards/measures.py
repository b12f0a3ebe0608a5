r"""Units: `9 \text{ inches}`, `864 \text{ inches}^2`, `\$18.90`, `60^\circ`, `4.4 \cdot 10^{14} Hz`.

An answer without a unit is taken to be in the gold's. Two units that are both known must be the same.
Left out: conversion; 9 m is not 900 cm.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from edge_lightning.rewards.reading import Tokens
from edge_lightning.rewards.vocabulary import CHANGING, UNITS

_POWERS = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}


@dataclass(frozen=True, slots=True)
class Measure:
    """A unit as a product of powers, for example (("m", 1), ("s", -2)); unknown words are units of no known kind."""

    factors: tuple[tuple[str, int], ...]
    known: bool


_COMPOUND = {"mph": (("mi", 1), ("h", -1)), "kmph": (("km", 1), ("h", -1))}
_ANGLED = frozenset(["\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc"])
_SCALES = ("degree", "c", "f")


def without_unit(tokens: Tokens) -> tuple[Tokens, Measure | None]:
    """The value and the unit that follows it, or the currency sign before it."""
    signed = tokens[:1] if tokens[:1] in (("-",), ("+",)) else ()
    if tokens[len(signed) :][:1] == ("\\$",) and len(tokens) > len(signed) + 1:
        value, unit = without_unit(signed + tokens[len(signed) + 1 :])
        return value, unit or Measure((("dollar", 1),), True)
    if tokens[-1:] == ("\\$",) and len(tokens) > 1:
        return tokens[:-1], Measure((("dollar", 1),), True)
    start = next((at for at, token in enumerate(tokens) if is_unit(token) or token == "\\degree"), len(tokens))
    if start == len(tokens):
        return _without_primes(tokens)
    if _ANGLED.intersection(tokens):
        return tokens, None  # the sine of 30 degrees has no unit
    value, rest = tokens[:start], tokens[start:]
    if not value or value[-1] in ("+", "-", "\\cdot", "/", "^", "=", "(", "{", "["):
        return tokens, None
    unit = _measure(rest)
    return (value, unit) if unit else (tokens, None)


def same_unit(one: Measure | None, other: Measure | None) -> bool:
    """Whether the units do not contradict one another."""
    if one is None or other is None or one == other or not (one.known and other.known):
        return True
    names = [unit.factors[0][0] if len(unit.factors) == 1 else "" for unit in (one, other)]
    return "degree" in names and all(name in _SCALES for name in names)  # 20 degrees may be 20 degrees Celsius


def _without_primes(tokens: Tokens) -> tuple[Tokens, Measure | None]:
    primes = len(tokens) - len("".join("'" if token == "'" else "x" for token in tokens).rstrip("'"))
    value = tokens[: len(tokens) - primes]
    if primes in (1, 2) and value and re.fullmatch(r"[\d.]+", value[-1]):
        return value, Measure((("'" * primes, 1),), False)
    return tokens, None


def _measure(tokens: Tokens) -> Measure | None:
    powers: Counter[str] = Counter()
    known, sign, at = True, 1, 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token == "/":
            sign = -1
            continue
        if token == "\\cdot":
            continue
        if token == "\\degree":
            scale = tokens[at] if at < len(tokens) and tokens[at] in ("C", "F") else None
            at += scale is not None
            names = [scale.lower() if scale else "degree"]
        elif is_unit(token):
            names = re.split(r"[\s.]+", words_of(token).replace("-", " "))
        else:
            return None
        power = 1
        if tokens[at : at + 2] == ("^", "{"):
            end = tokens.index("}", at)
            digits = "".join(tokens[at + 2 : end])
            if not re.fullmatch(r"-?\d", digits, re.ASCII):
                return None
            power, at = int(digits), end + 1
        raised = 1
        for name in names:
            if name in ("per", "a", "an", "each"):
                sign = -1
            elif name in _POWERS:
                raised = _POWERS[name]
            else:
                unit = UNITS.get(name) or UNITS.get(name.removesuffix("s")) or UNITS.get(name.removesuffix("es"))
                known &= unit is not None
                for part, exponent in _COMPOUND.get(unit or name, ((unit or name, 1),)):
                    powers[part] += sign * exponent * (power * raised if name == names[-1] else raised)
                raised = 1
    return Measure(tuple(sorted((name, power) for name, power in powers.items() if power)), known)


def words_of(token: str) -> str:
    """The words of a word token in lower case, without the punctuation around them."""
    return token[1:].lower().strip(" .,;:!?()")


def is_unit(token: str) -> bool:
    """Whether a word token names what is counted or measured, for all the reader knows."""
    words = re.split(r"[\s.]+", words_of(token).replace("-", " "))
    return (
        token[0] == '"'
        and 1 <= len(words) <= 4
        and all(word.isalpha() for word in words)
        and not CHANGING.intersection(words)
    )

r"""Units: `9 \text{ inches}`, `864 \text{ inches}^2`, `\$18.90`, `60^\circ`, `10\,\mathrm{J/(kg\,K)}`.

A unit is a product of known units, or a phrase whose noun is in the plural (4 \text{ red apples}) and has no word that
changes a value. An answer without a unit is taken to be in the gold's; two units that are both stated must be the same.
Left out: conversion; 9 m is not 900 cm.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from edge_lightning.rewards.brackets import Tokens
from edge_lightning.rewards.upright import known_unit
from edge_lightning.rewards.vocabulary import CHANGING, COUNTS

_MOST_WORDS = 6
_PER = frozenset(["per", "a", "an", "each"])
_POWERS = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_COMPOUND = {"mph": (("mi", 1), ("h", -1)), "kmph": (("km", 1), ("h", -1))}
_ANGLED = frozenset(["\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc"])
_PLURALS = frozenset(["people", "children", "men", "women", "mice", "geese", "sheep", "fish", "deer", "dice", "teeth"])
_GENERIC = frozenset(["unit", "units"])


@dataclass(frozen=True, slots=True)
class Measure:
    """A unit as a product of powers, for example (("m", 1), ("s", -2))."""

    factors: tuple[tuple[str, int], ...]


def without_unit(tokens: Tokens) -> tuple[Tokens, Measure | None]:
    """The value and the unit that follows it, or the currency sign before it."""
    signed = tokens[:1] if tokens[:1] in (("-",), ("+",)) else ()
    if tokens[len(signed) :][:1] == ("\\$",) and len(tokens) > len(signed) + 1:
        value, unit = without_unit(signed + tokens[len(signed) + 1 :])
        return value, unit or Measure((("dollar", 1),))
    if tokens[-1:] == ("\\$",) and len(tokens) > 1:
        return tokens[:-1], Measure((("dollar", 1),))
    start = next((at for at, token in enumerate(tokens) if token[0] == '"' or token == "\\degree"), len(tokens))
    if start == len(tokens):
        return _without_primes(tokens)
    if _ANGLED.intersection(tokens):
        return tokens, None  # the sine of 30 degrees has no unit
    while start and (tokens[start - 1] == "(" or tokens[start - 2 : start] == ("\\frac", "{")):
        start -= 1 if tokens[start - 1] == "(" else 2
    value, rest = tokens[:start], tokens[start:]
    if value[-1:] == ("\\cdot",):
        value = value[:-1]
    if not value or value[-1] in ("+", "-", "\\cdot", "/", "^", "=", "(", "{", "["):
        return tokens, None
    powers: Counter[str] = Counter()
    if not _multiply(powers, rest, 1, plural=value != ("1",)):
        return tokens, None
    return value, Measure(tuple(sorted((name, power) for name, power in powers.items() if power)))


def same_unit(gold: Measure | None, answer: Measure | None) -> bool:
    """Whether the units do not contradict one another."""
    if gold is None or answer is None or gold == answer:
        return True
    names = [{name for name, _ in unit.factors} for unit in (gold, answer)]
    if any(found <= _GENERIC for found in names):
        return True
    return names[0] <= {"c", "f"} and names[1] == {"degree"}  # 20 degrees may be 20 degrees Celsius, but 20 C no angle


def words_of(token: str) -> str:
    """The words of a word token in lower case, without punctuation."""
    return token[1:].lower().strip(" ,;:!?()").replace(".", "")


def _without_primes(tokens: Tokens) -> tuple[Tokens, Measure | None]:
    primes = len(tokens) - len("".join("'" if token == "'" else "x" for token in tokens).rstrip("'"))
    value = tokens[: len(tokens) - primes]
    if primes in (1, 2) and value and re.fullmatch(r"[\d.]+", value[-1]):
        return value, Measure((("'" * primes, 1),))
    return tokens, None


def _multiply(powers: Counter[str], tokens: Tokens, sign: int, *, plural: bool) -> bool:
    """Multiply a product of units into `powers`; False if the tokens are anything else."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token == "/":
            sign = -sign if sign > 0 else sign
        elif token == "\\cdot":
            continue
        elif token in ("(", "\\frac"):
            parts = 1 if token == "(" else 2
            for part in range(parts):
                opened = at - 1 if parts == 1 else at
                closed = _closing(tokens, opened)
                if closed is None or not _multiply(
                    powers, tokens[opened + 1 : closed], -sign if part else sign, plural=plural
                ):
                    return False
                at = closed + 1
        else:
            scale = tokens[at].strip('"').lower() if token == "\\degree" and at < len(tokens) else ""
            at += scale in ("c", "f")
            names = [scale if scale in ("c", "f") else "degree"] if token == "\\degree" else _names(token, plural)
            if not names:
                return False
            power = 1
            if tokens[at : at + 2] == ("^", "{"):
                end = tokens.index("}", at)
                digits = "".join(tokens[at + 2 : end])
                if not re.fullmatch(r"-?\d", digits, re.ASCII):
                    return False
                power, at = int(digits), end + 1
            sign = _multiply_names(powers, names, sign, power)
    return True


def _multiply_names(powers: Counter[str], names: list[str], sign: int, power: int) -> int:
    """Square inches per second: the last name takes the exponent that follows. Returns the sign of what comes next."""
    raised = 1
    for at, name in enumerate(names):
        if name in _PER:
            sign = -1
        elif name == "squared" or name == "cubed":
            powers[known_unit(names[at - 1]) or names[at - 1]] += sign * (_POWERS[name] - 1)
        elif name in _POWERS:
            raised = _POWERS[name]
        else:
            unit = known_unit(name) or name
            for part, exponent in _COMPOUND.get(unit, ((unit, 1),)):
                powers[part] += sign * exponent * raised * (power if at == len(names) - 1 else 1)
            raised = 1
    return sign


def _names(token: str, plural: bool) -> list[str]:
    """The known units that a word token names, or the noun of its phrase; empty if it is no unit."""
    if token[0] != '"':
        return []
    words = ["ampere"] if token.strip('" ') == "A" else words_of(token).replace("-", " ").split()
    if len(words) > _MOST_WORDS:
        return []
    units = [word for word in words if known_unit(word) and word not in _PER]
    if units and all(known_unit(word) or word in _POWERS or word in _PER for word in words):
        return words if words[0] not in ("squared", "cubed") else []
    if words[:1] == ["of"] and words[1:2] in (["the"], ["a"], ["an"]):  # three quarters of the pie
        plural = False
    noun = words[: words.index("of")][-1:] if "of" in words[1:] else words[-1:]
    if not noun or not all(word.isalpha() for word in words):
        return []
    if words == ["times"]:
        return words
    if not CHANGING.isdisjoint(words) or not COUNTS.isdisjoint(set(words) - {"second", "seconds"}):
        return []
    is_plural = noun[0] in _PLURALS or (len(noun[0]) > 2 and noun[0].endswith("s") and not noun[0].endswith("ss"))
    return [noun[0].removesuffix("s")] if is_plural or known_unit(noun[0]) or not plural else []


def _closing(tokens: Tokens, opened: int) -> int | None:
    """Where the bracket that opens here closes."""
    depth = 0
    for at in range(opened, len(tokens)):
        depth += tokens[at] in ("(", "{")
        depth -= tokens[at] in (")", "}")
        if depth == 0:
            return at
    return None

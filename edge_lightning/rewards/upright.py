r"""Upright text after a value: `\text{ m/s}^2`, `\mathrm{kg \cdot m^2}`, `\frac{\text{m}}{\text{s}}` as the parts of a unit.

An upright letter is the variable or constant that it would be in italics (2\mathrm{i}, 2\mathrm{e}^3) unless it is the
symbol of a unit. Left out: units in italics, which are variables: 2nm is 2mn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from edge_lightning.rewards.groups import Group, Piece
from edge_lightning.rewards.vocabulary import CHANGING, SAME, TEXT, UNITS

UNIT_LETTERS = frozenset("mgshlLNJKVWACFT")
# Short units that count as such in italics too, behind a value and a space; those that may be products are not here.
BARE_UNITS = frozenset(["cm", "km", "kg", "mm", "ml", "min", "sec", "hz", "ft", "lb", "lbs", "mph", "kmh", "hr", "hrs"])
LEADING = re.compile(r"[-+]?\d[\d.,/:]*(?= ?[A-Za-z])", re.ASCII)  # the value in \text{10 km}

_SYMBOLS = (("\\mu", "micro"), ("\\Omega", "ohm"), ("\\AA", "angstrom"), ("\\cdotp", "\\cdot"), ("\\times", "\\cdot"))
_PART = re.compile(r"\\cdot(?![a-zA-Z])|[A-Za-z]+|\^\{-?\d\}|[/()*]", re.ASCII)
_BETWEEN = re.compile(r"[ .]*")


def words_in(text: str) -> str:
    r"""The words of a \text{...} with one space between them, the signs of micro, ohm and angstrom as words."""
    for symbol, word in _SYMBOLS:
        text = re.sub(rf"\{symbol}(?![a-zA-Z])\s?", lambda _, word=word: word, text)
    text = re.sub(r"\^(-?\d)", r"^{\1}", text)
    return " ".join(re.sub(r"\\[, ;:!]|[~$]", " ", text).split())


def unit_tokens(words: str) -> list[str] | None:
    r"""The tokens of m/s^{2} or kg \cdot m: words, \cdot, /, brackets, exponents; None for anything else."""
    tokens: list[str] = []
    at = 0
    while at < len(words):
        part = _PART.match(words, at)
        if not part:
            return None
        if part[0][0] == "^":
            tokens.extend(["^", "{", *part[0][2:-1], "}"])
        else:
            tokens.append(f'"{part[0]}' if part[0].isalpha() else part[0].replace("*", "\\cdot"))
        at = _BETWEEN.match(words, part.end()).end()
    names = [token[1:].lower() for token in tokens if token[0] == '"']
    if any(len(name) < 4 and known_unit(name) is None for name in names):
        return None  # 2\mathrm{e^3}
    if not names or {"/", "^", "\\cdot"}.isdisjoint(tokens) or not CHANGING.isdisjoint(names):
        return None
    return tokens


def unit_ended(out: Sequence[str]) -> bool:
    r"""Whether the tokens so far end in a unit, with or without an exponent and a \cdot or / that goes on with it."""
    end = len(out)
    if end and out[end - 1] in ("\\cdot", "/"):
        end -= 1
    if end and out[end - 1] == "}":
        end = next((at for at in range(end - 1, max(0, end - 6), -1) if out[at] == "^"), end)
    return end > 0 and out[end - 1][0] == '"' and known_unit(out[end - 1][1:].lower()) is not None


def known_unit(name: str) -> str | None:
    """The unit under its first name."""
    return UNITS.get(name) or UNITS.get(name.removesuffix("s")) or UNITS.get(name.removesuffix("es"))


def is_fraction_of_units(rest: Sequence[Piece]) -> bool:
    r"""Whether the next two pieces, the last ones of `rest`, are groups of upright text and nothing else."""
    return len(rest) > 1 and all(isinstance(piece, Group) and _is_upright(piece.pieces) for piece in rest[-2:])


def _is_upright(pieces: Sequence[Piece]) -> bool:
    """Groups belong to a command or an exponent before them."""
    solid = [piece for piece in pieces if isinstance(piece, str) and not piece.isspace()]
    commands = [piece[1:] for piece in solid if piece[0] == "\\"]
    return any(name in TEXT for name in commands) and all(
        piece in ("^", "/", "*", "-") or piece.isdecimal() or piece[1:] in TEXT or SAME.get(piece[1:], piece[1:]) == "cdot"
        for piece in solid
    )

r"""The shape of an answer: a list, a set, a tuple or interval, a relation, a matrix, a ratio, words, or one expression.

`parsed` never fails: what has no other shape is a `Leaf`, and a leaf that no one can read equals its own spelling only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from edge_lightning.rewards.measures import Measure, without_unit
from edge_lightning.rewards.reading import Tokens, words_of

_OPENING = frozenset(["(", "[", "\\{", "{", "\\langle", "\\lfloor", "\\lceil"])
_CLOSING = frozenset([")", "]", "\\}", "}", "\\rangle", "\\rfloor", "\\rceil"])
_COMMAS = frozenset([",", ", ", ";", '"and', '"or'])
EQUAL = frozenset(["=", "\\in", "\\approx"])
ORDER = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
_RELATIONS = EQUAL | ORDER.keys() | {"\\ne", "\\notin"}
_TABLE = re.compile(r"\\begin\{(?:[pbBv]?matrix|smallmatrix|array)\}")
_ROWS = re.compile(r"\\begin\{(?:cases|aligned|align\*?|gathered|array|split)\}")
_OPTION = re.compile(r'"\(?([A-F])[).:]\s*')
DEEPEST = 24  # brackets in brackets


@dataclass(frozen=True, slots=True)
class Leaf:
    """One expression, the unit taken off."""

    tokens: Tokens
    unit: Measure | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Words without case, articles and punctuation."""

    letters: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Items whose order is free, but for an elided list; a set has braces and holds an item once."""

    items: tuple[Form, ...]
    braces: bool = False
    elided: bool = False


@dataclass(frozen=True, slots=True)
class Bracketed:
    """Items in order: a tuple, a point, an interval. (1, 2) is both, and either way the same two numbers."""

    opening: str
    items: tuple[Form, ...]
    closing: str


@dataclass(frozen=True, slots=True)
class Union:
    r"""Parts joined by \cup."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """sides[0] signs[0] sides[1] signs[1] sides[2] ..."""

    sides: tuple[Form, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of a matrix."""

    rows: tuple[tuple[Form, ...], ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """a : b : c"""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """(C) 7: the letter of a choice and what it stands for."""

    letter: str
    content: Form


Form = Leaf | Words | Listed | Bracketed | Union | Relation | Table | Ratio | Option


def parsed(tokens: Tokens) -> Form:
    """The form of an answer."""
    if max(_depths(tokens), default=0) > DEEPEST + 40:
        return Leaf(tokens)
    return _form(_without_redundant_brackets(tokens), outermost=True)


def _form(tokens: Tokens, outermost: bool = False) -> Form:
    while tokens and tokens[-1] in (".", ",", ", ", ";", "\\\\"):
        tokens = tokens[:-1]
    if len(tokens) > 1 and tokens[0] == "+":
        tokens = tokens[1:]
    depths = list(_depths(tokens))
    if not tokens or depths[-1] or max(depths) > DEEPEST or min(depths) < 0:
        return _reversed_interval(tokens) or Leaf(tokens)
    option = _OPTION.fullmatch(tokens[0])
    if option and len(tokens) > 1:
        return Option(option[1].lower(), _form(tokens[1:], outermost))
    if outermost:
        tokens = _with_thousands_joined(tokens, depths)
    parts, _ = _split(tokens, _COMMAS)
    parts = parts if len(parts) > 1 else _side_by_side(tokens)
    if len(parts) > 1:
        items = tuple(_form(part) for part in parts if part)
        return _listed(items)
    sides, signs = _split(tokens, _RELATIONS)
    if len(sides) > 1:
        return Relation(tuple(_form(side, outermost) for side in sides), signs) if all(sides) else Leaf(tokens)
    parts, _ = _split(tokens, {"\\cup"})
    if len(parts) > 1:
        return Union(tuple(_form(part) for part in parts))
    parts, _ = _split(tokens, {":"})
    if len(parts) > 1:
        return Ratio(tuple(_form(part) for part in parts))
    return _rows(tokens) or _bracketed(tokens) or _words(tokens) or _signs(tokens) or Leaf(*without_unit(tokens))


def _listed(items: tuple[Form, ...], braces: bool = False) -> Form:
    """A list; a list in it (1 \\pm 2 is one) lies flat."""
    flat: list[Form] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Listed) and not item.braces else [item])
    if len(flat) == 1 and not braces:
        return flat[0]
    elided = any(isinstance(item, Leaf) and "\\ldots" in item.tokens for item in flat)
    return Listed(tuple(flat), braces, elided)


def _bracketed(tokens: Tokens) -> Form | None:
    opening, closing = tokens[0], tokens[-1]
    if opening not in ("(", "[", "\\{", "\\langle") or closing not in (")", "]", "\\}", "\\rangle"):
        return None
    if list(_depths(tokens)).index(0) != len(tokens) - 1:  # (1)(2)
        return None
    inner = tokens[1:-1]
    parts, _ = _split(inner, _COMMAS)
    if opening == "\\{" and closing == "\\}":
        if {"\\mid", "|", ":"}.intersection(inner):
            return Leaf(tokens)
        return _listed(tuple(_form(part) for part in parts if part), braces=True)
    opening, closing = ("(" if opening == "\\langle" else opening), (")" if closing == "\\rangle" else closing)
    if len(parts) == 1:
        return _form(inner) if inner and (opening, closing) in (("(", ")"), ("[", "]")) else None
    if not all(parts) or opening == "\\{" or closing == "\\}":
        return None
    return Bracketed(opening, tuple(_form(part) for part in parts), closing)


def _reversed_interval(tokens: Tokens) -> Form | None:
    """]0, 1[ is (0, 1)."""
    if len(tokens) > 2 and tokens[0] in ("[", "]") and tokens[-1] in ("[", "]"):
        inner = tokens[1:-1]
        if not {"[", "]"}.intersection(inner) and min(_depths(inner)) >= 0:
            parts, _ = _split(inner, _COMMAS)
            if len(parts) == 2 and all(parts):
                opening, closing = ("[" if tokens[0] == "[" else "("), ("]" if tokens[-1] == "]" else ")")
                return Bracketed(opening, tuple(_form(part) for part in parts), closing)
    return None


def _rows(tokens: Tokens) -> Form | None:
    """A matrix, or the lines of an environment; a factor before a matrix goes into its cells."""
    starts = [at for at, token in enumerate(tokens) if token.startswith("\\begin{")]
    if len(starts) != 1 or not tokens[-1].startswith("\\end{"):
        return None
    start = starts[0]
    lines, _ = _split(tokens[start + 1 : -1], {"\\\\"})
    lines = [line for line in lines if line]
    if _TABLE.fullmatch(tokens[start]):
        before = tokens[:start]
        before = before[:-1] if before[-1:] == ("\\cdot",) else before
        before = ("-", "1") if before == ("-",) else before
        factor = ("(", *before, ")", "\\cdot", "(") if before else ()
        cells = [[_form((*factor, *cell, *((")",) if before else ()))) for cell in _split(line, {"&"})[0]] for line in lines]
        return Table(tuple(map(tuple, cells))) if "vmatrix" not in tokens[start] else None
    if start == 0 and _ROWS.fullmatch(tokens[0]):
        return _listed(tuple(_form(tuple(token for token in line if token != "&")) for line in lines))
    return None


def _words(tokens: Tokens) -> Form | None:
    """Words, if there is nothing but words, letters and punctuation; alone, one unit is a word too."""
    if any(token[0] == '"' for token in tokens) and all(
        token[0] == '"' or (len(token) == 1 and (token.isalpha() or token in "()?!'-.:")) for token in tokens
    ):
        letters = "".join(words_of(token) + " " if token[0] == '"' else token.lower() for token in tokens)
        letters = re.sub(r"^(?:an?|the) ", "", letters.strip())
        return Words(re.sub(r"[\s().?!:'-]", "", letters))
    return None


def _signs(tokens: Tokens) -> Form | None:
    r"""a \pm b is the list of a + b and a - b."""
    if "\\pm" not in tokens and "\\mp" not in tokens:
        return None
    plus = {"\\pm": "+", "\\mp": "-"}
    minus = {"\\pm": "-", "\\mp": "+"}
    return Listed(tuple(_form(tuple(signs.get(token, token) for token in tokens)) for signs in (plus, minus)))


def _side_by_side(tokens: Tokens) -> list[Tokens]:
    """(1, 2)(3, 4) is a list whose commas were lost."""
    parts, start = [], 0
    for at, depth in enumerate(_depths(tokens)):
        if depth == 0:
            part = tokens[start : at + 1]
            if part[0] != "(" or part[-1] != ")" or len(_split(part[1:-1], _COMMAS)[0]) < 2:
                return [tokens]
            parts.append(part)
            start = at + 1
    return parts


def _with_thousands_joined(tokens: Tokens, depths: list[int]) -> Tokens:
    """1,234,567 is a number where its commas are the only ones of the answer and no space follows them."""
    commas = [at for at, token in enumerate(tokens) if token in _COMMAS and depths[at] == 0]
    if not commas or any(tokens[at] != "," for at in commas):
        return tokens
    first, last = commas[0] - 1, commas[-1] + 1
    if commas != list(range(first + 1, last, 2)) or last >= len(tokens):
        return tokens
    groups = tokens[first : last + 1 : 2]
    if re.fullmatch(r"[1-9]\d?\d?", groups[0], re.ASCII) and all(
        re.fullmatch(r"\d{3}" if at < len(groups) - 1 else r"\d{3}(\.\d+)?", group, re.ASCII)
        for at, group in enumerate(groups)
        if at
    ):
        return (*tokens[:first], "".join(groups), *tokens[last + 1 :])
    return tokens


def _without_redundant_brackets(tokens: Tokens) -> Tokens:
    """((7)) is 7."""
    while len(tokens) > 2 and tokens[0] == "(" and tokens[-1] == ")" and tokens[1] == "(" and tokens[-2] == ")":
        depths = list(_depths(tokens))
        if depths.index(0) != len(tokens) - 1 or depths[1:].index(1) != len(tokens) - 3:
            break
        tokens = tokens[1:-1]
    return tokens


def _depths(tokens: Tokens) -> Iterator[int]:
    """How many brackets are open after each token. Unlike ends pair, since intervals have them."""
    depth = 0
    for token in tokens:
        depth += token in _OPENING or token.startswith("\\begin{")
        depth -= token in _CLOSING or token.startswith("\\end{")
        yield depth


def _split(tokens: Tokens, separators: frozenset[str] | set[str]) -> tuple[list[Tokens], tuple[str, ...]]:
    """What stands between the separators outside brackets, and the separators."""
    parts, signs, start = [], [], 0
    for at, depth in enumerate(_depths(tokens)):
        if depth == 0 and tokens[at] in separators:
            parts.append(tokens[start:at])
            signs.append(tokens[at])
            start = at + 1
    return [*parts, tokens[start:]], tuple(signs)

r"""The shape of an answer: a list, a set, a tuple or interval, a relation, a matrix, a ratio, words, or one expression.

`parsed` never fails: what has no other shape is a `Leaf`, and a leaf that no one can read equals its own spelling only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from edge_lightning.rewards import numbers
from edge_lightning.rewards.brackets import (
    COMMAS,
    Tokens,
    depths,
    in_plain_spelling,
    split,
    without_redundant_brackets,
    without_spaces,
)
from edge_lightning.rewards.choices import chosen
from edge_lightning.rewards.measures import Measure, without_unit, words_of
from edge_lightning.rewards.thousands import with_thousands_joined

EQUAL = frozenset(["=", "\\in", "\\approx"])
ORDER = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
_RELATIONS = EQUAL | ORDER.keys() | {"\\ne", "\\notin"}
_TABLE = re.compile(r"\\begin\{(?:[pbBv]?matrix|smallmatrix|array)\}")
_ROWS = re.compile(r"\\begin\{(?:cases|aligned|align\*?|gathered|array|split)\}")
_LABEL = re.compile(r'"(?:the )?(?:final )?(?:answer|result|ans|solution)(?: is)?[:.]?', re.IGNORECASE)
_REALS = ("\\in", "\\mathbb", "{", "R", "}")
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
    """Items whose order is free, but for an elided list; a set has braces and holds an item once.

    The word between them, "and" or "or" or none, counts where they are inequalities.
    """

    items: tuple[Form, ...]
    braces: bool = False
    elided: bool = False
    word: str = field(default="", compare=False)


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
    if max(depths(tokens), default=0) > DEEPEST + 40:
        return Leaf(tokens)
    return _form(without_redundant_brackets(tokens), outermost=True)


def _form(tokens: Tokens, outermost: bool = False) -> Form:
    while tokens and tokens[-1] in (".", ",", ", ", ";", "\\\\"):
        tokens = tokens[:-1]
    if len(tokens) > 1 and tokens[0] == "+":
        tokens = tokens[1:]
    after = list(depths(tokens))
    if not tokens or after[-1] or max(after) > DEEPEST or min(after) < 0:
        return _reversed_interval(tokens) or Leaf(without_spaces(tokens))
    if outermost:
        if len(tokens) > 1 and _LABEL.fullmatch(tokens[0]):
            tokens = tokens[2 if tokens[1] in ("=", ":") else 1 :]
        option = chosen(tokens)
        if option:
            return Option(option[0].lower(), _form(with_thousands_joined(option[1])))
        tokens = with_thousands_joined(tokens)
    parts, commas = split(tokens, COMMAS)
    parts = parts if len(parts) > 1 else _side_by_side(tokens)
    if len(parts) > 1:
        words = {comma[1:] for comma in commas if comma[0] == '"'}
        return _listed(tuple(_form(part) for part in parts if part), word=words.pop() if len(words) == 1 else "")
    sides, signs = split(tokens, _RELATIONS)
    if len(sides) > 1:
        return Relation(tuple(_form(side, outermost) for side in sides), signs) if all(sides) else Leaf(tokens)
    parts, _ = split(tokens, {"\\cup"})
    if len(parts) > 1:
        return Union(tuple(_form(part) for part in parts))
    parts, _ = split(tokens, {"\\setminus"})
    if len(parts) == 2:
        return _without_points(_form(parts[0]), _form(parts[1])) or Leaf(tokens)
    parts, _ = split(tokens, {":"})
    if len(parts) > 1:
        return Ratio(tuple(_form(part) for part in parts))
    if tokens == _REALS[1:]:
        return Bracketed("(", (Leaf(("-", "\\infty")), Leaf(("\\infty",))), ")")
    return (
        _rows(tokens)
        or _bracketed(tokens)
        or _point(tokens)
        or _words(tokens)
        or _signs(tokens)
        or Leaf(*without_unit(in_plain_spelling(without_spaces(tokens))))
    )


def _listed(items: tuple[Form, ...], braces: bool = False, word: str = "") -> Form:
    """A list; a list in it (1 \\pm 2 is one) lies flat."""
    flat: list[Form] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Listed) and not item.braces else [item])
    if len(flat) == 1 and not braces:
        return flat[0]
    elided = any(isinstance(item, Leaf) and "\\ldots" in item.tokens for item in flat)
    return Listed(tuple(flat), braces, elided, word)


def _without_points(whole: Form, points: Form) -> Form | None:
    r"""(0, 36) \setminus \{9\} is (0, 9) \cup (9, 36)."""
    if not isinstance(whole, Bracketed) or not isinstance(points, Listed) or not points.braces or len(whole.items) != 2:
        return None
    try:
        inner = sorted(points.items, key=lambda point: numbers.value(point.tokens) if len(points.items) > 1 else 0)
    except (AttributeError, numbers.Unevaluated):
        return None
    ends = [whole.items[0], *inner, whole.items[1]]
    last = len(ends) - 2
    return Union(
        tuple(
            Bracketed("(" if at else whole.opening, pair, ")" if at < last else whole.closing)
            for at, pair in enumerate(pairwise(ends))
        )
    )


def _bracketed(tokens: Tokens) -> Form | None:
    opening, closing = tokens[0], tokens[-1]
    if opening not in ("(", "[", "\\{", "\\langle") or closing not in (")", "]", "\\}", "\\rangle"):
        return None
    if list(depths(tokens)).index(0) != len(tokens) - 1:  # (1)(2)
        return None
    inner = tokens[1:-1]
    parts, _ = split(inner, COMMAS)
    if opening == "\\{" and closing == "\\}":
        if {"\\mid", "|", ":"}.intersection(inner):
            return _described(inner) or Leaf(tokens)
        return _listed(tuple(_form(part) for part in parts if part), braces=True)
    opening, closing = ("(" if opening == "\\langle" else opening), (")" if closing == "\\rangle" else closing)
    if len(parts) == 1:
        return _form(inner) if inner and (opening, closing) in (("(", ")"), ("[", "]")) else None
    if not all(parts) or opening == "\\{" or closing == "\\}":
        return None
    return Bracketed(opening, tuple(_form(part) for part in parts), closing)


def _described(tokens: Tokens) -> Form | None:
    r"""\{x \mid x > 3\} is x > 3; so is \{x \in \mathbb{R} : x > 3\}."""
    parts, _ = split(tokens, {"\\mid", "|", ":"})
    if len(parts) != 2 or parts[0] not in ((parts[0][:1]), (*parts[0][:1], *_REALS)):
        return None
    form = _form(parts[1])
    items = form.items if isinstance(form, Listed) else (form,)
    return form if all(isinstance(item, Relation) and set(item.signs) <= ORDER.keys() | {"\\ne"} for item in items) else None


def _reversed_interval(tokens: Tokens) -> Form | None:
    """]0, 1[ is (0, 1)."""
    if len(tokens) > 2 and tokens[0] in ("[", "]") and tokens[-1] in ("[", "]"):
        inner = tokens[1:-1]
        if not {"[", "]"}.intersection(inner) and min(depths(inner)) >= 0:
            parts, _ = split(inner, COMMAS)
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
    lines, _ = split(tokens[start + 1 : -1], {"\\\\"})
    lines = [line for line in lines if line]
    if _TABLE.fullmatch(tokens[start]):
        before = tokens[:start]
        before = before[:-1] if before[-1:] == ("\\cdot",) else before
        before = ("-", "1") if before == ("-",) else before
        factor = ("(", *before, ")", "\\cdot", "(") if before else ()
        cells = [[_form((*factor, *cell, *((")",) if before else ()))) for cell in split(line, {"&"})[0]] for line in lines]
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
        letters = re.sub(r"^(?:an?|the) (?!and |or )(?=[a-z]{2})", "", letters.strip())
        both = sorted(letters.split(" and "))  # Alice and Bob, in any order
        return Words(re.sub(r"[\s().?!:'-]", "", " and ".join(both)))
    return None


def _point(tokens: Tokens) -> Form | None:
    """P(2, -7) is P = (2, -7)."""
    if len(tokens) < 4 or not (len(tokens[0]) == 1 and tokens[0].isupper()):
        return None
    form = _bracketed(tokens[1:])
    return Relation((Leaf(tokens[:1]), form), ("=",)) if isinstance(form, Bracketed) and form.opening == "(" else None


def _signs(tokens: Tokens) -> Form | None:
    r"""a \pm b is the list of a + b and a - b."""
    if "\\pm" not in tokens and "\\mp" not in tokens:
        return None
    plus = {"\\pm": "+", "\\mp": "-"}
    minus = {"\\pm": "-", "\\mp": "+"}
    return Listed(tuple(_form(tuple(signs.get(token, token) for token in tokens)) for signs in (plus, minus)))


def _side_by_side(tokens: Tokens) -> list[Tokens]:
    """(1, 2)(3, 4) and f(x) = 0f(x) = x are lists whose commas were lost."""
    head = tokens[: tokens.index("=") + 1] if "=" in tokens else ()
    if len(head) == 5 and head[1] == "(":
        starts = [at for at in range(len(tokens)) if tokens[at : at + 5] == head] + [len(tokens)]
        return [tokens[one:other] for one, other in pairwise(starts)]
    parts, start = [], 0
    for at, depth in enumerate(depths(tokens)):
        if depth == 0:
            part = tokens[start : at + 1]
            if part[0] != "(" or part[-1] != ")" or len(split(part[1:-1], COMMAS)[0]) < 2:
                return [tokens]
            parts.append(part)
            start = at + 1
    return parts

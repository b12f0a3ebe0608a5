r"""What a relation says of a name: the value of x = 5, the interval of x >= 2, the parts of (m, n) = (36, 6)."""

from __future__ import annotations

import re

from edge_lightning.rewards import numbers
from edge_lightning.rewards.brackets import Tokens
from edge_lightning.rewards.forms import ORDER, Bracketed, Form, Leaf, Listed, Relation, Union, Words

_CONSTANTS = frozenset([("\\pi",), ("e",), ("i",), ("\\infty",), ("-", "\\infty")])
_INFINITE = Leaf(("\\infty",)), Leaf(("-", "\\infty"))
_OPERATORS = frozenset(["+", "-", "\\cdot", "/", "^", "\\frac", "\\sqrt", "!", "|", "\\lfloor", "\\lceil", "\\binom"])


def assignments(form: Form) -> list[Form]:
    """(m, n) = (36, 6) is m = 36 and n = 6; the list of those, empty for anything else."""
    match form:
        case Listed(braces=False) if all(isinstance(item, Relation) for item in form.items):
            return list(form.items)
        case Relation(sides=[Bracketed() as names, Bracketed() as values], signs=("=",)):
            if is_name(names) and len(names.items) == len(values.items):
                return [Relation(sides, ("=",)) for sides in zip(names.items, values.items)]
    return []


def both_leaves(relation: Relation) -> tuple[Tokens, Tokens] | None:
    """The sides of a relation of two expressions."""
    if len(relation.sides) == 2 and all(isinstance(side, Leaf) for side in relation.sides):
        return relation.sides[0].tokens, relation.sides[1].tokens
    return None


def interval(relation: Relation) -> Form | None:
    r"""The interval of x >= 2, 1 < x <= 2, or x \ne 1."""
    sides, signs = relation.sides, relation.signs
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        sides, signs = sides[::-1], tuple(ORDER.get(sign, sign) for sign in signs)
    if len(sides) == 2 and _absolute(sides[0]) and isinstance(sides[1], Leaf) and signs[0] in ORDER:
        ends = Leaf(("-", "(", *sides[1].tokens, ")")), sides[1]
        inside = Bracketed("(" if signs[0] == "<" else "[", ends, ")" if signs[0] == "<" else "]")
        outside = [Bracketed("(", (_INFINITE[1], ends[0]), ")" if signs[0] == ">" else "]")]
        outside.append(Bracketed("(" if signs[0] == ">" else "[", (ends[1], _INFINITE[0]), ")"))
        return inside if signs[0] in ("<", "\\le") else Union(tuple(outside))
    if len(sides) == 2 and is_name(sides[0]):
        if signs[0] == "\\ne":
            return Union((Bracketed("(", (_INFINITE[1], sides[1]), ")"), Bracketed("(", (sides[1], _INFINITE[0]), ")")))
        if signs[0] in ("<", "\\le"):
            return Bracketed("(", (_INFINITE[1], sides[1]), ")" if signs[0] == "<" else "]")
        if signs[0] in (">", "\\ge"):
            return Bracketed("(" if signs[0] == ">" else "[", (sides[1], _INFINITE[0]), ")")
    if len(sides) == 3 and is_name(sides[1]) and set(signs) <= ORDER.keys():
        if set(signs) <= {">", "\\ge"}:
            sides, signs = sides[::-1], tuple(ORDER[sign] for sign in reversed(signs))
        if set(signs) <= {"<", "\\le"}:
            return Bracketed("(" if signs[0] == "<" else "[", (sides[0], sides[2]), ")" if signs[1] == "<" else "]")
    return None


def variable(relation: Relation) -> str | None:
    """The one name among the sides."""
    names = [found for side in relation.sides if (found := _absolute(side) or name(side)) is not None]
    return names[0] if len(names) == 1 else None


def solutions(form: Form) -> list[Form]:
    """The set that inequalities in one variable describe; two readings of x > 0, x < 1, which may mean and as well as or."""
    if isinstance(form, Relation):
        ranges = [interval(form)] if "\\ne" not in form.signs else [None]
        return ranges if ranges[0] is not None else []
    if not isinstance(form, Listed) or form.braces or len(form.items) < 2:
        return []
    relations = [item for item in form.items if isinstance(item, Relation) and set(item.signs) <= ORDER.keys()]
    ranges = [interval(item) for item in relations]
    if len(ranges) < len(form.items) or None in ranges or len({variable(item) for item in relations}) > 1:
        return []
    found: list[Form] = []
    if form.word != "and":
        found.append(Union(tuple(part for item in ranges for part in (item.parts if isinstance(item, Union) else (item,)))))
    if form.word != "or" and len(ranges) == 2 and all(isinstance(item, Bracketed) for item in ranges):
        lower = [item for item in ranges if item.items[1] == _INFINITE[0]]
        upper = [item for item in ranges if item.items[0] == _INFINITE[1]]
        if len(lower) == len(upper) == 1 and lower != upper:
            ends = lower[0].items[0], upper[0].items[1]
            found.append(Bracketed(lower[0].opening, ends, upper[0].closing))
    return found


def congruence(form: Form) -> tuple[Tokens, int, int] | None:
    r"""What is congruent, the residue and the modulus of x \equiv 10 \pmod{7}: x, 3, 7."""
    if not isinstance(form, Leaf) or form.tokens.count("\\equiv") != 1 or form.unit is not None:
        return None
    at = form.tokens.index("\\equiv")
    left, right = form.tokens[:at], form.tokens[at + 1 :]
    if right[-4:-2] != ("\\pmod", "{") or not right[-2].isdecimal():
        return None
    try:
        residue, modulus = numbers.value(right[:-4]), int(right[-2])
    except numbers.Unevaluated:
        return None
    return (left, int(residue) % modulus, modulus) if residue.denominator == 1 and modulus else None


def _absolute(form: Form) -> str | None:
    """The real variable of |x|; z and w stand for complex ones."""
    tokens = form.tokens if isinstance(form, Leaf) else ()
    real = len(tokens) == 3 and tokens[0] == tokens[2] == "|" and len(tokens[1]) == 1 and tokens[1].isalpha()
    return tokens[1] if real and tokens[1] not in "zw" else None


def name(form: Form) -> str | None:
    r"""What an assignment gives a value to: x, a_n, f(x), AB, \angle ABC, (m, n), Area."""
    match form:
        case Words():
            return form.letters
        case Bracketed():
            names = [name(item) for item in form.items]
            return None if None in names else f"({','.join(names)})"
        case Leaf():
            if len(form.tokens) > 1 and all(len(token) == 1 and token.islower() for token in form.tokens):
                return None  # xy is a product, AB a name
            named = any(re.search("[A-Za-z]", token) for token in form.tokens) and form.tokens not in _CONSTANTS
            plain = not _OPERATORS.intersection(form.tokens) and not numbers.number(form.tokens[0] if form.tokens else "")
            return " ".join(form.tokens) if named and plain else None
    return None


def is_name(form: Form) -> bool:
    return name(form) is not None

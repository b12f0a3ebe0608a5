r"""What a relation says of a name: the value of x = 5, the interval of x >= 2, the parts of (m, n) = (36, 6)."""

from __future__ import annotations

import re

from edge_lightning.rewards import numbers
from edge_lightning.rewards.forms import ORDER, Bracketed, Form, Leaf, Listed, Relation, Union, Words
from edge_lightning.rewards.reading import Tokens

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
    names = [found for found in map(name, relation.sides) if found is not None]
    return names[0] if len(names) == 1 else None


def name(form: Form) -> str | None:
    r"""What an assignment gives a value to: x, a_n, f(x), AB, \angle ABC, (m, n), Area."""
    match form:
        case Words():
            return form.letters
        case Bracketed():
            names = [name(item) for item in form.items]
            return None if None in names else f"({','.join(names)})"
        case Leaf():
            named = any(re.search("[A-Za-z]", token) for token in form.tokens)
            plain = not _OPERATORS.intersection(form.tokens) and not numbers.number(form.tokens[0] if form.tokens else "")
            return " ".join(form.tokens) if named and plain else None
    return None


def is_name(form: Form) -> bool:
    return name(form) is not None

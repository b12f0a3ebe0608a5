r"""Whether two answers are the same answer, decided from their forms; what two expressions are worth is asked of a judge.

Not symmetric where the gold says more: the value alone answers a gold `x = 5`, and so does any `... = 5` a gold `5`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from edge_lightning.rewards import numbers
from edge_lightning.rewards.brackets import Tokens
from edge_lightning.rewards.forms import (
    EQUAL,
    ORDER,
    Bracketed,
    Form,
    Leaf,
    Listed,
    Option,
    Ratio,
    Relation,
    Table,
    Union,
    Words,
)
from edge_lightning.rewards.measures import same_unit
from edge_lightning.rewards.relations import (
    assignments,
    both_leaves,
    congruence,
    interval,
    is_name,
    name,
    solutions,
    variable,
)

_MOST_ITEMS = 60  # of lists without order, whose comparison takes their product


class Judge(Protocol):
    """Decides about expressions."""

    def equal(self, gold: Tokens, answer: Tokens) -> bool:
        """Whether two expressions are equal wherever both are defined."""

    def ratio_sign(self, gold: tuple[Tokens, Tokens], answer: tuple[Tokens, Tokens]) -> int:
        """The sign of k where gold[0] - gold[1] = k (answer[0] - answer[1]) for a constant k; 0 if there is none."""


def same(gold: Form, answer: Form, judge: Judge) -> bool:
    """Whether the answer is the gold."""
    words = {form.word for form in (gold, answer) if isinstance(form, Listed)}
    if words == {"and", "or"} and solutions(gold) and solutions(answer):
        return False
    if gold == answer:
        return True
    if congruence(gold) is not None:
        return congruence(gold) == congruence(answer)
    match gold, answer:
        case Option(), Option():
            return gold.letter == answer.letter and same(gold.content, answer.content, judge)
        case _, Option():
            return _letters(gold) == answer.letter or same(gold, answer.content, judge)
        case Option(), _:
            return _letters(answer) == gold.letter or same(gold.content, answer, judge)
        case (Listed(), Bracketed() | Union() | Relation()) | (Bracketed() | Union() | Relation(), Listed()) if _described(
            gold
        ) and _described(answer):
            sets = [(one, other) for one in _described(gold) for other in _described(answer)]
            return len(_variables(gold) | _variables(answer)) <= 1 and any(same(*pair, judge) for pair in sets)
        case (Relation(), Relation() | Listed()) | (Listed(), Relation()) if assignments(gold) and assignments(answer):
            return _any_order(assignments(gold), assignments(answer), judge)
        case Relation(), Relation():
            return _same_relation(gold, answer, judge)
        case _, Relation():
            return _same_as_relation(gold, answer, judge)
        case Relation(), _:
            if set(gold.signs) <= EQUAL:
                one_name = is_name(gold.sides[0]) and len(_variables(gold) | _variables(answer)) <= 1
                return one_name and same(gold.sides[-1], answer, judge)
            form = interval(gold)
            return form is not None and same(form, answer, judge)
        case (Words(), _) | (_, Words()):
            return _letters(gold) is not None and _letters(gold) == _letters(answer)
        case Leaf(), Leaf():
            return same_unit(gold.unit, answer.unit) and _same_value(gold.tokens, answer.tokens, judge)
        case Bracketed(), Bracketed():
            brackets = gold.opening == answer.opening and gold.closing == answer.closing
            return brackets and _in_order(gold.items, answer.items, judge)
        case Listed(), Listed():
            return _same_items(gold, answer, judge)
        case Listed(items=[only]), _:
            return same(only, answer, judge)
        case _, Listed(items=[only]):
            return same(gold, only, judge)
        case (Listed(braces=False), Bracketed()) | (Bracketed(), Listed(braces=False)):
            return not (_is_interval(gold) or _is_interval(answer)) and _in_order(gold.items, answer.items, judge)
        case (Listed(items=[]), Leaf(tokens=("\\emptyset",))) | (Leaf(tokens=("\\emptyset",)), Listed(items=[])):
            return True
        case Union(), Union():
            return _any_order(gold.parts, answer.parts, judge)
        case Table(), Table():
            return len(gold.rows) == len(answer.rows) and all(
                _in_order(one, other, judge) for one, other in zip(gold.rows, answer.rows)
            )
        case Ratio(), Ratio():
            return _in_order(gold.parts, answer.parts, judge) or _same_ratio(gold.parts, answer.parts)
        case (Ratio(), Leaf()) | (Leaf(), Ratio()):
            return _ratio_value(gold) is not None and _ratio_value(gold) == _ratio_value(answer)
    return False


def _described(form: Form) -> list[Form]:
    """The sets that intervals or inequalities describe; of several intervals in a list, their union."""
    if isinstance(form, Bracketed | Union):
        return [form]
    if isinstance(form, Listed) and form.word != "and" and any(map(_is_interval, form.items)):
        return [Union(form.items)]
    return solutions(form)


def _variables(form: Form) -> set[str | None]:
    relations = form.items if isinstance(form, Listed) else (form,)
    return {variable(relation) for relation in relations if isinstance(relation, Relation)}


def _is_interval(form: Form) -> bool:
    """Whether brackets can't be those of a point."""
    return isinstance(form, Bracketed) and (
        (form.opening, form.closing) != ("(", ")") or any(isinstance(i, Leaf) and "\\infty" in i.tokens for i in form.items)
    )


def _in_order(gold: Sequence[Form], answer: Sequence[Form], judge: Judge) -> bool:
    return len(gold) == len(answer) and all(same(one, other, judge) for one, other in zip(gold, answer))


def _any_order(gold: Sequence[Form], answer: Sequence[Form], judge: Judge) -> bool:
    """Whether the items pair off. Items that are spelled alike pair first, since that costs nothing."""
    if len(gold) != len(answer):
        return False
    left = list(answer)
    apart = [item for item in gold if not _removed(left, item)]
    if len(left) > _MOST_ITEMS:
        return False
    for item in apart:
        found = next((at for at, other in enumerate(left) if same(item, other, judge)), None)
        if found is None:
            return False
        left.pop(found)
    return True


def _removed(items: list[Form], item: Form) -> bool:
    if item in items:
        items.remove(item)
        return True
    return False


def _same_items(gold: Listed, answer: Listed, judge: Judge) -> bool:
    if gold.elided or answer.elided:
        return _in_order(gold.items, answer.items, judge)
    if gold.braces and answer.braces:
        return _any_order(_once(gold.items, judge), _once(answer.items, judge), judge)
    if any(isinstance(item, Relation) for item in gold.items + answer.items) and _in_order(gold.items, answer.items, judge):
        return True
    named = [item for item in gold.items if isinstance(item, Relation)]
    bare = [item for item in answer.items if not isinstance(item, Relation)]
    if len({name(item.sides[0]) for item in named}) > 1 and bare:
        return False  # a = 2, b = -14 in another order, without names
    return _any_order(gold.items, answer.items, judge)


def _once(items: Sequence[Form], judge: Judge) -> list[Form]:
    kept: list[Form] = []
    for item in dict.fromkeys(items):
        if len(kept) > _MOST_ITEMS or not any(same(other, item, judge) for other in kept):
            kept.append(item)
    return kept


def _same_value(gold: Tokens, answer: Tokens, judge: Judge) -> bool:
    """A percentage p% is the number p of a question that asks for per cent, and p/100."""
    percent = [tokens[-1:] == ("\\%",) for tokens in (gold, answer)]
    bare = [tokens[:-1] if is_percent else tokens for tokens, is_percent in zip((gold, answer), percent)]
    if not all(bare):
        return False
    if judge.equal(*bare):
        return True
    if percent[0] == percent[1]:
        return False
    hundredth = [("(", *tokens, ")", "/", "100") if is_percent else tokens for tokens, is_percent in zip(bare, percent)]
    return judge.equal(*hundredth)


def _same_as_relation(gold: Form, answer: Relation, judge: Judge) -> bool:
    if set(answer.signs) <= EQUAL:
        exact = answer.signs.index("\\approx") if "\\approx" in answer.signs else len(answer.signs)
        if exact == 0 and is_name(answer.sides[0]):
            exact = len(answer.signs)  # x \approx 3.14 has no other value
        if answer.signs == ("=",) and is_name(answer.sides[1]) and not is_name(answer.sides[0]):
            return same(gold, answer.sides[0], judge) or same(gold, answer.sides[1], judge)  # 5 = x
        return same(gold, answer.sides[exact], judge)
    form = interval(answer)
    return form is not None and isinstance(gold, Bracketed | Union) and same(gold, form, judge)


def _same_relation(gold: Relation, answer: Relation, judge: Judge) -> bool:
    if set(gold.signs) <= EQUAL and set(answer.signs) <= EQUAL:
        names = name(gold.sides[0]), name(answer.sides[0])
        if None not in names and _in_order(gold.sides[:1], answer.sides[:1], judge):
            return same(gold.sides[-1], answer.sides[-1], judge)
        if _same_function(gold, answer, judge) or _in_order(gold.sides, answer.sides[::-1], judge):
            return True
        sides = both_leaves(gold), both_leaves(answer)
        return None not in sides and judge.ratio_sign(*sides) != 0
    if "\\in" in (gold.signs[0], answer.signs[0]):
        ranges = [form.sides[-1] if form.signs[0] == "\\in" else interval(form) for form in (gold, answer)]
        return None not in ranges and variable(gold) == variable(answer) and same(*ranges, judge)
    if len(gold.signs) != len(answer.signs) or _absolute_value(gold) != _absolute_value(answer):
        ranges = [interval(form) for form in (gold, answer)]
        return None not in ranges and variable(gold) == variable(answer) and same(*ranges, judge)
    if len(gold.signs) == len(answer.signs) == 1 and gold.signs[0] in ORDER and answer.signs[0] in ORDER:
        sides = both_leaves(gold), both_leaves(answer)
        if None in sides:
            return False
        if gold.signs == answer.signs:
            return judge.ratio_sign(*sides) > 0
        return ORDER[gold.signs[0]] == answer.signs[0] and judge.ratio_sign(*sides) < 0
    if gold.signs == answer.signs and set(gold.signs) == {"\\ne"} and len(gold.signs) == 1:
        sides = both_leaves(gold), both_leaves(answer)
        return None not in sides and judge.ratio_sign(*sides) != 0
    turned = tuple(ORDER.get(sign, sign) for sign in reversed(answer.signs))
    return (gold.signs == answer.signs and _in_order(gold.sides, answer.sides, judge)) or (
        gold.signs == turned and _in_order(gold.sides, answer.sides[::-1], judge)
    )


def _absolute_value(relation: Relation) -> bool:
    return any(isinstance(side, Leaf) and "|" in side.tokens for side in relation.sides)


def _same_function(gold: Relation, answer: Relation, judge: Judge) -> bool:
    """f(x) = 2x and f(t) = 2t are one function."""
    heads = [side.tokens if isinstance(side, Leaf) else () for side in (gold.sides[0], answer.sides[0])]
    if any(len(head) != 4 or head[1] != "(" or not head[2].isalpha() for head in heads) or heads[0][0] != heads[1][0]:
        return False
    renamed, last = heads[1][2], answer.sides[-1]
    if not isinstance(last, Leaf) or heads[0][2] in last.tokens:
        return False
    tokens = tuple(heads[0][2] if token == renamed else token for token in last.tokens)
    return same(gold.sides[-1], Leaf(tokens, last.unit), judge)


def _letters(form: Form) -> str | None:
    """Words, or letters that may be words: without case and spaces."""
    match form:
        case Words():
            return form.letters
        case Leaf() if form.unit is None and form.tokens and all(token.isalpha() for token in form.tokens):
            return "".join(form.tokens).lower()
    return None


def _same_ratio(gold: Sequence[Form], answer: Sequence[Form]) -> bool:
    values = [_values(parts) for parts in (gold, answer)]
    if None in values or len(gold) != len(answer) or _is_clock(gold) or _is_clock(answer):
        return False
    return all(one * values[1][0] == other * values[0][0] for one, other in zip(*values))


def _ratio_value(form: Form):
    if isinstance(form, Leaf):
        parts: Sequence[Form] = [form, Leaf(("1",))]
    else:
        parts = form.parts
    values = _values(parts)
    if values is None or len(values) != 2 or values[1] == 0 or _is_clock(parts):
        return None
    return values[0] / values[1]


def _values(parts: Sequence[Form]) -> list | None:
    try:
        values = [numbers.value(part.tokens) for part in parts if isinstance(part, Leaf)]
    except numbers.Unevaluated:
        return None
    return values if len(values) == len(parts) and any(values) else None


def _is_clock(parts: Sequence[Form]) -> bool:
    """12:00 and 1:36 may be times of day, which no factor makes equal."""
    return any(isinstance(part, Leaf) and re.fullmatch(r"[0-5]\d", "".join(part.tokens), re.ASCII) for part in parts[1:])

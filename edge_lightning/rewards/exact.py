"""The judge of plain arithmetic, which needs no computer algebra and no process."""

from __future__ import annotations

from fractions import Fraction

from edge_lightning.rewards import numbers
from edge_lightning.rewards.bounds import affordable
from edge_lightning.rewards.reading import Tokens


class Undecided(Exception):
    """The expressions are not plain arithmetic."""


class Exact:
    """Compares rational values exactly: 0.333 is not 1/3, and 2^-99 is not 2^-98.

    An expression that no one can read, or that costs too much, equals its own spelling only.
    """

    def equal(self, gold: Tokens, answer: Tokens) -> bool:
        if gold == answer:
            return True
        values = [_value(tokens) for tokens in (gold, answer)]
        if values[0] is not None and values[1] is not None:
            return values[0] == values[1]
        if not (affordable(gold) and affordable(answer)):
            return False
        return self._equal_otherwise(gold, answer)

    def ratio_sign(self, gold: tuple[Tokens, Tokens], answer: tuple[Tokens, Tokens]) -> int:
        if gold == answer:
            return 1
        if not all(map(affordable, (*gold, *answer))):
            return 0
        return self._ratio_sign_otherwise(gold, answer)

    def _equal_otherwise(self, gold: Tokens, answer: Tokens) -> bool:
        raise Undecided

    def _ratio_sign_otherwise(self, gold: tuple[Tokens, Tokens], answer: tuple[Tokens, Tokens]) -> int:
        raise Undecided


def _value(tokens: Tokens) -> Fraction | None:
    try:
        return numbers.value(tokens)
    except numbers.Unevaluated:
        return None

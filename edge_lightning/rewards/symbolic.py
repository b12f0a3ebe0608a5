r"""The judge of expressions: plain arithmetic exactly, all others by math-verify's parser and their values at points.

Two expressions are equal if they agree to 40 digits, and to more than any numeral in them has, at several points.
math-verify compares at 15 decimals, absolutely, which makes 2^{-99} equal 2^{-98}, and rounds where one side is a float;
here decimals are exact. Runs in the worker only. Left out: any way in which text reaches Python's `eval`; the parser
builds its tree by itself.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

from edge_lightning.rewards import numbers
from edge_lightning.rewards.bounds import affordable
from edge_lightning.rewards.brackets import Tokens
from edge_lightning.rewards.points import DIGITS, close, values, vanishes
from edge_lightning.rewards.symbols import Unreadable, renamed

_CONFIG = ConversionConfig(lowercase_symbols=False)
_CONTINUOUS = frozenset("xyztuvw")  # letters that stand for any number, and not for whole ones only, in a floor


class Symbolic:
    """Compares expressions. Takes as long as it takes.

    Rational values are compared exactly: 0.333 is not 1/3, and 2^-99 is not 2^-98. An expression that no one can read,
    or that costs too much, equals its own spelling only.
    """

    def equal(self, gold: Tokens, answer: Tokens) -> bool:
        if gold == answer:
            return True
        one, other = _value(gold), _value(answer)
        if one is not None and other is not None:
            return one == other
        if not (affordable(gold) and affordable(answer)):
            return False
        names: dict[Tokens, str] = {}
        try:
            expressions = [_expression(tokens, names) for tokens in (gold, answer)]
        except Unreadable:
            return False
        agreed, digits = 0, DIGITS + max(len(token) for token in (*gold, *answer))
        for found in values(expressions, _continuous(names), digits):
            if not close(*found, digits):
                return False
            agreed += 1
        return agreed > 0

    def ratio_sign(self, gold: tuple[Tokens, Tokens], answer: tuple[Tokens, Tokens]) -> int:
        if gold == answer:
            return 1
        if not all(map(affordable, (*gold, *answer))):
            return 0
        names: dict[Tokens, str] = {}
        try:
            sides = [_expression(tokens, names) for tokens in (*gold, *answer)]
        except Unreadable:
            return 0
        one, other = (sympy.Add(left, -right) for left, right in (sides[:2], sides[2:]))
        continuous = _continuous(names)
        return _constant_sign(one, other, continuous) or _constant_sign(_numerator(one), _numerator(other), continuous)


@lru_cache(maxsize=1024)
def _value(tokens: Tokens) -> Fraction | None:
    try:
        return numbers.value(tokens)
    except numbers.Unevaluated:
        return None


def _continuous(names: dict[Tokens, str]) -> frozenset[str]:
    return frozenset(letter for symbol, letter in names.items() if symbol[0] in _CONTINUOUS)


def _constant_sign(one: sympy.Expr, other: sympy.Expr, continuous: frozenset[str]) -> int:
    ratios = []
    for found in values([one, other], continuous):
        zeros = list(map(vanishes, found))
        if any(zeros):
            if not all(zeros):
                return 0
            continue
        ratios.append(found[0] / found[1])
        if not close(ratios[0], ratios[-1], DIGITS) or abs(sympy.im(ratios[0])) > abs(ratios[0]) * sympy.Float(10) ** -30:
            return 0
    return int(sympy.sign(sympy.re(ratios[0]))) if ratios else 0


def _numerator(expression: sympy.Expr) -> sympy.Expr:
    r"""y = 1/x is xy = 1."""
    return sympy.fraction(sympy.together(expression))[0]


def _expression(tokens: Tokens, names: dict[Tokens, str]) -> sympy.Expr:
    """The tree of an expression; `names` gives each symbol of both sides its letter.

    Raises:
        Unreadable: the parser fails, or makes something else of it than an expression.
    """
    text = " ".join(renamed(tokens, names))
    try:
        tree = latex2sympy(text, is_real=None, convert_degrees=False, normalization_config=None, conversion_config=_CONFIG)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        raise Unreadable from None
    if not isinstance(tree, sympy.Expr):
        raise Unreadable
    imaginary = names.get(("i",))
    tree = tree.doit() if imaginary is None else tree.doit().subs(sympy.Symbol(imaginary), sympy.I)
    return tree.replace(_is_odd_root, lambda root: (-1) ** root.exp.p * (-root.base) ** root.exp)


def _is_odd_root(expression: sympy.Expr) -> bool:
    """Of a negative number, whose real root is meant."""
    exponent = expression.exp if isinstance(expression, sympy.Pow) else None
    return isinstance(exponent, sympy.Rational) and exponent.q % 2 == 1 and exponent.q > 1 and expression.base.is_negative

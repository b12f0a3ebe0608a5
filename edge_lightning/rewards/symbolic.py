r"""The judge of expressions with roots, constants, functions and variables: parsed by math-verify's parser, then evaluated.

Two expressions are equal if they agree to 40 digits, relative to their size, at several points. math-verify compares at
15 decimals, absolutely, which makes 2^{-99} equal 2^{-98}, and rounds where one side is a float; here decimals are
exact. Its parser lowers the case of symbols and stumbles over E_1, \gamma and f(x); so it gets plain letters instead.
Runs in the worker only. Left out: any way in which text reaches Python's `eval`; the parser builds its tree by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

from edge_lightning.rewards import numbers
from edge_lightning.rewards.exact import Exact
from edge_lightning.rewards.reading import Tokens
from edge_lightning.rewards.vocabulary import ACCENTS, GREEK

_NAMES = "xyzuvwabckmnpqrst"  # letters that the parser takes for nothing else
_CONFIG = ConversionConfig(lowercase_symbols=False)
_APPLIED = frozenset("fghFGHPQ")  # before a bracket these are functions; other letters are if it holds one letter
_DIGITS = 40
_TINY = sympy.Float(10) ** -70
_GREEK = frozenset(f"\\{name}" for name in GREEK)
_ACCENTS = frozenset(f"\\{name}" for name in ACCENTS)
_STEPPED = (sympy.floor, sympy.ceiling, sympy.factorial, sympy.binomial)


class Unreadable(Exception):
    """The parser makes nothing of the tokens."""


class Symbolic(Exact):
    """Decides what `Exact` leaves open. Takes as long as it takes."""

    def _equal_otherwise(self, gold: Tokens, answer: Tokens) -> bool:
        names: dict[Tokens, str] = {}
        try:
            one, other = (_expression(tokens, names) for tokens in (gold, answer))
        except Unreadable:
            return False
        agreed = 0
        for values in _values([one, other]):
            if not _close(*values):
                return False
            agreed += 1
        return agreed > 0

    def _ratio_sign_otherwise(self, gold: tuple[Tokens, Tokens], answer: tuple[Tokens, Tokens]) -> int:
        names: dict[Tokens, str] = {}
        try:
            sides = [_expression(tokens, names) for tokens in (*gold, *answer)]
        except Unreadable:
            return 0
        one, other = (sympy.Add(left, -right) for left, right in (sides[:2], sides[2:]))
        return _constant_sign(one, other) or _constant_sign(_numerator(one), _numerator(other))


def _constant_sign(one: sympy.Expr, other: sympy.Expr) -> int:
    ratios = []
    for values in _values([one, other]):
        if any(abs(value) < _TINY for value in values):
            if not all(abs(value) < _TINY for value in values):
                return 0
            continue
        ratios.append(values[0] / values[1])
        if not _close(ratios[0], ratios[-1]) or abs(sympy.im(ratios[0])) > abs(ratios[0]) * sympy.Float(10) ** -30:
            return 0
    return int(sympy.sign(sympy.re(ratios[0]))) if ratios else 0


def _numerator(expression: sympy.Expr) -> sympy.Expr:
    r"""y = 1/x is xy = 1."""
    return sympy.fraction(sympy.together(expression))[0]


def _values(expressions: Sequence[sympy.Expr]) -> Iterator[list[sympy.Expr]]:
    """The values of the expressions at points, those where one of them has none left out."""
    symbols = sorted(set().union(*(expression.free_symbols for expression in expressions)), key=str)
    if not symbols:
        points: list[dict] = [{}]
    elif any(expression.has(*_STEPPED) for expression in expressions):
        points = [
            {symbol: sympy.Integer(7 + (at * (5 + 2 * k) + 3 * k) % 23) for k, symbol in enumerate(symbols)}
            for at in range(9)
        ]
    else:
        points = [{symbol: _coordinate(at, k) for k, symbol in enumerate(symbols)} for at in range(8)]
    complex_valued = any(expression.has(sympy.I) for expression in expressions)
    reals, others = 0, []
    for point in points:
        values = [_number(expression, point) for expression in expressions]
        if any(value is None for value in values):
            continue
        if complex_valued or all(map(_is_real, values)):
            reals += 1
            yield values
        else:
            others.append(values)
    # An expression without i means reals: where it leaves them, as a logarithm does, its variables do not go.
    if reals < 2:
        yield from others


def _coordinate(at: int, k: int) -> sympy.Rational:
    """Of variable k at point `at`: all positive at the first, then with signs of every combination."""
    sign = -1 if (at & (1, 2, 4, 7, 3, 5, 6)[k % 7]).bit_count() % 2 else 1
    return sign * sympy.Rational((37 * (at + 2) + 101 * k) % 89 + 11, 29 + 2 * k)


def _is_real(value: sympy.Expr) -> bool:
    return bool(abs(sympy.im(value)) <= abs(value) * sympy.Float(10) ** -_DIGITS)


def _number(expression: sympy.Expr, point: dict) -> sympy.Expr | None:
    value = expression.subs(point).evalf(_DIGITS + 20, maxn=400)
    if value.is_number and value.is_finite and sympy.N(value, 5).is_comparable is not None:
        real, imaginary = value.as_real_imag()
        if real.is_Number and imaginary.is_Number:
            return value
    return None


def _close(one: sympy.Expr, other: sympy.Expr) -> bool:
    larger = max(abs(one), abs(other))
    return bool(abs(one - other) <= larger * sympy.Float(10) ** -_DIGITS) or bool(larger < _TINY)


def _expression(tokens: Tokens, names: dict[Tokens, str]) -> sympy.Expr:
    """The tree of an expression; `names` gives each symbol of both sides its letter.

    Raises:
        Unreadable: the parser fails, or makes something else of it than an expression.
    """
    text = " ".join(_renamed(tokens, names))
    try:
        tree = latex2sympy(text, is_real=None, convert_degrees=False, normalization_config=None, conversion_config=_CONFIG)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        raise Unreadable from None
    if not isinstance(tree, sympy.Expr):
        raise Unreadable
    imaginary = names.get(("i",))
    return tree.doit() if imaginary is None else tree.doit().subs(sympy.Symbol(imaginary), sympy.I)


def _renamed(tokens: Tokens, names: dict[Tokens, str]) -> Iterator[str]:
    at = 0
    while at < len(tokens):
        token = tokens[at]
        end = _symbol_end(tokens, at)
        if end > at and tokens[at:end] != ("e",):
            symbol = tokens[at:end]
            if symbol not in names:
                if len(names) == len(_NAMES):
                    raise Unreadable
                names[symbol] = _NAMES[len(names)]
            yield names[symbol]
            at = end
            if tokens[at : at + 1] == ("(",):  # not a function, or it would be part of the symbol
                yield "\\cdot"
            continue
        if tokens[at + 1 : at + 2] == ("\\degree",) and numbers.number(token):
            whole, _, digits = token.partition(".")
            yield f"(\\frac{{{int(whole + digits)}\\pi}}{{{180 * 10 ** len(digits)}}})"
            at += 1
        elif "." in token:  # a decimal is a fraction, not a float
            whole, _, digits = token.partition(".")
            yield f"\\frac{{{int(whole + digits)}}}{{{10 ** len(digits)}}}"
        else:
            yield token
        at += 1


def _symbol_end(tokens: Tokens, at: int) -> int:
    r"""Where the symbol that begins here ends (x, x_{1}, x', \dot{x}, \gamma, dx, f(x)); `at` if none does."""
    token = tokens[at]
    if token in _ACCENTS:
        end = _group_end(tokens, at + 1)
    elif (len(token) == 1 and token.isalpha()) or token in _GREEK:
        end = at + 1
        if token == "d" and end < len(tokens) and _differential(tokens, at) and tokens[end] not in ("^", "d"):
            return _symbol_end(tokens, end)
    else:
        return at
    while end < len(tokens) and tokens[end] in ("'", "_"):
        end = end + 1 if tokens[end] == "'" else _group_end(tokens, end + 1)
    if end + 2 < len(tokens) and tokens[end] == "(" and tokens[at:end] not in (("i",), ("e",)):
        close = end + tokens[end:].index(")") if ")" in tokens[end:] else end
        inside = tokens[end + 1 : close]
        applied = token in _APPLIED or (len(inside) == 1 and (inside[0].isalpha() or token.isupper()))
        if inside and "(" not in inside and applied and inside != tokens[at:end]:
            end = close + 1
    return end


def _differential(tokens: Tokens, at: int) -> bool:
    r"""Whether this d begins the top or the bottom of a \frac{d..}{d..}."""
    return (
        at >= 2
        and tokens[at - 1] == "{"
        and (
            (tokens[at - 2] == "\\frac" and ("}", "{", "d") in zip(tokens[at:], tokens[at + 1 :], tokens[at + 2 :]))
            or (tokens[at - 2] == "}" and ("\\frac", "{", "d") in zip(tokens[:at], tokens[1:at], tokens[2:at]))
        )
    )


def _group_end(tokens: Tokens, at: int) -> int:
    """Behind the group whose brace opens at `at`."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] == "{") - (tokens[end] == "}")
        if depth == 0:
            return end + 1
    return len(tokens)

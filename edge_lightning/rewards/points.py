r"""The values of expressions at points, as far apart and as many as can tell the expressions apart.

Points are of both signs and small and large where an expression has roots, absolute values or maxima, so that neither
\sqrt{x^2} nor |x-5| is a polynomial; they are whole numbers where it has floors, factorials or binomials, all from 0 to 60
and the neighbours of powers of 2 and 10, and parts of whole numbers too for the floor of an x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

DIGITS = 40  # to which two values must agree: behind the decimal point if they are over 1, else of those that are not zero
_MOST_DIGITS = 12_000
_TINY = sympy.Float(10) ** -70
_STEPPED = (sympy.floor, sympy.ceiling)
_WHOLE = (sympy.factorial, sympy.binomial)
_BENT = (sympy.Abs, sympy.Max, sympy.Min, sympy.sign, sympy.log)
_STEPS = [*range(61), 63, 64, 65, 99, 100, 101, 127, 128, 129, 255, 256, 257, 511, 512, 513, 999, 1000, 1001, 1023, 1024]
_SCALES = (1, 6, 40, 400)


def values(
    expressions: Sequence[sympy.Expr], continuous: frozenset[str], digits: int = DIGITS
) -> Iterator[list[sympy.Expr]]:
    """The values of the expressions at points, those where one of them has none left out.

    Args:
        continuous: the names of variables that need not be whole numbers.
    """
    symbols = sorted(set().union(*(expression.free_symbols for expression in expressions)), key=str)
    complex_valued = any(expression.has(sympy.I) for expression in expressions)
    absolute = [expression.has(sympy.Abs) for expression in expressions]
    reals, others = 0, []
    for point in _points(expressions, symbols, continuous):
        found = [_number(expression, point, digits) for expression in expressions]
        if any(value is None for value in found):
            continue
        real = [_is_real(value) for value in found]
        if complex_valued or all(real) or (any(real) and any(absolute) and not all(absolute)):  # \ln|x| is not \ln x
            reals += 1
            yield found
        else:
            others.append(found)
    # An expression without i means reals: where it leaves them, as a logarithm does, its variables do not go.
    if reals < 2:
        yield from others


def close(one: sympy.Expr, other: sympy.Expr, digits: int = DIGITS) -> bool:
    """Whether two values agree to the digits: absolutely if they are over 1, else relative to their size."""
    larger = max(abs(one), abs(other))
    return bool(abs(one - other) <= min(larger, 1) * sympy.Float(10) ** -digits) or vanishes(larger)


def vanishes(value: sympy.Expr) -> bool:
    """Whether a value is zero."""
    return bool(abs(value) < _TINY)


def _points(expressions: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol], continuous: frozenset[str]) -> list[dict]:
    def has(*kinds) -> bool:
        return any(expression.has(*kinds) for expression in expressions)

    if not symbols:
        return [{}]
    if has(*_WHOLE):
        return [_whole(symbols, [7 + (at * (5 + 2 * k) + 3 * k) % 23 for k in range(len(symbols))]) for at in range(12)]
    towers = _has_towers(expressions)
    if has(*_STEPPED):
        steps = _STEPS[:4] if towers else _STEPS
        points = [
            _whole(symbols, [steps[at * (1 + 6 * k) % len(steps)] for k in range(len(symbols))]) for at in range(len(steps))
        ]
        if {symbol.name for symbol in symbols} <= continuous:
            points += [{symbol: _coordinate(at, k) for k, symbol in enumerate(symbols)} for at in range(8)]
        return points
    scales = _SCALES if (has(*_BENT) or _has_roots(expressions)) and not towers else _SCALES[:1]
    return [
        {symbol: scale * _coordinate(at, k) for k, symbol in enumerate(symbols)}
        for scale in scales
        for at in range(8)
    ]  # fmt: skip


def _whole(symbols: Sequence[sympy.Symbol], numbers: Sequence[int]) -> dict:
    return {symbol: sympy.Integer(number) for symbol, number in zip(symbols, numbers)}


def _has_roots(expressions: Sequence[sympy.Expr]) -> bool:
    powers = set().union(*(expression.atoms(sympy.Pow) for expression in expressions))
    return any(power.exp.is_Rational and not power.exp.is_integer and power.base.free_symbols for power in powers)


def _has_towers(expressions: Sequence[sympy.Expr]) -> bool:
    """Whether a variable is in the exponent of an exponent, where none but small points have values."""
    powers = set().union(*(expression.atoms(sympy.Pow, sympy.exp) for expression in expressions))
    inner = set().union(*(power.exp.atoms(sympy.Pow, sympy.exp) for power in powers))
    return any(power.exp.free_symbols for power in inner)


def _coordinate(at: int, k: int) -> sympy.Rational:
    """Of variable k at point `at`: all positive at the first, then with signs of every combination."""
    sign = -1 if (at & (1, 2, 4, 7, 3, 5, 6)[k % 7]).bit_count() % 2 else 1
    return sign * sympy.Rational((37 * (at + 2) + 101 * k) % 89 + 11, 29 + 2 * k)


def _is_real(value: sympy.Expr) -> bool:
    return bool(abs(sympy.im(value)) <= abs(value) * sympy.Float(10) ** -DIGITS)


def _number(expression: sympy.Expr, point: dict, digits: int) -> sympy.Expr | None:
    """The value to `digits` digits behind the decimal point, however large it is; None if it has no finite one."""
    placed = expression.subs(point)
    value = placed.evalf(digits + 20, maxn=digits + 400)
    if not (value.is_number and value.is_finite and sympy.N(value, 5).is_comparable is not None):
        return None
    size = abs(value)
    if size > 1:
        digits += int(sympy.log(size, 10).evalf(5)) + 1
        if digits > _MOST_DIGITS:
            return None
        value = placed.evalf(digits + 20, maxn=digits + 400)
    real, imaginary = value.as_real_imag()
    return value if real.is_Number and imaginary.is_Number else None

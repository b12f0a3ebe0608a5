r"""The exact value of plain arithmetic: 0.75, \frac{3}{4}, 1\frac{4}{5}, 6.72 \cdot 10^{-5}, 3+4, 2^{1009}.

Rational numbers only, with + - / \cdot, powers, factorials, fractions and brackets; anything else has no value here and
is left to `values.py`. Nothing grows beyond `_BITS`, so the work is bounded whatever stands there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

_BITS = 40_000
_LARGEST_FACTORIAL = 2000
_DEEPEST = 40  # brackets in brackets
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


class Unevaluated(Exception):
    """Not plain arithmetic."""


class TooLarge(Unevaluated):
    """Plain arithmetic, but of numbers that no answer needs."""


def value(tokens: Sequence[str]) -> Fraction:
    """The exact value.

    Raises:
        Unevaluated: the tokens are not plain arithmetic, or divide by zero.
        TooLarge: the value takes more than `_BITS` bits.
    """
    walk = _Walk(tokens)
    result = walk.sum()
    if walk.at != len(tokens):
        raise Unevaluated
    return result


def number(token: str) -> bool:
    """Whether the token is a number."""
    return _NUMBER.fullmatch(token) is not None


class _Walk:
    def __init__(self, tokens: Sequence[str]):
        self.tokens, self.at, self._depth = tokens, 0, 0

    def _peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        if not token or (expected is not None and token != expected):
            raise Unevaluated
        self.at += 1
        return token

    def sum(self) -> Fraction:
        if self._depth > _DEEPEST:
            raise Unevaluated
        self._depth += 1
        total = self._sum()
        self._depth -= 1
        return total

    def _sum(self) -> Fraction:
        sign = -1 if self._peek() == "-" else 1
        if self._peek() in ("-", "+"):
            self._take()
        total = sign * self._product()
        while self._peek() in ("-", "+"):
            sign = -1 if self._take() == "-" else 1
            total = _bounded(total + sign * self._product())
        return total

    def _product(self) -> Fraction:
        total = self._power()
        while True:
            if self._peek() == "\\cdot":
                self._take()
                total = _bounded(total * self._signed_power())
            elif self._peek() == "/":
                self._take()
                total = _divided(total, self._signed_power())
                if self._peek() in ("(", "\\frac"):
                    raise Unevaluated  # 1/2(3) is read in two ways
            elif self._peek() == "(":
                total = _bounded(total * self._power())
            else:
                return total

    def _signed_power(self) -> Fraction:
        sign = -1 if self._peek() == "-" else 1
        if self._peek() in ("-", "+"):
            self._take()
        return sign * self._power()

    def _power(self) -> Fraction:
        base = self._atom()
        if self._peek() == "!":
            self._take()
            if base.denominator != 1 or base < 0 or self._peek() == "!":
                raise Unevaluated
            if base > _LARGEST_FACTORIAL:
                raise TooLarge
            base = _bounded(Fraction(math.factorial(int(base))))
        if self._peek() != "^":
            return base
        self._take()
        self._take("{")
        exponent = self.sum()
        self._take("}")
        if exponent.denominator != 1:
            raise Unevaluated
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if base in (0, 1, -1):
            bits = 0
        if bits * abs(exponent) > _BITS:
            raise TooLarge
        if base == 0 and exponent <= 0:
            raise Unevaluated
        return base ** (int(exponent) if bits else int(exponent) % 2 + (2 if base == 0 else 0))

    def _atom(self) -> Fraction:
        token = self._take()
        if number(token):
            if len(token) > _BITS // 4:
                raise TooLarge
            repeating = self._repeating(token)
            return self._mixed(Fraction(token), token) if repeating is None else repeating
        if token == "(":
            inner = self.sum()
            self._take(")")
            return inner
        if token == "\\frac":
            self._take("{")
            top = self.sum()
            self._take("}")
            self._take("{")
            bottom = self.sum()
            self._take("}")
            return _divided(top, bottom)
        raise Unevaluated

    def _repeating(self, token: str) -> Fraction | None:
        r"""0.1\overline{6} is 1/6."""
        point = self._peek() == "." and token.isdecimal()
        overlined = self.tokens[self.at + point : self.at + point + 4]
        if (
            len(overlined) < 4
            or overlined[0] not in ("\\overline", "\\dot")
            or not overlined[2].isdecimal()
            or overlined[3] != "}"
        ):
            return None
        if not point and "." not in token:
            return None
        self.at += 4 + point
        digits = token.partition(".")[2]
        return Fraction(token) + Fraction(int(overlined[2]), (10 ** len(overlined[2]) - 1) * 10 ** len(digits))

    def _mixed(self, whole: Fraction, token: str) -> Fraction:
        """1\\frac{4}{5} and 1 4/5 are 9/5."""
        rest = self.tokens[self.at : self.at + 7]
        if token.isdecimal() and len(rest) == 7 and rest[0] == "\\frac" and rest[2].isdecimal() and rest[5].isdecimal():
            self.at += 7
            return whole + _divided(Fraction(rest[2]), Fraction(rest[5]))
        if token.isdecimal() and len(rest) >= 3 and rest[1] == "/" and rest[0].isdecimal() and rest[2].isdecimal():
            self.at += 3
            return whole + _divided(Fraction(rest[0]), Fraction(rest[2]))
        return whole


def _divided(top: Fraction, bottom: Fraction) -> Fraction:
    if bottom == 0:
        raise Unevaluated
    return _bounded(top / bottom)


def _bounded(result: Fraction) -> Fraction:
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > _BITS:
        raise TooLarge
    return result

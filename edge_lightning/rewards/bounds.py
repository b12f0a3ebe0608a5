r"""What an expression may cost before a computer algebra system sees it.

Sympy computes 2^{99999999} and 9999999! as soon as they are written down, and the parser takes exponential time on
nested brackets; so such expressions are refused by their tokens. What passes is still watched by the clock.
Left out: sums, products, integrals and limits, which an answer has carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from edge_lightning.rewards import numbers
from edge_lightning.rewards.vocabulary import ACCENTS, FUNCTIONS, GREEK

_MOST_TOKENS = 300
_DEEPEST = 10
_LARGEST_EXPONENT = 10_000
_LONGEST_NUMBER = 60  # digits
_LARGEST_FACTORIAL = 2000
_KNOWN = frozenset(
    ["\\frac", "\\binom", "\\sqrt", "\\cdot", "\\pi", "\\lfloor", "\\rfloor", "\\lceil", "\\rceil", "\\degree"]
)
_ALLOWED = _KNOWN | {f"\\{name}" for name in ACCENTS | GREEK | (FUNCTIONS - {"lim", "sup", "inf", "det", "dim", "ker"})}
_SIGNS = frozenset("+-/!()[]{}^_|',")
_PAIRS = {")": "(", "]": "[", "}": "{", "\\rfloor": "\\lfloor", "\\rceil": "\\lceil"}


def affordable(tokens: Sequence[str]) -> bool:
    """Whether the tokens are an expression that a computer algebra system may be given."""
    if len(tokens) > _MOST_TOKENS or not all(map(_known, tokens)):
        return False
    if any(numbers.number(one) and numbers.number(other) for one, other in pairwise(tokens)):
        return False  # 1 2 3 is no product
    if any(numbers.number(one) and other == "_" for one, other in pairwise(tokens)):
        return False  # 52_8 is written in base 8
    opened: list[int] = []
    spans: dict[int, int] = {}  # where a bracket closes, and where it opened
    for at, token in enumerate(tokens):
        if token in _PAIRS.values():
            opened.append(at)
        elif token in _PAIRS:
            if not opened or tokens[opened[-1]] != _PAIRS[token]:
                return False
            spans[at] = opened.pop()
        if len(opened) > _DEEPEST:
            return False
    if opened:
        return False
    opens = {start: end for end, start in spans.items()}
    return all(_is_small(token, tokens, at, opens, spans) for at, token in enumerate(tokens))


def _known(token: str) -> bool:
    if numbers.number(token):
        return len(token) <= _LONGEST_NUMBER
    return token in _ALLOWED or token in _SIGNS or (len(token) == 1 and token.isascii() and token.isalpha())


def _is_small(token: str, tokens: Sequence[str], at: int, opens: dict[int, int], spans: dict[int, int]) -> bool:
    match token:
        case "^":
            return _power_is_small(tokens, at, opens, spans)
        case "!":
            start = spans.get(at - 1, at - 1)
            return at > 0 and "!" not in tokens[start:at] and _at_most(_LARGEST_FACTORIAL, tokens[start:at])
        case "\\binom":
            return _at_most(_LARGEST_FACTORIAL, tokens[at + 2 : opens[at + 1]])
    return True


def _at_most(limit: int, tokens: Sequence[str]) -> bool:
    """Whether what stands there is no number over the limit."""
    try:
        return numbers.value(tokens) <= limit
    except numbers.TooLarge:
        return False
    except numbers.Unevaluated:
        return True


def _power_is_small(tokens: Sequence[str], at: int, opens: dict[int, int], spans: dict[int, int]) -> bool:
    """x^{x^{2}} may stand, 10^{10^{10}} and (2^{9999})^{9999} may not."""
    exponent = tokens[at + 2 : opens[at + 1]]
    try:
        size = abs(numbers.value(exponent))
    except numbers.TooLarge:
        return False
    except numbers.Unevaluated:
        return sum(token == "^" for token in exponent) <= 3
    if size > _LARGEST_EXPONENT:
        return False
    base = tokens[spans[at - 1] : at] if at - 1 in spans else ()
    return size <= 20 or "^" not in base

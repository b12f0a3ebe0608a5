r"""The symbols of an expression under plain letters, since the parser lowers the case of symbols and stumbles over E_1,
\gamma and f(x); decimals as fractions and degrees as parts of \pi.
"""

from __future__ import annotations

from collections.abc import Iterator

from edge_lightning.rewards import numbers
from edge_lightning.rewards.brackets import Tokens
from edge_lightning.rewards.vocabulary import ACCENTS, GREEK

_NAMES = "xyzuvwabckmnpqrst"  # letters that the parser takes for nothing else
_FUNCTIONS = frozenset("fghFGHPQ")  # before a bracket these are functions; other letters are if it holds one letter
_FACTORS = frozenset("ghFGHP")  # but these are factors of a bracket that holds a sum: h(a+b), P(1+r)
_GREEK = frozenset(f"\\{name}" for name in GREEK)
_ACCENTS = frozenset(f"\\{name}" for name in ACCENTS)


class Unreadable(Exception):
    """The parser makes nothing of the tokens."""


def renamed(tokens: Tokens, names: dict[Tokens, str]) -> Iterator[str]:
    """The tokens with a letter for each symbol, the same for the same; `names` keeps them, of several expressions too.

    Raises:
        Unreadable: more symbols than letters.
    """
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
        factor = token in _FACTORS and not {"+", "-"}.isdisjoint(inside[1:]) and "," not in inside
        applied = (token in _FUNCTIONS and not factor) or (len(inside) == 1 and (inside[0].isalpha() or token.isupper()))
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

"""What stands between the commas, signs and brackets of a list of tokens."""

from __future__ import annotations

from collections.abc import Iterator

Tokens = tuple[str, ...]

_OPENING = frozenset(["(", "[", "\\{", "{", "\\langle", "\\lfloor", "\\lceil"])
_CLOSING = frozenset([")", "]", "\\}", "}", "\\rangle", "\\rfloor", "\\rceil"])
COMMAS = frozenset([",", ", ", ";", '"and', '"or'])


def without_spaces(tokens: Tokens) -> Tokens:
    """The tokens, where a space after a comma means nothing."""
    return tuple("," if token == ", " else token for token in tokens)


def without_redundant_brackets(tokens: Tokens) -> Tokens:
    """((7)) is 7."""
    while len(tokens) > 2 and tokens[0] == "(" and tokens[-1] == ")" and tokens[1] == "(" and tokens[-2] == ")":
        after = list(depths(tokens))
        if after[-1] != 0 or after.index(0) != len(tokens) - 1 or after[1:].index(1) != len(tokens) - 3:
            break
        tokens = tokens[1:-1]
    return tokens


def in_plain_spelling(tokens: Tokens) -> Tokens:
    r"""(101)_2 is 101_2, and \max\{a, b\} is \max(a, b)."""
    if len(tokens) == 7 and tokens[0] == "(" and tokens[1].isdecimal() and tokens[2:4] == (")", "_"):
        return (tokens[1], *tokens[3:])
    if {"\\max", "\\min", "\\gcd"}.intersection(tokens):
        return tuple({"\\{": "(", "\\}": ")"}.get(token, token) for token in tokens)
    return tokens


def depths(tokens: Tokens) -> Iterator[int]:
    """How many brackets are open after each token. Unlike ends pair, since intervals have them."""
    depth = 0
    for token in tokens:
        depth += token in _OPENING or token.startswith("\\begin{")
        depth -= token in _CLOSING or token.startswith("\\end{")
        yield depth


def split(tokens: Tokens, separators: frozenset[str] | set[str]) -> tuple[list[Tokens], tuple[str, ...]]:
    """What stands between the separators outside brackets, and the separators."""
    parts, signs, start = [], [], 0
    for at, depth in enumerate(depths(tokens)):
        if depth == 0 and tokens[at] in separators:
            parts.append(tokens[start:at])
            signs.append(tokens[at])
            start = at + 1
    return [*parts, tokens[start:]], tuple(signs)

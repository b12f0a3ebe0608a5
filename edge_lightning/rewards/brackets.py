"""What stands between the commas, signs and brackets of a list of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edge_lightning.rewards.reading import Tokens

_OPENING = frozenset(["(", "[", "\\{", "{", "\\langle", "\\lfloor", "\\lceil"])
_CLOSING = frozenset([")", "]", "\\}", "}", "\\rangle", "\\rfloor", "\\rceil"])
COMMAS = frozenset([",", ", ", ";", '"and', '"or'])


def without_spaces(tokens: Tokens) -> Tokens:
    """The tokens, where a space after a comma means nothing."""
    return tuple("," if token == ", " else token for token in tokens)


def with_thousands_joined(tokens: Tokens) -> Tokens:
    """1,234,567 is a number where its commas are the only ones of the answer and no space follows them."""
    commas = [at for at, depth in enumerate(depths(tokens)) if depth == 0 and tokens[at] in COMMAS]
    if not commas or any(tokens[at] != "," for at in commas):
        return tokens
    first, last = commas[0] - 1, commas[-1] + 1
    if first < 0 or last >= len(tokens) or commas != list(range(first + 1, last, 2)):
        return tokens
    groups = tokens[first : last + 1 : 2]
    if re.fullmatch(r"[1-9]\d?\d?", groups[0], re.ASCII) and all(
        re.fullmatch(r"\d{3}" if at < len(groups) - 1 else r"\d{3}(\.\d+)?", group, re.ASCII)
        for at, group in enumerate(groups)
        if at
    ):
        return (*tokens[:first], "".join(groups), *tokens[last + 1 :])
    return tokens


def without_redundant_brackets(tokens: Tokens) -> Tokens:
    """((7)) is 7."""
    while len(tokens) > 2 and tokens[0] == "(" and tokens[-1] == ")" and tokens[1] == "(" and tokens[-2] == ")":
        after = list(depths(tokens))
        if after[-1] != 0 or after.index(0) != len(tokens) - 1 or after[1:].index(1) != len(tokens) - 3:
            break
        tokens = tokens[1:-1]
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

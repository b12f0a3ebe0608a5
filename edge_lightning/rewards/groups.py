r"""Pieces of an answer as TeX nests them: the braces become groups, in time linear in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECES = re.compile(r"\\[a-zA-Z]+\*?|\\.|\d+(?:\.\d+)?|\.\d+|[a-zA-Z]+|\s+|[^\x00-\x7f]+|.", re.DOTALL)
DEEPEST = 24  # groups in groups, after redundant pairs are gone


@dataclass(frozen=True, slots=True)
class Group:
    """What stands in a pair of braces, and how many groups it has below one another."""

    pieces: list[Piece]
    depth: int


Piece = str | Group


def grouped(text: str) -> list[Piece] | None:
    """The pieces of a text, or None if its braces do not pair or lie deeper than `DEEPEST`.

    A group that holds one group and nothing else is that group, however often: {{{7}}} is {7}.
    """
    opened: list[list[Piece]] = [[]]
    for match in _PIECES.finditer(text):
        piece = match[0]
        if piece == "{":
            opened.append([])
        elif piece == "}":
            if len(opened) == 1:
                return None
            pieces = opened.pop()
            solid = [inner for inner in pieces if not (isinstance(inner, str) and inner.isspace())]
            if len(solid) == 1 and isinstance(solid[0], Group):
                opened[-1].append(solid[0])
                continue
            depth = 1 + max((inner.depth for inner in solid if isinstance(inner, Group)), default=0)
            if depth > DEEPEST:
                return None
            opened[-1].append(Group(pieces, depth))
        else:
            opened[-1].append(piece)
    return opened[0] if len(opened) == 1 else None


def source(pieces: list[Piece]) -> str:
    """The text that the pieces came from, but for redundant braces."""
    return "".join(piece if isinstance(piece, str) else "{" + source(piece.pieces) + "}" for piece in pieces)

"""Text from outside as Markdown that shows it letter for letter: no link, picture, table, HTML or list comes of it."""

from __future__ import annotations

import re

from edge_lightning.errors import printable

_MARKUP = re.compile(r"[\\`*\[\]~]|<(?=[A-Za-z/!?])|&(?=[\w#])|(?<![^\W_])_|_(?![^\W_])|!(?=\[)|^[#+>=-]")
_IN_CELL = re.compile(r"\\(?![A-Za-z0-9 ])|[`|]|(?<=\])\(|<(?=[A-Za-z/!?])|&(?=[\w#])")


def plain(text: str) -> str:
    """A line within a paragraph."""
    return _MARKUP.sub(r"\\\g<0>", _one_line(text))


def code(text: str) -> str:
    """A code span, whatever backticks are in it."""
    line = _one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{room}{line}{room}{fence}"


def cell(text: str) -> str:
    """A cell of a table; emphasis and brackets of our own are left as they are."""
    return _IN_CELL.sub(r"\\\g<0>", _one_line(text))


def _one_line(text: str) -> str:
    """Without control characters and line ends."""
    return printable(" ".join(text.split()))

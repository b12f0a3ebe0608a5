r"""The boxed answer of a text.

Left out: \fbox, `\boxed 7` without braces, answers outside a box.
"""

from __future__ import annotations

import re

# In one pass: a box opens, something escaped (so \{ and \} are no braces), a brace.
_MARKS = re.compile(r"\\boxed\s*+\{|\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""What stands in the last \boxed{...} that is closed, or None.

    The last to open: of a box in a box, the inner. A box that is never closed does not count and voids no other.
    Takes time linear in the text.
    """
    opened: list[int | None] = []  # where the content of each open brace starts if it is a box
    last: tuple[int, int] | None = None
    for mark in _MARKS.finditer(text):
        if mark[0] == "{":
            opened.append(None)
        elif mark[0] == "}":
            start = opened.pop() if opened else None
            if start is not None and (last is None or start > last[0]):
                last = (start, mark.start())
        elif mark[0].endswith("{") and len(mark[0]) > 2:
            opened.append(mark.end())
    return None if last is None else text[last[0] : last[1]]

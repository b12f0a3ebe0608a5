"""From what stands in an answer column to the accepted answers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from edge_lightning.errors import UserError


class AnswerRule:
    r"""How the text of an answer is normalised: cut out, then rewritten, then stripped.

    Args:
        pattern: a regular expression; its first group (the whole match where it has none) in the last place where it
            matches is the answer, for example `####\s*(.+)`. None: the whole text.
        replace: regular expression -> what it becomes, in order, for example {",(?=\d{3})": ""}.
    Raises:
        UserError: an expression that can't be compiled.
    """

    def __init__(self, pattern: str | None = None, replace: Mapping[str, str] | None = None):
        self.pattern = None if pattern is None else compiled(pattern, "data.problem_set.answer_pattern")
        for one, to in (replace or {}).items():
            if not isinstance(to, str):
                raise UserError(f"data.problem_set.answer_replace: text expected in place of {one!r}, {to!r} came")
        self.replace = [(compiled(p, "data.problem_set.answer_replace"), to) for p, to in (replace or {}).items()]

    def __call__(self, value: object) -> tuple[str, ...]:
        """The accepted answers of a cell: of text or a number one, of a list as many; empty where one can't be read."""
        parts = value if isinstance(value, list | tuple) else [value]
        answers = tuple(self._normal(as_text(part)) for part in parts)
        return answers if all(answers) else ()

    def _normal(self, text: str) -> str:
        if self.pattern is not None:
            matches = list(self.pattern.finditer(text))
            text = matches[-1][self.pattern.groups and 1] or "" if matches else ""
        for pattern, to in self.replace:
            text = pattern.sub(to, text)
        return text.strip()


def as_text(value: object) -> str:
    """Text without the white space around it, a finite number in plain digits (142.0 is "142"); else empty."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, float | Decimal) or not math.isfinite(value):
        return ""
    return str(int(value)) if value == int(value) else format(Decimal(str(value)), "f")


def compiled(pattern: str, key: str) -> re.Pattern[str]:
    """The compiled expression.

    Raises:
        UserError: names the key and what is wrong with the expression.
    """
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(f"{key}={pattern!r}: a regular expression expected; {error}") from None

"""Which rows of a table are taken: by a pattern, or by a number. Each filter is an entry of data.problem_set.filters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from edge_lightning.data.answers import as_text, compiled
from edge_lightning.errors import UserError


class Filter(Protocol):
    """Says of a row whether it is taken."""

    def __call__(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is taken."""


class ColumnMatches:
    r"""Takes the rows whose column matches a regular expression somewhere; with `keep` false, those where it does not.

    A column that is missing or null is an empty text. `column: solution, pattern: \\boxed\s*\{` takes what has a box.
    """

    def __init__(self, column: str, pattern: str, keep: bool = True):
        self.column = column
        self.pattern = compiled(pattern, "data.problem_set.filters.*.pattern")
        self.keep = keep

    def __call__(self, row: Mapping[str, Any]) -> bool:
        return (self.pattern.search(as_text(row.get(self.column))) is not None) == self.keep


class ColumnRange:
    """Takes the rows whose column is a number with at_least <= number <= at_most; None: no bound. Text may be a number."""

    def __init__(self, column: str, at_least: float | None = None, at_most: float | None = None):
        self.column = column
        self.low = -math.inf if at_least is None else at_least
        self.high = math.inf if at_most is None else at_most
        if not self.low <= self.high:
            raise UserError(
                f"data.problem_set.filters: column {column!r} with at_least={at_least}, at_most={at_most}: "
                "at_least <= at_most expected"
            )

    def __call__(self, row: Mapping[str, Any]) -> bool:
        try:
            return self.low <= float(row.get(self.column)) <= self.high
        except (TypeError, ValueError, OverflowError):
            return False

"""What reading a data set found: how many rows, and which of them can't be used, and why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that can't be used.

    Attributes:
        file: it stands in.
        place: "row 7" or "line 7", counted from 1; "problem 'p7'" where the row could be read.
        reason: what came and what was expected.
        kind: of reason, to count by.
    """

    file: str
    place: str
    reason: str
    kind: str = "unusable row"

    def __str__(self) -> str:
        return f"{self.file}, {self.place}: {self.reason}"


@dataclass(slots=True)
class SetReport:
    """What a problem set was made of.

    Attributes:
        rows: read, usable or not.
        bad: rows that were left out because they can't be used.
        filtered: rows that each filter left out, by the filter's name; a row counts for the first that refuses it.
    """

    source: str
    rows: int = 0
    bad: list[BadRow] = field(default_factory=list)
    filtered: dict[str, int] = field(default_factory=dict)

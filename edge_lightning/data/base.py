"""What a data set owes the pipeline: problems to train on, problems kept apart from them, and what reading found."""

from __future__ import annotations

from typing import Protocol

from edge_lightning.data.report import SetReport
from edge_lightning.types import Problem


class ProblemSet(Protocol):
    """Two lists of problems, always in the same order. No text stands in both, and the ids of each list are unique.

    Attributes:
        report: the rows behind them; what could not be used is listed there and in neither list.
    """

    report: SetReport

    def train(self) -> list[Problem]:
        """The problems to train on."""

    def held_out(self) -> list[Problem]:
        """The problems that are never trained on; empty where the set keeps none."""

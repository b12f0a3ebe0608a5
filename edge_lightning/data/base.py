"""What a data set owes the pipeline: problems to train on and problems kept apart from them."""

from __future__ import annotations

from typing import Protocol

from edge_lightning.types import Problem


class ProblemSet(Protocol):
    """Two lists of problems, always in the same order. No text stands in both, and the ids of each list are unique."""

    def train(self) -> list[Problem]:
        """The problems to train on."""

    def held_out(self) -> list[Problem]:
        """The problems that are never trained on; empty where the set keeps none."""

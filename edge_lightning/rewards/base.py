"""What a part of the reward owes the sum: one number a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edge_lightning.types import Grade, Response, Verdict


class RewardPart(Protocol):
    """One part of the reward. Inherit from it to take the defaults of what a part without processes does not need.

    Attributes:
        weight: of the part in the sum; 0 measures without rewarding.
        timeouts: how many gradings ran out of time since the part was built.
    """

    weight: float
    timeouts: int = 0

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """The unweighted value of each response, in order."""

    def close(self) -> None:
        """End what the part has started. Safe to call twice."""


class Accuracy(RewardPart, Protocol):
    """The part that says what is right."""

    def judge(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The verdict on each (golds, whole text of a response), in order; any one gold will do."""

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether each gold can be compared with at all."""


class Reward(Protocol):
    """The whole reward of a response.

    Attributes:
        timeouts: how many gradings ran out of time.
    """

    timeouts: int

    def __call__(self, responses: Sequence[Response]) -> list[Grade]:
        """One grade per response, in order."""

    def judge(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The verdict on each (golds, whole text of a response), in order; any one gold will do."""

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether each gold can be compared with at all; a problem whose golds can't is one nobody can get right."""

    def close(self) -> None:
        """End what the reward has started. Safe to call twice."""

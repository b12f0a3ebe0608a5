"""Reward for the right answer in the last box."""

from __future__ import annotations

from collections.abc import Sequence

from edge_lightning.rewards.base import RewardPart
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.rewards.equivalence import Equivalence
from edge_lightning.types import Response


class BoxedAccuracy(RewardPart):
    """1 where the last box equals one of the problem's answers, else 0; 0 without a box.

    Args:
        timeout_s: seconds after which the comparison of one answer is given up and the answer is wrong.
    """

    def __init__(self, weight: float = 1.0, timeout_s: float = 5.0):
        self.weight = weight
        self.equivalence = Equivalence(timeout_s)

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """1.0 or 0.0 for each response."""
        answers = [last_boxed(response.text) for response in responses]
        boxed = [(response, answer) for response, answer in zip(responses, answers) if answer is not None]
        verdicts = iter(self.equivalence([(response.problem.answers, answer) for response, answer in boxed]))
        return [0.0 if answer is None else float(next(verdicts)) for answer in answers]

    @property
    def timeouts(self) -> int:
        """Comparisons that were given up."""
        return self.equivalence.timeouts

    def close(self) -> None:
        """End the process that compares."""
        self.equivalence.close()

"""Reward for the right answer in the last box."""

from __future__ import annotations

from collections.abc import Sequence

from edge_lightning.rewards.base import RewardPart
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.rewards.equivalence import Equivalence
from edge_lightning.types import Response, Verdict


class BoxedAccuracy(RewardPart):
    """1 where the last box equals one of the problem's answers, else 0; 0 without a box.

    Args:
        timeout_s: seconds after which the comparison of one answer with all its golds is given up and it is wrong.
        workers: processes that compare, started when first needed.
    """

    def __init__(self, weight: float = 1.0, timeout_s: float = 5.0, workers: int = 2):
        self.weight = weight
        self.equivalence = Equivalence(timeout_s, workers)

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """1.0 or 0.0 for each response."""
        verdicts = self.judge([(response.problem.answers, response.text) for response in responses])
        return [float(verdict is Verdict.MATCHED) for verdict in verdicts]

    def judge(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The verdict on each (golds, whole text of a response), in order."""
        answers = [last_boxed(text) for _, text in pairs]
        boxed = [(golds, answer) for (golds, _), answer in zip(pairs, answers) if answer is not None]
        verdicts = iter(self.equivalence(boxed))
        return [Verdict.NO_BOX if answer is None else next(verdicts) for answer in answers]

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether each gold can be compared with at all."""
        return self.equivalence.readable(golds)

    @property
    def timeouts(self) -> int:
        """Comparisons that were given up."""
        return self.equivalence.timeouts

    def close(self) -> None:
        """End the processes that compare."""
        self.equivalence.close()

"""Reward for the right answer in the last box."""

from __future__ import annotations

from collections.abc import Sequence

from edge_lightning.rewards.base import RewardPart
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.rewards.equivalence import Equivalence
from edge_lightning.rewards.reasoning_gym import TaskScorers
from edge_lightning.types import Response, Verdict


class BoxedAccuracy(RewardPart):
    """1 where the last box equals one of the problem's answers, else 0; 0 without a box.

    Problems that Reasoning Gym made may have many answers: their responses are scored by the task's own scorer.

    Args:
        timeout_s: seconds after which the comparison of one answer with all its golds is given up and it is wrong.
        workers: processes that compare, and as many that score, started when first needed.
    """

    def __init__(self, weight: float = 1.0, timeout_s: float = 5.0, workers: int = 2):
        self.weight = weight
        self.equivalence = Equivalence(timeout_s, workers)
        self.scorers = TaskScorers(timeout_s, workers)

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """1.0 or 0.0 for each response."""
        verdicts = self.scorers(responses)
        others = [i for i in range(len(responses)) if i not in verdicts]
        judged = self.judge([(responses[i].problem.answers, responses[i].text) for i in others])
        verdicts |= dict(zip(others, judged, strict=True))
        return [float(verdicts[i] is Verdict.MATCHED) for i in range(len(responses))]

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
        """Comparisons and scorings that were given up."""
        return self.equivalence.timeouts + self.scorers.timeouts

    def close(self) -> None:
        """End the processes that compare and score."""
        self.equivalence.close()
        self.scorers.close()

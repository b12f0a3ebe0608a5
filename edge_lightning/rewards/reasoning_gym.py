r"""Reward by a task's own scorer, for problems of Reasoning Gym; by the box for all others.

Left out: partial credit, which some scorers give: right is a score of 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from edge_lightning.errors import UserError
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.rewards.gym_worker import is_of_the_gym
from edge_lightning.rewards.plain import LONGEST
from edge_lightning.rewards.pool import Pool
from edge_lightning.types import Response, Verdict

_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_UPRIGHT = re.compile(r"\\(?:text|textbf|mathrm|texttt)\{([^{}]*)\}")


class ReasoningGymAccuracy(BoxedAccuracy):
    r"""1 where the scorer of the problem's task gives the answer a score of 1, else 0; other problems as `BoxedAccuracy`.

    The answer is what stands in the last box, without $...$ or \text{...} around it; where there is no box, in the last
    <answer>...</answer>, as the package's own prompts have it.

    Args:
        timeout_s: seconds after which the scoring of one answer is given up and it is wrong.
        workers: processes that score, and as many that compare, started when first needed. Some tasks evaluate the answer as
            an expression, which must not happen in the run's own process.
    """

    def __init__(self, weight: float = 1.0, timeout_s: float = 5.0, workers: int = 2):
        super().__init__(weight, timeout_s, workers)
        if not 0 < timeout_s < math.inf:
            raise UserError(f"reward.parts.accuracy.timeout_s={timeout_s}: a finite number of seconds above 0 expected")
        self._scorers = Pool(timeout_s, workers, judge="edge_lightning.rewards.gym_worker")
        self._scored_timeouts = 0

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """1.0 or 0.0 for each response."""
        gym = [i for i, response in enumerate(responses) if is_of_the_gym(response.problem.id)]
        others = [i for i in range(len(responses)) if i not in set(gym)]
        found = dict(zip(others, super().__call__([responses[i] for i in others])))
        found |= dict(zip(gym, self._score([responses[i] for i in gym])))
        return [found[i] for i in range(len(responses))]

    def _score(self, responses: Sequence[Response]) -> list[float]:
        questions = [((response.problem.id,), answer_of(response.text)) for response in responses]
        asked = list(dict.fromkeys(question for question in questions if question[1] and len(question[1]) <= LONGEST))
        verdicts = dict(zip(asked, self._scorers(asked), strict=True))
        self._scored_timeouts += sum(verdict is Verdict.TIMED_OUT for verdict in verdicts.values())
        return [float(verdicts.get(question) is Verdict.MATCHED) for question in questions]

    @property
    def timeouts(self) -> int:
        """Comparisons and scorings that were given up."""
        return super().timeouts + self._scored_timeouts

    def close(self) -> None:
        """End the processes."""
        super().close()
        self._scorers.close()


def answer_of(text: str) -> str:
    r"""The answer of a response, for a scorer that knows no LaTeX; empty where there is none."""
    answer = last_boxed(text)
    if answer is None:
        tagged = _TAGGED.findall(text)
        answer = tagged[-1] if tagged else ""
    answer = answer.strip()
    if len(answer) > 2 and answer[0] == answer[-1] == "$":
        answer = answer[1:-1].strip()
    upright = _UPRIGHT.fullmatch(answer)
    return (upright[1] if upright else answer).strip()

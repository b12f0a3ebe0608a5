r"""Scores of Reasoning Gym's own scorers, for problems that the package made.

Left out: partial credit, which some scorers give: right is a score of 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.rewards.plain import LONGEST
from edge_lightning.rewards.pool import Pool
from edge_lightning.types import Response, Verdict

PREFIX = "reasoning_gym/"  # of the ids that data/reasoning_gym.py gives
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_UPRIGHT = re.compile(r"\\(?:text|textbf|mathrm|texttt)\{([^{}]*)\}")


def is_of_the_gym(problem_id: str) -> bool:
    """Whether an id is reasoning_gym/<task>/<seed>/<index>."""
    return problem_id.startswith(PREFIX) and problem_id.count("/") == 3


class TaskScorers:
    r"""Matched where the scorer of the problem's task gives the answer a score of 1.

    The answer is what stands in the last box, without $...$ or \text{...} around it; where there is no box, in the last
    <answer>...</answer>, as the package's own prompts have it.

    Args:
        timeout_s: seconds after which the scoring of one answer is given up and it is wrong.
        workers: processes that score, started when first needed. Some tasks evaluate the answer as an expression, which must
            not happen in the run's own process.

    Attributes:
        timeouts: scorings that were given up.
    """

    def __init__(self, timeout_s: float, workers: int):
        self.timeouts = 0
        self._pool = Pool(timeout_s, workers, judge="edge_lightning.rewards.gym_worker")

    def __call__(self, responses: Sequence[Response]) -> dict[int, Verdict]:
        """The verdict on each response to such a problem, by its place in the list; others have none."""
        gym = [i for i, response in enumerate(responses) if is_of_the_gym(response.problem.id)]
        questions = {i: ((responses[i].problem.id,), answer_of(responses[i].text)) for i in gym}
        asked = [question for question in dict.fromkeys(questions.values()) if 0 < len(question[1]) <= LONGEST]
        verdicts = dict(zip(asked, self._pool(asked), strict=True))
        self.timeouts += sum(verdict is Verdict.TIMED_OUT for verdict in verdicts.values())
        return {i: verdicts.get(question, Verdict.DIFFERS) for i, question in questions.items()}

    def close(self) -> None:
        """End the processes. Safe to call twice."""
        self._pool.close()


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

"""The process that asks a Reasoning Gym task for its score; `pool.py` starts it.

Some scorers hand the answer to sympy's parser, which evaluates it as Python: an answer with a double underscore is not
scored. Left out: a sandbox; whatever else an answer makes such a scorer do, it does with the user's rights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from edge_lightning.rewards.reasoning_gym import PREFIX
from edge_lightning.rewards.worker import serve
from edge_lightning.types import Verdict


def judged(golds: Sequence[str], answer: str) -> Verdict:
    """Whether the task's scorer gives the answer to the problem, whose id is the one gold, a score of 1."""
    task, seed, index = golds[0].removeprefix(PREFIX).split("/")
    data = _up_to(task, int(seed), int(index))
    if "__" in answer:
        return Verdict.DIFFERS
    try:
        score = data.score_answer(answer, data[int(index)])
    except Exception:  # whatever a scorer stumbles over is not the answer
        return Verdict.DIFFERS
    return Verdict.MATCHED if score == 1.0 else Verdict.DIFFERS


@lru_cache(maxsize=256)
def _up_to(task: str, seed: int, index: int):
    import reasoning_gym

    return reasoning_gym.create_dataset(task, size=index + 1, seed=seed)


def main(limit_s: float, parent: int) -> None:
    """Score lines by `judged`."""
    serve(judged, limit_s, parent, first=([f"{PREFIX}chain_sum/0/0"], "0"))

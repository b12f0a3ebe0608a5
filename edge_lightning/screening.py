"""Which problems of a pool become a training set: as EDGE-GRPO (arXiv:2507.21848, Section 4.1) makes Hard-1K and Random-1K.

Both draw from the problems of the pool whose answer is boxed in a reference solution. Every draw is a function of
(seed, problem), so neither the order of the pool nor what else is in it changes how two problems compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.rewards.base import Reward
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.seeds import counter_uniform
from edge_lightning.types import Problem, Verdict


class Selection(Protocol):
    """Chooses problems.

    Attributes:
        size: how many.
        needs_rates: whether the policy has to answer the problems first.
    """

    size: int
    needs_rates: bool

    def __call__(self, problems: Sequence[Problem], rates: Mapping[str, float]) -> list[Problem]:
        """The chosen problems, in the order in which they are written.

        Args:
            problems: at least `size`.
            rates: problem id -> share of the policy's samples that are right; empty where no rates are needed.
        """


class Hardest:
    """The `size` problems with the lowest rate, the lowest first; ties are drawn by seed."""

    needs_rates = True

    def __init__(self, size: int, seed: int = 0):
        require_at_least_one("selection.size", size)
        self.size, self.seed = size, seed

    def __call__(self, problems: Sequence[Problem], rates: Mapping[str, float]) -> list[Problem]:
        return sorted(problems, key=lambda p: (rates[p.id], counter_uniform(self.seed, "screen", p.id)))[: self.size]


class Drawn:
    """`size` problems at random, in the order of the pool; a larger draw contains the smaller one."""

    needs_rates = False

    def __init__(self, size: int, seed: int = 0):
        require_at_least_one("selection.size", size)
        self.size, self.seed = size, seed

    def __call__(self, problems: Sequence[Problem], rates: Mapping[str, float]) -> list[Problem]:
        places = sorted(range(len(problems)), key=lambda i: counter_uniform(self.seed, "screen", problems[i].id))
        return [problems[i] for i in sorted(places[: self.size])]


def with_solution(problems: Sequence[Problem], solutions: Literal["any", "boxed", "right"], reward: Reward) -> list[Problem]:
    r"""The problems with a solution of the wanted kind.

    Args:
        solutions: "any": also none; "boxed": one with a complete \boxed{...}; "right": one that grades right.
    """
    if solutions == "any":
        return list(problems)
    boxed = [p for p in problems if p.solution is not None and last_boxed(p.solution) is not None]
    if solutions == "boxed":
        return boxed
    verdicts = reward.judge([(p.answers, p.solution) for p in boxed])
    return [p for p, verdict in zip(boxed, verdicts) if verdict is Verdict.MATCHED]


def rates_of(rows: Sequence[Mapping]) -> dict[str, float]:
    """Problem id -> share of its responses that are right."""
    right: dict[str, list[bool]] = {}
    for row in rows:
        right.setdefault(row["problem_id"], []).append(row["correct"])
    return {name: sum(flags) / len(flags) for name, flags in right.items()}


def as_row(problem: Problem, rates: Mapping[str, float]) -> dict:
    """A line of the written set: problem, answer (a list where several are accepted), correctness_rate, solution, id.

    What is not known (no solution, no rate) is left out.
    """
    row = {
        "problem": problem.text,
        "answer": problem.answers[0] if len(problem.answers) == 1 else list(problem.answers),
        "correctness_rate": rates.get(problem.id),
        "solution": problem.solution,
        "id": problem.id,
    }
    return {key: value for key, value in row.items() if value is not None}


def require_enough(problems: Sequence[Problem], size: int) -> None:
    """Raise UserError where there are fewer problems than asked for; before any is put to a policy."""
    if size > len(problems):
        raise UserError(
            f"selection.size={size}: the pool holds {len(problems)} problems that can be taken; lower it, give a larger "
            "pool, or set solutions=any"
        )

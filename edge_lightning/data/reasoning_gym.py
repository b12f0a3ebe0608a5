"""Generated problems of Reasoning Gym (arXiv:2505.24760), a package of task generators with a scorer each.

A problem is a function of (task, seed, index), which its id spells, so that a grader can make it again and needs nothing but
the id. Left out: the tasks' difficulty options, training on them.
"""

from __future__ import annotations

import difflib
import warnings
from types import ModuleType

from edge_lightning.data.report import SetReport
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.types import Problem

PREFIX = "reasoning_gym"


class ReasoningGym:
    """`size` problems of one task, all held out.

    Most tasks draw their problem i from seed + i, so sets whose seeds differ by less than `size` share problems.

    Args:
        task: its name in the package.
        size: problems; a longer set begins with a shorter one.
        seed: of the generator.
    Raises:
        UserError: the package is not installed, or has no such task.
    """

    def __init__(self, *, task: str, size: int, seed: int = 0):
        require_at_least_one("data.problem_set.size", size)
        entries = generator(task, size, seed)
        self.report = SetReport(f"{PREFIX}/{task}", rows=size)
        self._problems = []
        for index in range(size):
            entry = entries[index]
            self._problems.append(Problem(f"{PREFIX}/{task}/{seed}/{index}", entry["question"], (entry["answer"],)))

    def train(self) -> list[Problem]:
        """None."""
        return []

    def held_out(self) -> list[Problem]:
        """The problems in the order of the generator. `answers` has the package's own answer, which may be one of many."""
        return list(self._problems)


def generator(task: str, size: int, seed: int):
    """The package's data set of a task: entries by index, and `score_answer(answer, entry)`.

    Raises:
        UserError: the package is not installed, or has no such task.
    """
    known = package().factory.DATASETS
    if task not in known:
        close = difflib.get_close_matches(task, known, n=3)
        meant = f"did you mean {' or '.join(close)}?" if close else f"one of its {len(known)} expected"
        raise UserError(f"data.problem_set.task={task}: Reasoning Gym has no such task; {meant}")
    return package().create_dataset(task, size=size, seed=seed)


def package() -> ModuleType:
    """reasoning_gym, which takes three seconds to import.

    Raises:
        UserError: it is not installed.
    """
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # of one of its dependencies
            import reasoning_gym
    except ModuleNotFoundError as error:
        if error.name != "reasoning_gym":
            raise
        raise UserError(
            "Reasoning Gym is not installed; install the project with the extra gym: pip install -e .[gym]"
        ) from None
    return reasoning_gym

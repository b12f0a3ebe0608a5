"""Reference solutions that are wrong on purpose, so that it can be measured what a method does with bad ones.

Left out: mistakes within a solution; a wrong one here is a good solution of another problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_uniform
from edge_lightning.types import Problem, Verdict

Judge = Callable[[Sequence[tuple[Sequence[str], str]]], Sequence[Verdict]]


def corrupt_solutions(problems: Sequence[Problem], share: float, judge: Judge) -> tuple[list[Problem], dict[str, str]]:
    """The problems with the solutions of a share of them replaced by those of others, with another answer.

    A hash of the id chooses them, so they are the same for every method and seed, and a larger share has those of a smaller
    one. Another hash says where among the problems the search for a solution begins; the first with another answer is taken.

    Args:
        problems: graded; only solutions that grade right are given to others. One without a solution gets none.
        share: of the problems, from 0 to 1; how many it is follows from the hash.
        judge: the verdict on each (accepted answers, whole solution).
    Returns:
        the problems in order, the replaced solutions not graded yet; and id -> id of the problem whose solution it has now.
    Raises:
        UserError: the share is none, or all the others' solutions have the same answer.
    """
    if not 0 <= share <= 1:
        raise UserError(f"data.corrupted_solutions={share}: a share from 0 to 1 expected")
    donors = [problem for problem in problems if problem.solution_right]
    chosen = [p for p in problems if p.solution is not None and counter_uniform("corrupted solution", p.id) < share]
    start = {p.id: int(counter_uniform("solution of another", p.id) * len(donors)) for p in chosen}
    found: dict[str, Problem] = {}
    for step in range(len(donors)):
        candidates = [(p, donors[(start[p.id] + step) % len(donors)]) for p in chosen if p.id not in found]
        verdicts = judge([(problem.answers, donor.solution) for problem, donor in candidates])
        found |= {p.id: donor for (p, donor), verdict in zip(candidates, verdicts) if verdict is Verdict.DIFFERS}
        if len(found) == len(chosen):
            break
    if len(found) < len(chosen):
        name = next(p.id for p in chosen if p.id not in found)
        raise UserError(
            f"data.corrupted_solutions={share}: problem {name!r} expects a solution with another answer among those of "
            f"{len(donors)} training problems that grade right, none came; set it to 0 or give more problems"
        )
    corrupted = [replace(p, solution=found[p.id].solution, solution_right=None) if p.id in found else p for p in problems]
    return corrupted, {name: donor.id for name, donor in found.items()}

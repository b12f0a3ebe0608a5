"""Which problems a base policy rarely solves, from the record of its evaluation.

Source: EAPO (arXiv:2609.33781), which tells how different the answers are to problems of which at most 25 % of 32 samples
were right before training. Left out: an evaluation of the base policy by itself; `edge-lightning validate` makes that
record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.errors import UserError
from edge_lightning.types import Problem


def rarely_solved(
    folder: str | Path, benchmark: str, problems: Sequence[Problem], *, at_most: float, key: str
) -> frozenset[str]:
    """The ids of the problems p with c_p / n_p <= at_most, c_p of the base policy's n_p responses right.

    Args:
        folder: of a run or validation, whose evaluation before the first step counts, or one that holds <benchmark>.parquet.
        benchmark: its name in the record.
        problems: each of which the record is to have, with the same accepted answers.
        at_most: a share from 0 to 1.
        key: of the folder, for messages.
    Raises:
        UserError: there is no such record, or it is of other problems.
    """
    path = _record(Path(folder), benchmark, key)
    try:
        rows = pq.read_table(path, columns=["problem_id", "gold", "correct"]).to_pylist()
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{path}: the record of an evaluation expected, it can't be read ({reason}); change {key}") from None
    right: dict[str, list[bool]] = {}
    golds: dict[str, tuple[str, ...]] = {}
    for row in rows:
        right.setdefault(row["problem_id"], []).append(row["correct"])
        golds[row["problem_id"]] = tuple(row["gold"])
    for problem in problems:
        if problem.id not in right:
            raise UserError(
                f"{path}: responses to problem {problem.id!r} expected, there are none; evaluate the base policy on the "
                f"same problems, or change {key}"
            )
        if golds[problem.id] != problem.answers:
            raise UserError(
                f"{path}: problem {problem.id!r} with the answers {list(problem.answers)} expected, it has "
                f"{list(golds[problem.id])} there; evaluate the base policy on the same problems, or change {key}"
            )
    return frozenset(p.id for p in problems if sum(right[p.id]) <= at_most * len(right[p.id]))


def _record(folder: Path, benchmark: str, key: str) -> Path:
    places = [folder / f"{benchmark}.parquet", folder / "evaluation" / "step_000000" / f"{benchmark}.parquet"]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UserError(
            f"{key}={folder}: the folder of a validation of the base policy expected (with evaluation/step_000000/"
            f"{benchmark}.parquet), none is there; make it by edge-lightning validate ckpt=BASE with the same evaluation"
        )
    return found

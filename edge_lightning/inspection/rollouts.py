"""The rollouts of a run, read back group by group, also while the run goes on: a file that is there is whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.errors import UserError


@dataclass(frozen=True)
class Group:
    """The responses to one problem in one step, in their order, as rows of the record (training/record.py)."""

    step: int
    problem_id: str
    responses: tuple[dict, ...]

    @cached_property
    def right_sampled(self) -> int:
        """How many were right as the policy sampled them."""
        return sum(row["sampled_right"] for row in self.responses)

    @cached_property
    def right(self) -> int:
        """How many are right after correction."""
        return sum(row["right"] for row in self.responses)

    @cached_property
    def corrected(self) -> int:
        return sum(row["text"] != row["sampled_text"] for row in self.responses)


def rollout_folder(run: Path) -> Path:
    """Where a run keeps its rollouts.

    Raises:
        UserError: it is no run, or has no step yet.
    """
    folder = run / "rollouts"
    if not any(folder.glob("step_*_rank_*.parquet")):
        found = "no step is in its rollouts/ yet" if (run / "config.yaml").exists() else "nothing of one is there"
        raise UserError(
            f"folder={run}: the folder of a training with rollouts expected, {found}; give outputs/fit/NAME/DATE"
        )
    return folder


def recorded_steps(folder: Path) -> list[int]:
    """The steps of which something is on disk, in order."""
    return sorted({int(path.name.split("_")[1]) for path in folder.glob("step_*_rank_*.parquet")})


def read_rows(folder: Path, step: int, columns: Sequence[str] | None = None) -> list[dict]:
    """All rows of a step over its ranks; none where a resumed run has cut it meanwhile.

    Args:
        columns: to read; None: all.
    """
    rows = []
    for path in sorted(folder.glob(f"step_{step:06d}_rank_*.parquet")):
        try:
            rows += _with_verdicts(read_table(path, columns).to_pylist())
        except FileNotFoundError:
            continue
    return rows


def groups_of(rows: Sequence[dict]) -> list[Group]:
    """The groups, in the order of their first rows. A problem that a step has twice makes two groups."""
    times: dict[tuple, int] = defaultdict(int)
    members: dict[tuple, list[dict]] = defaultdict(list)
    for row in rows:
        place = row["problem_id"], row["response_index"]
        members[row["problem_id"], times[place]].append(row)
        times[place] += 1
    return [
        Group(own[0]["step"], problem_id, tuple(sorted(own, key=lambda row: row["response_index"])))
        for (problem_id, _), own in members.items()
    ]


def read_groups(folder: Path, steps: Sequence[int]) -> Iterator[Group]:
    """The groups of some steps, step by step."""
    for step in steps:
        yield from groups_of(read_rows(folder, step))


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A parquet file of a run, of some columns those that are there. Raises UserError where it is none."""
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            return file.read(columns=there if columns is None else [name for name in columns if name in there])
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: a parquet file of a run expected, {error}; move it away") from error


def _with_verdicts(rows: list[dict]) -> list[dict]:
    """Rows recorded before verdicts were: right is an accuracy part of 1, and what correction changed was wrong."""
    for row in rows:
        if "right" not in row and row.get("reward_parts") is not None:
            row["right"] = dict(row["reward_parts"]).get("accuracy") == 1.0
            row["sampled_right"] = row["right"] and row["text"] == row["sampled_text"]
            row["gold"] = []
    return rows

"""What a run leaves on disk, step by step: metrics.csv and one parquet file of responses per step.

Both are complete on disk before the next step begins. On resume, rows after the checkpoint are cut, never doubled.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.experience import Rollout
from edge_lightning.training.update import Update
from edge_lightning.whole import whole


class MetricsFile:
    """metrics.csv: one row a step; a figure that a step has no value for is empty. Columns may join later.

    Rows stand on disk alone: in memory they would grow by some 10 KiB a step, names and all.
    """

    def __init__(self, path: Path):
        self.path = path
        self.columns = list(next(iter(self.rows), {}))

    @property
    def rows(self) -> list[dict[str, str]]:
        """Of the file; empty without one."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8", errors="replace")
        whole_lines = text[: text.rfind("\n") + 1]  # the last row of a killed run or a full disk may be a part of one
        rows = csv.DictReader(io.StringIO(whole_lines, newline=""))
        # A power cut may leave zeros behind what was brought to disk.
        return list(takewhile(lambda row: (row.get("step") or "").isdecimal(), rows))

    def cut_from(self, step: int) -> None:
        """Drop the rows of this and later steps."""
        self._rewrite([row for row in self.rows if int(row["step"]) < step])

    def append(self, step: int, metrics: dict[str, float]) -> None:
        row = {"step": step, **{k: v for k, v in metrics.items() if not math.isnan(v)}}
        new = [name for name in row if name not in self.columns]
        if new:
            self.columns += new
            self._rewrite([*self.rows, row])
        else:
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, self.columns, restval="").writerow(row)

    def column(self, name: str) -> list[float]:
        """The values of a figure, in the order of steps, where a step has one."""
        return column(self.rows, name)

    def _rewrite(self, rows: Sequence[dict]) -> None:
        with whole(self.path) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            writer.writeheader()
            writer.writerows(rows)


def column(rows: Sequence[dict[str, str]], name: str) -> list[float]:
    """The values of a figure, in the order of steps, where a step has one."""
    return [float(row[name]) for row in rows if row.get(name) not in (None, "")]


ROLLOUT_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("weights_version", pa.int64()),
        ("rank", pa.int32()),
        ("problem_id", pa.string()),
        ("response_index", pa.int32()),
        ("provenance", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("completion_ids", pa.list_(pa.int32())),
        ("sampled_mask", pa.list_(pa.bool_())),
        ("text", pa.string()),
        ("sampled_text", pa.string()),
        ("finish_reason", pa.string()),
        ("gold", pa.list_(pa.string())),
        ("sampled_right", pa.bool_()),
        ("right", pa.bool_()),
        ("sampled_reward", pa.float64()),
        ("reward", pa.float64()),
        ("reward_parts", pa.map_(pa.string(), pa.float64())),
        ("advantage", pa.float32()),
        ("entropy", pa.float32()),
        ("relative_entropy", pa.float32()),
        ("token_entropies", pa.list_(pa.float32())),
        ("token_advantages", pa.list_(pa.float32())),
        ("engine_logprobs", pa.list_(pa.float32())),
        ("old_logprobs", pa.list_(pa.float32())),
        ("seed", pa.int64()),
    ]
)


def rollout_path(folder: Path, step: int, rank: int) -> Path:
    return folder / f"step_{step:06d}_rank_{rank}.parquet"


def write_rollout(folder: Path, rollout: Rollout, update: Update, *, rank: int = 0) -> Path:
    """One row a response. A value that no pass or engine gave is null, never NaN."""
    lengths = [len(r.completion_ids) for r in rollout.responses]
    entropies = _split(update.entropies_N.tolist(), lengths)
    advantages = _split(update.token_advantages_N.tolist(), lengths)
    logprobs = _split(update.logprobs_N.tolist(), lengths)
    phat = update.constants.relative_entropy_B
    rows = [
        {
            "step": rollout.step,
            "weights_version": rollout.weights_version,
            "rank": rank,
            "problem_id": r.problem.id,
            "response_index": r.index,
            "provenance": str(r.provenance),
            "prompt_ids": r.prompt_ids,
            "completion_ids": r.completion_ids,
            "sampled_mask": r.sampled_mask,
            "text": r.text,
            "sampled_text": r.sampled_text,
            "finish_reason": r.finish_reason,
            "gold": r.problem.answers,
            "sampled_right": r.sampled_grade.right,
            "right": r.grade.right,
            "sampled_reward": r.sampled_grade.reward,
            "reward": r.grade.reward,
            "reward_parts": list(r.grade.parts.items()),
            "advantage": float(rollout.advantages_B[i]),
            "entropy": None if None in entropies[i] else sum(entropies[i]) / lengths[i],
            "relative_entropy": None if phat is None or phat[i].isnan() else float(phat[i]),
            "token_entropies": None if None in entropies[i] else entropies[i],
            "token_advantages": advantages[i],
            "engine_logprobs": r.engine_logprobs,
            "old_logprobs": None if None in logprobs[i] else logprobs[i],
            "seed": r.seed,
        }
        for i, r in enumerate(rollout.responses)
    ]
    path = rollout_path(folder, rollout.step, rank)
    with whole(path) as part:
        pq.write_table(pa.Table.from_pylist(rows, schema=ROLLOUT_SCHEMA), part, compression="zstd")
    return path


def cut_rollouts_from(folder: Path, step: int) -> None:
    """Remove the files of this and later steps."""
    for path in folder.glob("step_*_rank_*.parquet"):
        if int(path.name.split("_")[1]) >= step:
            path.unlink()


def _split(values: list[float], lengths: list[int]) -> list[list[float | None]]:
    """Per response, with None in place of NaN."""
    start, parts = 0, []
    for length in lengths:
        parts.append([None if math.isnan(v) else v for v in values[start : start + length]])
        start += length
    return parts

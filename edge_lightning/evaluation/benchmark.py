"""Evaluation of a policy on held-out problems. It samples and grades; correction is out of its reach."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.engine.base import Engine
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.evaluation.sampling import graded_rows
from edge_lightning.evaluation.scores import mean_with_interval, pass_at_k
from edge_lightning.policy import Policy
from edge_lightning.prompts import Prompt
from edge_lightning.rewards.base import Reward
from edge_lightning.types import Problem, Sampling


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """How problems are put to a policy.

    Attributes:
        name: of the benchmark, in metrics and files.
        problems: how many of the held-out problems, None for all of them.
        samples: responses per problem (n).
        temperature, top_p: of sampling.
        response_limit: new tokens of a response.
        k: the k of pass@k, each at most n.
        seed: of sampling, the same for every run and step, so that two evaluations differ by their policies alone.
    """

    name: str
    problems: int | None
    samples: int
    temperature: float
    top_p: float
    response_limit: int
    k: tuple[int, ...] = (1,)
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise UserError(f"evaluation.benchmarks: name={self.name!r}: a name without / expected, since files bear it")
        require_at_least_one(f"evaluation.benchmarks.{self.name}.samples", self.samples)
        require_at_least_one(f"evaluation.benchmarks.{self.name}.response_limit", self.response_limit)
        if not 0 <= self.temperature <= 100 or not 0 < self.top_p <= 1:
            raise UserError(
                f"evaluation.benchmarks.{self.name}: temperature={self.temperature}, top_p={self.top_p}: a temperature "
                "from 0 (greedy) to 100 and 0 < top_p <= 1 expected"
            )
        if any(not 1 <= k <= self.samples for k in self.k):
            raise UserError(f"evaluation {self.name}: k={list(self.k)}, each between 1 and samples={self.samples} expected")

    def choose(self, held_out: Sequence[Problem]) -> list[Problem]:
        """The problems of this benchmark.

        Raises:
            UserError: there are fewer held-out problems than asked for.
        """
        wanted = len(held_out) if self.problems is None else self.problems
        if not 1 <= wanted <= len(held_out):
            raise UserError(
                f"evaluation {self.name}: {wanted} problems asked for, the data hold {len(held_out)} held-out ones; "
                f"set evaluation.benchmarks.{self.name}.problems=null for all of them, or hold out more of the data"
            )
        return list(held_out[:wanted])


@dataclass(frozen=True)
class Evaluation:
    """Rows (one a response) and metrics of one benchmark at one step."""

    rows: list[dict]
    metrics: dict[str, float]


def evaluate(
    benchmark: Benchmark,
    problems: Sequence[Problem],
    *,
    policy: Policy,
    engine: Engine,
    prompt: Prompt,
    reward: Reward,
    step: int,
    weights_version: int,
    responses_at_a_time: int = 256,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """Sample and grade every problem exactly once per sample index.

    Args:
        responses_at_a_time: asked of the engine together; changes no response.
        on_progress: called with the number of problems done.
    Raises:
        UserError: the engine does not sample from the policy.
    """
    rows: list[dict] = []
    for chunk in graded_rows(
        problems,
        policy=policy,
        engine=engine,
        prompt=prompt,
        reward=reward,
        sampling=Sampling(benchmark.temperature, benchmark.top_p),
        samples=benchmark.samples,
        response_limit=benchmark.response_limit,
        seed_name=benchmark.name,
        seed=benchmark.seed,
        weights_version=weights_version,
        responses_at_a_time=responses_at_a_time,
    ):
        rows += [{"step": step, "benchmark": benchmark.name, **row} for row in chunk]
        on_progress(len(rows) // benchmark.samples)
    return Evaluation(rows, summarize(rows, benchmark))


def summarize(rows: Sequence[dict], benchmark: Benchmark) -> dict[str, float]:
    """avg@n with interval, pass@k, format and truncation rates, mean length, n of problems and samples."""
    right: dict[str, list[bool]] = {}
    for row in rows:
        right.setdefault(row["problem_id"], []).append(row["correct"])
    accuracy, low, high = mean_with_interval([sum(flags) / len(flags) for flags in right.values()])
    metrics = {"accuracy": accuracy, "accuracy_low": low, "accuracy_high": high}
    for k in benchmark.k:
        metrics[f"pass@{k}"] = sum(pass_at_k(len(f), sum(f), k) for f in right.values()) / len(right)
    metrics["formatted"] = sum(row["formatted"] for row in rows) / len(rows)
    metrics["truncated"] = sum(row["finish_reason"] == "length" for row in rows) / len(rows)
    metrics["tokens"] = sum(row["tokens"] for row in rows) / len(rows)
    metrics["problems"] = len(right)
    metrics["samples"] = benchmark.samples
    return metrics


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """evaluation/step_*/<benchmark>.parquet, whole or not at all."""
    first = evaluation.rows[0]
    path = folder / f"step_{first['step']:06d}" / f"{first['benchmark']}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    pq.write_table(pa.Table.from_pylist(evaluation.rows, schema=EVALUATION_SCHEMA), part, compression="zstd")
    os.replace(part, path)


EVALUATION_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("weights_version", pa.int64()),
        ("benchmark", pa.string()),
        ("problem_id", pa.string()),
        ("response_index", pa.int32()),
        ("text", pa.string()),
        ("answer", pa.string()),
        ("gold", pa.list_(pa.string())),
        ("correct", pa.bool_()),
        ("formatted", pa.bool_()),
        ("finish_reason", pa.string()),
        ("tokens", pa.int32()),
        ("entropy", pa.float32()),
        ("seed", pa.int64()),
    ]
)

"""A run's record, read back: what it was, what it cost, its curves and its final scores.

What a report needs is summary.json, metrics.csv (or metrics.csv.gz) and evaluation/step_*/<benchmark>.parquet with the
columns problem_id and correct. A file that can't be read is damaged, which is said, and the rest of the record is used.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

LOG = "job.log"  # what a job of a sweep said on stderr
METRICS = ("metrics.csv", "metrics.csv.gz")
FINISHED, INTERRUPTED, UNFINISHED, NOT_STARTED = "finished", "interrupted", "unfinished", "not started"
FIGURES = ("before", "after", "tokens", "seconds")  # of a summary: numbers by name
KINDS = {"seed": int, "steps": int, "status": str, "overrides": list, "evaluated_steps": list, "versions": dict}
KINDS |= {"git_commit": str} | dict.fromkeys(FIGURES, dict)


class Damaged(Exception):
    """A file that can't be read: its path and why."""


@dataclass(frozen=True)
class Run:
    """One run of `fit`.

    Attributes:
        place: of its folder, below the folder that is reported on.
        status: that of its summary; without one `unfinished` where steps are on disk (it is under way, or was killed), else
            `not started` (it failed before its first step, or is about to begin).
        settings: what was set on the command line, by key.
        config: the resolved configuration; empty where it was not kept.
        metrics: a column a figure, one value a step, NaN where a step has none; `step` among them.
        reason: the last line by which a job that did not finish said why; empty where there is none.
        before, after: figures of the evaluations, as in the summary.
        scores: by benchmark, the share right of each problem's responses, of the last evaluation.
    """

    place: str
    ablation: str
    data: str
    model: str
    seed: int
    status: str
    settings: dict[str, str]
    config: dict = field(default_factory=dict)
    steps: int = 0
    tokens: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] | None = None
    after: dict[str, float] | None = None
    versions: dict[str, str | None] = field(default_factory=dict)
    git_commit: str | None = None
    reason: str = ""
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def final(self) -> dict[str, float]:
        """Figures of the evaluation after training, or of the policy itself where there was none to do."""
        return (self.before if self.evaluated_only else self.after) or {}

    @property
    def evaluated_only(self) -> bool:
        return self.status == FINISHED and self.steps == 0


@dataclass
class Records:
    """All that was found below a folder.

    Attributes:
        damaged: path and reason of each file that can't be read.
        others: records of other commands, which no report is made of.
        jobs: what the sweeps below the folder were to run, each job's settings by key.
    """

    runs: list[Run]
    damaged: list[tuple[str, str]]
    others: int
    jobs: list[dict[str, str]]


def read_run(folder: Path, place: str, damaged: list[tuple[str, str]]) -> Run | None:
    """The run whose record a folder is; None if it is that of another command, or can't be read.

    Args:
        damaged: gets what can't be read.
    """

    def attempt(read, path: Path, otherwise):
        try:
            return read(path) if path.exists() else otherwise
        except Damaged as reason:
            damaged.append((f"{place}/{path.relative_to(folder)}", str(reason)))
            return otherwise

    unread: dict = {}
    summary = attempt(read_summary, folder / "summary.json", unread)
    if summary is unread and (folder / "summary.json").exists():
        return None
    config = attempt(read_config, folder / "config.yaml", {}) or attempt(read_config, folder / ".hydra" / "config.yaml", {})
    if summary.get("command", config.get("command", "fit")) != "fit":
        return None
    overrides = summary.get("overrides")
    if overrides is None:
        overrides = attempt(read_yaml, folder / ".hydra" / "overrides.yaml", [])
    settings = as_settings(overrides)
    metrics: dict[str, np.ndarray] = {}
    for name in METRICS:
        metrics = metrics or attempt(read_metrics, folder / name, {})

    def named(group: str) -> str:
        inside = config[group].get("name") if isinstance(config.get(group), dict) else None
        return str(summary.get(group) or inside or settings.get(group) or "unknown")

    seeds = summary.get("seed"), config.get("seed"), settings.get("seed"), 0
    try:
        seed = int(next(seed for seed in seeds if seed is not None))
    except (TypeError, ValueError):
        damaged.append((place, f"a whole number as seed expected, {seeds[:3]} came"))
        return None
    run = Run(
        place=place,
        ablation=named("ablation"),
        data=named("data"),
        model=named("model"),
        seed=seed,
        status=summary.get("status") or (UNFINISHED if metrics else NOT_STARTED),
        settings=settings,
        config=config,
        steps=summary.get("steps", len(metrics.get("step", ()))),
        tokens=summary.get("tokens") or {},
        seconds=summary.get("seconds") or {},
        before=summary.get("before"),
        after=summary.get("after"),
        versions=summary.get("versions") or {},
        git_commit=summary.get("git_commit"),
        reason="" if summary.get("status") == FINISHED else last_words(folder / LOG),
        metrics=metrics,
    )
    for path in last_evaluation(folder, summary):
        found, told = attempt(read_scores, path, {}), run.final.get(f"{path.stem}/accuracy")
        if not found or told is None:
            continue
        if abs(mean := sum(found.values()) / len(found) - told) > 1e-6:
            damaged.append((f"{place}/{path.relative_to(folder)}", f"its rows are {mean:+.4f} off the summary's {told:.4f}"))
        else:
            run.scores[path.stem] = found
    return run


def as_settings(overrides: list[str]) -> dict[str, str]:
    """Overrides of a command line by key; the last one of a key holds."""
    pairs = (str(override).lstrip("+~").partition("=") for override in overrides or ())
    return {key: value.strip("'\"") for key, _, value in pairs}


def last_evaluation(folder: Path, summary: dict) -> Iterator[Path]:
    """The files of the evaluation whose figures the summary ends with; none for a run without a summary."""
    steps = summary.get("evaluated_steps") or []
    if steps:
        yield from sorted((folder / "evaluation" / f"step_{steps[-1]:06d}").glob("*.parquet"))


def last_words(path: Path) -> str:
    """The one line with which a command says why it failed, the last of a log, without the folder's own path."""
    if not path.exists():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line.partition(": ")[2] for line in lines if line.startswith("edge-lightning ")]
    return said[-1].replace(str(path.parent.resolve()), path.parent.name)[:300] if said else ""


def read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise Damaged(f"JSON expected; {_one_line(error)}") from None
    if not isinstance(content, dict):
        raise Damaged(f"a JSON object expected, {type(content).__name__} came")
    return content


def read_summary(path: Path) -> dict:
    content = read_json(path)
    for key, kind in KINDS.items():
        value = content.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise Damaged(f"{key}: {kind.__name__} expected, {type(value).__name__} came")
    for key in FIGURES:
        for name, value in (content.get(key) or {}).items():
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise Damaged(f"{key}, {name}: a finite number expected, {value!r} came")
    if not all(isinstance(step, int) for step in content.get("evaluated_steps") or ()):
        raise Damaged("evaluated_steps: whole numbers expected")
    return {key: value for key, value in content.items() if value is not None}


def read_config(path: Path) -> dict:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise Damaged(f"keys and values expected, {type(content).__name__} came")
    return content


def read_yaml(path: Path):
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise Damaged(f"YAML expected; {_one_line(error)}") from None


def read_metrics(path: Path) -> dict[str, np.ndarray]:
    """Columns of a table of one row a step; an empty cell is NaN. A last line without its end is not written yet."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
        rows = list(csv.DictReader(lines, strict=True))
        if rows and "step" not in rows[0]:
            raise ValueError("there is no column step")
        if any(None in row or None in row.values() for row in rows):
            raise ValueError("there are lines with more or fewer cells than the first")
        columns = list(rows[0]) if rows else []
        return {name: np.array([float(row[name] or "nan") for row in rows]) for name in columns}
    except (csv.Error, EOFError, OSError, ValueError, TypeError, zlib.error) as error:
        raise Damaged(f"a table of numbers expected; {_one_line(error)}") from None


def read_scores(path: Path) -> dict[str, float]:
    """Share right of each problem's responses, in the order of the ids."""
    try:
        table = pq.read_table(path, columns=["problem_id", "correct"])
        table = table.set_column(1, "correct", table["correct"].cast(pa.float64()))
        means = table.group_by("problem_id").aggregate([("correct", "mean")])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise Damaged(f"parquet with problem_id and correct expected; {_one_line(error)}") from None
    if table["problem_id"].null_count or table["correct"].null_count:
        raise Damaged("parquet with problem_id and correct expected; some are empty")
    return dict(sorted(zip(means["problem_id"].to_pylist(), means["correct_mean"].to_pylist(), strict=True)))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]

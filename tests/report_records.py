"""Run records as `fit` leaves them, written by hand: small, and with numbers that a test can work out."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.cli import hydra_app
from edge_lightning.cli.report import report, sweep_jobs
from edge_lightning.report.methods import sections
from edge_lightning.report.tree import read_tree

CURVES = {"reward/mean_sampled": [0.0, 0.5], "reward/mean_corrected": [0.5, 0.5], "gradient/norm": [0.0, 2.0]}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_run(
    folder: Path,
    *,
    ablation: str = "grpo",
    seed: int = 0,
    scores: dict[str, dict[str, list[int]]] | None = None,
    before: dict[str, float] | None = None,
    metrics: dict[str, list[float | None]] | None = None,
    overrides: tuple[str, ...] = (),
    packed: bool = False,
    **summary: object,
) -> Path:
    """A record.

    Args:
        scores: by benchmark and problem, for each response of the last evaluation whether it is right.
        before: accuracy by benchmark.
        metrics: columns of metrics.csv; `step` is added.
        packed: metrics.csv.gz in place of metrics.csv.
        summary: what differs from a run that has finished.
    """
    folder.mkdir(parents=True)
    steps = summary.get("steps", len(next(iter(metrics.values()))) if metrics else 2)
    scores = {"smoke": {"a": [1], "b": [0]}} if scores is None else scores
    figures = {f"{name}/accuracy": sum(_rates(rows)) / len(rows) for name, rows in scores.items()}
    if len(scores) > 1:
        rates = [rate for rows in scores.values() for rate in _rates(rows)]
        figures["average/accuracy"] = sum(rates) / len(rates)
    start = {f"{name}/accuracy": value for name, value in (before or {}).items()} or None
    content = {
        "command": "fit",
        "name": f"{ablation}-seed{seed}",
        "ablation": ablation,
        "model": "tiny",
        "data": "arithmetic_hard",
        "seed": seed,
        "overrides": [f"ablation={ablation}", f"seed={seed}", *overrides],
        "status": "finished",
        "steps": steps,
        "tokens": {"sampled": 1000, "regenerated": 200, "injected": 50} if steps else {},
        "seconds": {"generate": 10.0, "train": 20.0, "whole_run": 40.0},
        "before": start if steps else figures,
        "after": figures if steps else None,
        "evaluated_steps": [0, steps] if steps else [0],
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "git_commit": COMMIT,
        **summary,
    }
    (folder / "summary.json").write_text(json.dumps(content))
    for name, rows in scores.items():
        write_scores(folder / "evaluation" / f"step_{content['evaluated_steps'][-1]:06d}" / f"{name}.parquet", rows)
    if metrics:
        write_metrics(folder, metrics, packed=packed)
    return folder


def write_scores(path: Path, rows: dict[str, list[int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    flat = [(problem, index, bool(right)) for problem, rights in rows.items() for index, right in enumerate(rights)]
    columns = {
        "step": [2] * len(flat),
        "benchmark": [path.stem] * len(flat),
        "problem_id": [row[0] for row in flat],
        "response_index": [row[1] for row in flat],
        "correct": [row[2] for row in flat],
        "tokens": [5] * len(flat),
    }
    pq.write_table(pa.table(columns), path)


def write_metrics(folder: Path, metrics: dict[str, list[float | None]], *, packed: bool = False) -> None:
    """None is an empty cell."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(metrics, values, strict=True)) for values in zip(*metrics.values(), strict=True)]
    opened, name = (gzip.open, "metrics.csv.gz") if packed else (open, "metrics.csv")
    with opened(folder / name, "wt", newline="") as file:
        writer = csv.DictWriter(file, ["step", *metrics])
        writer.writeheader()
        writer.writerows({"step": step, **row} for step, row in enumerate(rows))


def _rates(rows: dict[str, list[int]]) -> list[float]:
    return [sum(rights) / len(rights) for rights in rows.values()]


def read(folder):
    return read_tree(folder, expand=sweep_jobs)


def methods(folder, section=0):
    return sections(read(folder))[section].methods


def run(*arguments):
    return hydra_app.run("report", [str(a) for a in arguments], report)


def written(folder, *arguments):
    """The Markdown of a report on a folder."""
    assert run(folder, *arguments) == 0
    return (folder / "report" / "report.md").read_text()


def row(markdown, label):
    """Cells of the table rows that begin with a label."""
    return [
        [c.strip() for c in line.strip("|").split("|")] for line in markdown.splitlines() if line.startswith(f"| {label} |")
    ]

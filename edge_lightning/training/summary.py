"""summary.json: what a run was, what it cost and what came of it."""

from __future__ import annotations

import json
from pathlib import Path

from edge_lightning.training.record import MetricsFile, column
from edge_lightning.whole import whole

FIRST_AND_LAST_STEPS = 10


def training_figures(metrics: MetricsFile) -> dict:
    """Steps, tokens by origin, seconds by stage, and group figures over the first and the last steps of a run."""
    rows = metrics.rows
    seconds = {name.split("/")[1]: sum(column(rows, name)) for name in metrics.columns if name.startswith("seconds/")}
    tokens = {name.split("/")[1]: int(sum(column(rows, name))) for name in metrics.columns if name.startswith("tokens/")}
    groups = {}
    for name in ("all_wrong_sampled", "all_wrong_corrected", "zero_variance_sampled", "zero_variance_corrected"):
        values = column(rows, f"group/{name}")
        window = min(FIRST_AND_LAST_STEPS, len(values) // 2)  # first and last steps are not the same ones
        head, tail = values[:window], values[-window:]
        if window:
            groups[name] = {
                "first": sum(head) / len(head),
                "last": sum(tail) / len(tail),
                "mean": sum(values) / len(values),
                "steps_in_first_and_last": len(head),
            }
    return {"steps": len(rows), "tokens": tokens, "seconds": seconds, "groups": groups}


def write_json(path: Path, content: dict) -> None:
    """Whole or not at all."""
    with whole(path) as part:
        part.write_text(json.dumps(content, indent=2) + "\n")

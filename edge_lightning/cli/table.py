"""What a finished command prints: a small table from its summary."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_summary(summary: dict, folder: Path) -> None:
    """Accuracy with interval before and after, groups without a right answer, where time went, where files are."""
    console = Console(highlight=False)
    console.print(summary_table(summary))
    console.print("pass@1 on held-out problems x samples, with its 95 % interval over problems", soft_wrap=True)
    if summary.get("overrides"):
        console.print(f"given     {escape(' '.join(summary['overrides']))}", soft_wrap=True)
    seconds = {k: v for k, v in summary["seconds"].items() if k != "whole_run" and v >= 0.05}
    spent = ", ".join(f"{stage} {value:.1f}" for stage, value in sorted(seconds.items(), key=lambda kv: -kv[1]))
    console.print(f"seconds   {summary['seconds']['whole_run']:.0f} in all: {spent}", soft_wrap=True)
    if "tokens" in summary:
        tokens = ", ".join(f"{kind} {count:,}" for kind, count in summary["tokens"].items())
        console.print(f"tokens    {tokens}", soft_wrap=True)
    place = escape(min(str(folder), os.path.relpath(folder), key=len))
    console.print(f"files     {place}", soft_wrap=True)
    if summary["command"] == "fit":
        console.print(f"curves    {tensorboard_command()} --logdir {place}", soft_wrap=True)


def tensorboard_command() -> str:
    """tensorboard as it can be typed here: by name where it is on the path, else beside this Python."""
    beside = Path(sys.executable).with_name("tensorboard")
    return "tensorboard" if shutil.which("tensorboard") or not beside.exists() else os.path.relpath(beside)


def summary_table(summary: dict) -> Table:
    """Columns before and after for a fit, one for a validation."""
    fitted = summary["command"] == "fit"
    columns = [summary["before"] or {}, summary["after"] or {}] if fitted else [summary["metrics"]]
    steps = f"{summary['steps']} steps, " if fitted else ""
    table = Table(title=f"{summary['name']}: {steps}{summary['status']}", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("before", "after") if fitted else ("value",):
        table.add_column(heading, justify="right", no_wrap=True)
    known = {key: value for column in columns for key, value in column.items()}
    for name in sorted({key.split("/")[0] for key in known}):
        size = f"{known[f'{name}/problems']:.0f} x {known[f'{name}/samples']:.0f}"
        table.add_row(f"pass@1, {name} ({size})", *(_with_interval(column, name) for column in columns))
        for key in sorted(k for k in known if k.startswith(f"{name}/pass@") and not k.endswith("@1")):
            table.add_row(f"{key.split('/')[1]}", *(_number(column.get(key)) for column in columns))
    groups = summary.get("groups", {})
    if "all_wrong_sampled" in groups and summary["tokens"]["sampled"]:
        n = groups["all_wrong_sampled"]["steps_in_first_and_last"]
        table.add_section()
        table.add_row("groups without a right answer", f"first {n} steps", f"last {n} steps")
        for label, key in (("as sampled", "all_wrong_sampled"), ("after correction", "all_wrong_corrected")):
            table.add_row(f"  {label}", _percent(groups[key]["first"]), _percent(groups[key]["last"]))
    return table


def _with_interval(metrics: dict, name: str) -> str:
    if f"{name}/accuracy" not in metrics:
        return "-"
    value, low, high = (metrics[f"{name}/accuracy{end}"] for end in ("", "_low", "_high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]".replace("[", r"\[")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"

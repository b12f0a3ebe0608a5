"""What a finished command prints: small tables from its summary."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_lightning.evaluation.benchmark import AVERAGE


def print_summary(summary: dict, folder: Path) -> None:
    """Accuracy with interval before and after, groups without a right answer, where time went, where files are."""
    console = Console(highlight=False)
    for table in tables(summary):
        console.print(table)
    console.print("pass@1: mean over problems and samples, with its 95 % interval over problems", soft_wrap=True)
    if summary.get("overrides"):
        console.print(f"given     {escape(' '.join(summary['overrides']))}", soft_wrap=True)
    seconds = {k: v for k, v in summary["seconds"].items() if k != "whole_run" and v >= 0.05}
    spent = ", ".join(f"{stage} {value:.1f}" for stage, value in sorted(seconds.items(), key=lambda kv: -kv[1]))
    console.print(f"seconds   {summary['seconds']['whole_run']:.0f} in all: {spent}", soft_wrap=True)
    if summary.get("tokens"):
        tokens = ", ".join(f"{kind} {count:,}" for kind, count in summary["tokens"].items())
        console.print(f"tokens    {tokens}", soft_wrap=True)
    place = escape(min(str(folder), os.path.relpath(folder), key=len))
    console.print(f"files     {place}", soft_wrap=True)
    if summary["command"] == "fit":
        console.print(f"curves    {as_typed('tensorboard')} --logdir {place}", soft_wrap=True)
        if summary["steps"]:
            console.print(f"groups    {as_typed('edge-lightning')} inspect {place}", soft_wrap=True)


def as_typed(program: str) -> str:
    """A program as it can be typed here: by name where it is on the path, else beside this Python."""
    beside = Path(sys.executable).with_name(program)
    return program if shutil.which(program) or not beside.exists() else os.path.relpath(beside)


def tables(summary: dict) -> list[Table]:
    """What came of a fit, before and after, or of a validation; then how the responses look at the end."""
    if summary["command"] != "fit":
        return [
            accuracy_table(summary, {"value": summary["metrics"]}),
            responses_table(summary["metrics"], "responses"),
            *rarely_solved_table(summary["metrics"]),
        ]
    before, after = summary["before"] or {}, summary["after"] or {}
    if summary["steps"] == 0:
        return [accuracy_table(summary, {"value": before}), responses_table(before, "responses")]
    found = [accuracy_table(summary, {"before": before, "after": after})]
    return [*found, responses_table(after, "responses after"), *rarely_solved_table(after)] if after else found


def accuracy_table(summary: dict, columns: dict[str, dict]) -> Table:
    """One row a benchmark and pass@k, the averages below; a column for each set of metrics."""
    steps = f"{summary['steps']} steps, " if summary["command"] == "fit" else ""
    table = Table(title=f"{summary['name']}: {steps}{summary['status']}", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    known = {key: value for column in columns.values() for key, value in column.items()}
    for name in benchmark_names(known):
        if name == AVERAGE:
            table.add_section()
        table.add_row(f"pass@1, {_label(known, name)}", *(_with_interval(column, name) for column in columns.values()))
        if name == AVERAGE:
            plain = f"{AVERAGE}/accuracy_of_benchmarks"
            table.add_row("pass@1, mean of benchmarks", *(_number(column.get(plain)) for column in columns.values()))
        for k in pass_at(known, name):
            table.add_row(f"pass@{k}", *(_number(column.get(f"{name}/pass@{k}")) for column in columns.values()))
    groups = summary.get("groups", {})
    if "all_wrong_sampled" in groups and summary["tokens"]["sampled"]:
        n = groups["all_wrong_sampled"]["steps_in_first_and_last"]
        table.add_section()
        table.add_row("groups without a right answer", f"first {n} steps", f"last {n} steps")
        for label, key in (("as sampled", "all_wrong_sampled"), ("after correction", "all_wrong_corrected")):
            table.add_row(f"  {label}", _percent(groups[key]["first"]), _percent(groups[key]["last"]))
    return table


def responses_table(metrics: dict, heading: str) -> Table:
    """Shares of responses with a box and of those cut at the limit, their mean length; diversity for several samples."""
    columns = {"boxed": ("formatted", _percent), "cut off": ("truncated", _percent), "tokens": ("tokens", _whole)}
    if any(key.endswith("/answer_entropy") for key in metrics):
        columns |= {"answer entropy": ("answer_entropy", _number), "collisions": ("collision_rate", _number)}
    return _figures_table(metrics, heading, columns)


def rarely_solved_table(metrics: dict) -> list[Table]:
    """Accuracy and diversity on the problems that a base policy rarely solves; nothing where nobody asked for them."""
    columns = {
        "problems": ("problems_rarely_solved", _whole),
        "pass@1": ("accuracy_rarely_solved", _number),
        "answer entropy": ("answer_entropy_rarely_solved", _number),
        "collisions": ("collision_rate_rarely_solved", _number),
    }
    asked = any(key.endswith("/problems_rarely_solved") for key in metrics)
    return [_figures_table(metrics, "rarely solved", columns)] if asked else []


def _figures_table(metrics: dict, heading: str, columns: dict[str, tuple[str, Callable[[float], str]]]) -> Table:
    """A row for each benchmark, a column for each figure."""
    table = Table()
    table.add_column(heading, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for name in benchmark_names(metrics):
        if name == AVERAGE:
            table.add_section()
        cells = [(metrics.get(f"{name}/{key}"), write) for key, write in columns.values()]
        table.add_row(name, *("-" if value is None else write(value) for value, write in cells))
    return table


def benchmark_names(metrics: dict) -> list[str]:
    """Benchmarks in the order of the metrics, then the average."""
    names = list(dict.fromkeys(key.split("/")[0] for key in metrics))
    return [name for name in names if name != AVERAGE] + [name for name in names if name == AVERAGE]


def pass_at(metrics: dict, name: str) -> list[int]:
    """The k of a benchmark's pass@k, save 1, which its accuracy is."""
    return sorted(
        int(k) for key in metrics for head, _, k in [key.partition("/pass@")] if head == name and k not in ("", "1")
    )


def _label(metrics: dict, name: str) -> str:
    problems, samples = metrics[f"{name}/problems"], metrics.get(f"{name}/samples")
    return f"{name} ({problems:.0f}{'' if samples is None else f' x {samples:.0f}'})"


def _with_interval(metrics: dict, name: str) -> str:
    if f"{name}/accuracy" not in metrics:
        return "-"
    value, low, high = (metrics[f"{name}/accuracy{end}"] for end in ("", "_low", "_high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]".replace("[", r"\[")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"

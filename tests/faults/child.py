"""Runs in processes of their own, forked from one that has imported everything: a start takes no time, and may be killed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

LIMIT_S = 600.0  # a guard against hanging, not a claim about speed


def run_child(folder: Path, overrides: tuple[str, ...], prepare: Callable | None = None, *given: object) -> tuple[int, str]:
    """`fit` in a process of its own: its exit status, negative for a signal, and what it said on stderr.

    Args:
        prepare: called with `given` in that process, before the command; of a module, so that it can be named there.
    Raises:
        AssertionError: it does not end.
    """
    child = start_child(folder, overrides, prepare, *given)
    child.join(LIMIT_S)
    hangs = child.exitcode is None
    if hangs:
        child.kill()
        child.join()
    assert not hangs, f"still at work after {LIMIT_S:.0f} s: {said_by(folder)}"
    return child.exitcode, said_by(folder)


def start_child(folder: Path, overrides: tuple[str, ...], prepare: Callable | None = None, *given: object) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.stages", "tests.run_record", "edge_lightning.cli.build"])
    child = context.Process(target=_fit, args=(folder, overrides, _said(folder), prepare, given))
    child.start()
    return child


def said_by(folder: Path) -> str:
    """What the last process of a folder said."""
    return _said(folder).read_text()


def _said(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.stderr")


def _fit(folder: Path, overrides: tuple[str, ...], said: Path, prepare: Callable | None, given: tuple) -> None:
    from tests.run_record import here

    error = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(error, 1)
    os.dup2(error, 2)
    if prepare is not None:
        prepare(*given)
    raise SystemExit(here("fit", folder, *overrides))

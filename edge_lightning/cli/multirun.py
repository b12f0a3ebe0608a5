"""Sweeps: each job is a fresh process with the command line of a single run; a failed one is listed, the rest go on.

    edge-lightning fit -m ablation=grpo,full seed=0,1,2               a new sweep
    edge-lightning fit -m resume=DIR                                  go on with it, under its own overrides
    edge-lightning fit -m ... hydra.sweep.dir=DIR resume=DIR          the same, with the sweep given again; it may be larger

Going on skips finished jobs, resumes those with a checkpoint and starts the rest; what a job has left without reaching a
checkpoint is moved aside. A Hydra launcher runs jobs where it likes: `Job` is pickled, and what it returns is all that comes
back from there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from edge_lightning.cli.job_process import run_process
from edge_lightning.cli.resume import (
    can_go_on,
    claimed,
    is_finished,
    move_aside,
    quoted,
    read_overrides,
    read_yaml,
    split_resume,
)
from edge_lightning.errors import UserError
from edge_lightning.evaluation.benchmark import AVERAGE

LOG = "job.log"  # a job's stderr
MULTIRUN = "multirun.yaml"  # Hydra's record of a sweep
_OF_THE_SWEEP = ("hydra.sweep.dir", "hydra.output_subdir", "hydra.mode")  # set anew each time


@dataclass(frozen=True)
class Outcome:
    """What came of a job; `failure` is the line that says why not, None where there is none."""

    number: int
    overrides: Sequence[str]
    folder: Path
    failure: str | None = None


@dataclass(frozen=True)
class Job:
    """What a launcher is handed: runs the job that Hydra's configuration describes at the time.

    Args:
        command: of the jobs.
        goes_on: whether what lies in a job's folder is gone on with; otherwise the job refuses it.
    """

    command: str
    goes_on: bool

    def __call__(self, cfg: DictConfig) -> Outcome:
        job = HydraConfig.get()
        number, overrides, folder = job.job.num, list(job.overrides.task), Path(job.runtime.output_dir)
        label = f"job {number}: "
        try:
            arguments = self.arguments(overrides, folder, label)
        except UserError as error:
            return Outcome(number, overrides, folder, str(error))
        if arguments is None:
            print(f"{label}skipped: finished, {' '.join(overrides)}", flush=True)
            return Outcome(number, overrides, folder)
        print(f"{label}edge-lightning {self.command} {' '.join(overrides)}", flush=True)
        failure = run_process([self.command, *arguments], folder / LOG, label=label)
        return Outcome(number, overrides, folder, failure)

    def arguments(self, overrides: list[str], folder: Path, label: str) -> list[str] | None:
        """The command line that has the job done; None where it is.

        Raises:
            UserError: another process is at work in the folder, or another job's record lies there.
        """
        anew = [*overrides, f"hydra.run.dir={quoted(folder)}"]
        with claimed(folder):
            if not self.goes_on or not any(folder.iterdir()):
                return anew
            finished = is_finished(folder)
            if not finished and not can_go_on(folder, self.command):
                print(f"{label}moved aside what was begun, to {move_aside(folder).name}", flush=True)
                folder.mkdir()
                return anew
        recorded = folder / ".hydra" / "overrides.yaml"  # what keep_records.py has put back has none, but its name says all
        before = sorted(read_overrides(recorded)) if recorded.exists() else sorted(overrides)
        if before != sorted(overrides):
            raise UserError(f"{folder} is that of {' '.join(before)}; set hydra.sweep.dir or hydra.sweep.subdir to another")
        return None if finished else [f"resume={quoted(folder)}"]


def sweep_overrides(overrides: list[str], command: str) -> tuple[list[str], bool]:
    """The overrides of a sweep without resume, those of an earlier one read back, and whether it goes on.

    Raises:
        UserError: the folder is no multirun of this command, or an override would make other jobs than it has.
    """
    given, rest = split_resume(overrides)
    if given is None:
        return rest, False
    folder = Path(given)
    places = [o.split("=", 1)[1].strip("'\"") for o in rest if o.startswith("hydra.sweep.dir=")]
    if places:
        if Path(places[-1]).resolve() != folder.resolve():
            raise UserError(f"hydra.sweep.dir={places[-1]} resume={folder}: one folder expected; give the same twice")
        return rest, True
    path = folder / MULTIRUN
    if not path.exists():
        raise UserError(f"resume={folder}: the folder of a multirun (with {MULTIRUN}) expected; leave -m out for one run")
    record = read_yaml(path)
    try:
        earlier, before = record["command"], record["hydra"]["overrides"]
        of_jobs = {_key(o): o for o in before["task"]}
        of_hydra = {_key(o): o for o in before["hydra"] if _key(o) not in _OF_THE_SWEEP}
    except (KeyError, TypeError, AttributeError):
        raise UserError(
            f"{path}: the record of a sweep expected, it was damaged; give hydra.sweep.dir and the sweep too"
        ) from None
    if earlier != command:
        raise UserError(f"resume={folder}: that multirun is of edge-lightning {earlier}; go on with it by that")
    for override in rest:
        if not _key(override).startswith("hydra") and _key(override) not in of_jobs:
            raise UserError(
                f"resume={folder}: {override} would make other jobs; that sweep has {' '.join(of_jobs.values())}: "
                "give other values of these, or start a new sweep"
            )
        (of_hydra if _key(override).startswith("hydra") else of_jobs)[_key(override)] = override
    return [*of_jobs.values(), *of_hydra.values(), f"hydra.sweep.dir={quoted(folder)}"], True


def _key(override: str) -> str:
    return override.split("=", 1)[0].lstrip("+~")


def multirun(hydra: Hydra, command: str, overrides: list[str], *, goes_on: bool) -> int:
    """Run a sweep by Hydra's launcher, and say what came of each job. Returns the exit status."""
    cfg = hydra.compose_config(command, overrides, run_mode=RunMode.MULTIRUN)
    folder = str(cfg.hydra.sweep.dir)  # the hour may be in its name
    how = f"go on with edge-lightning {command} -m resume={shortest(folder)}"
    places = [f"hydra.sweep.dir={quoted(folder)}", "hydra.output_subdir=null"]  # each job leaves the record of its own
    record = Path(folder, MULTIRUN)
    before = record.read_text() if record.exists() else None
    try:
        batches = hydra.multirun(command, Job(command, goes_on), [*overrides, *places])
    except (HydraException, OmegaConfBaseException):  # what is refused must not stand in the record
        if before is not None:
            record.write_text(before)
        raise
    except KeyboardInterrupt:
        print(f"edge-lightning {command}: interrupted; {how}", file=sys.stderr)
        return 130
    except RuntimeError as error:  # joblib's and submitit's, for a process of theirs that died
        raise UserError(f"the launcher has lost a job ({' '.join(str(error).split())}); {how}") from error
    outcomes = [returned.return_value for batch in batches for returned in batch]
    for outcome in outcomes:
        print(result(outcome.folder), flush=True)
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    for outcome in failed:
        what, log = " ".join(outcome.overrides), shortest(outcome.folder / LOG)
        print(f"failed: job {outcome.number}: {what}: {outcome.failure} ({log})", file=sys.stderr)
    if failed:
        print(f"edge-lightning {command}: {len(failed)} of {len(outcomes)} jobs failed; {how}", file=sys.stderr)
    return 1 if failed else 0


def result(folder: Path) -> str:
    """One line on a finished or failed job, from its summary."""
    path = folder / "summary.json"
    if not path.exists():
        return f"failed       {shortest(folder)}"
    try:
        summary = json.loads(path.read_text())
        summary["status"]
    except (ValueError, TypeError, KeyError):
        return f"damaged      {shortest(path)}"
    before, after = summary.get("before") or {}, summary.get("after") or summary.get("metrics") or {}
    shown = after or before
    names = [name for name in shown if name.endswith("/accuracy")]
    if f"{AVERAGE}/accuracy" in names:  # of several benchmarks
        names = [f"{AVERAGE}/accuracy"]
    scores = [
        f"{name.removesuffix('/accuracy')} pass@1 "
        + (f"{before[name]:.3f} -> " if name in before and after else "")
        + f"{shown[name]:.3f}"
        for name in names
    ]
    return f"{summary['status']:<12} {', '.join(scores)}  {shortest(folder)}"


def shortest(path: Path | str) -> str:
    """A path as one would type it here."""
    return min(str(path), os.path.relpath(path), key=len)

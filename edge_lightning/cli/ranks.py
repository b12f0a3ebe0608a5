"""Processes that share a run, whoever started them: Lightning, torchrun or SLURM. How each knows its place, how all get one
folder, and how they end together, with one message.

Starting them is the launchers' part, and so is ending those that hang in a collective on a device: each launcher kills its
processes when one of them has ended badly (SLURM: srun --kill-on-bad-exit=1).
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from edge_lightning.cli.failures import port_taken, told
from edge_lightning.errors import UserError

if TYPE_CHECKING:
    from edge_lightning.cli.places import Place

PLACES = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "NODE_RANK")  # of a process among others, whoever sets them
_SIGNAL_AT_DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_SECONDS_FOR_THE_CAUSE = 1.0  # a rank that lost another lets it speak first


def is_first_process() -> bool:
    """Whether this process is the first of those that share a run, or by itself."""
    return all(os.environ.get(name) in (None, "", "0") for name in PLACES)


def shares_run() -> bool:
    """Whether this process was started as one of several."""
    return int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_NTASKS") or 1) > 1


def end_with_launcher() -> None:
    """Be killed when the process ends that started this one as one of several: it may be waiting for it in a collective."""
    if sys.platform == "linux" and ("LOCAL_RANK" in os.environ or "RANK" in os.environ):
        ctypes.CDLL(None).prctl(_SIGNAL_AT_DEATH_OF_PARENT, signal.SIGKILL)


def turn_deaf() -> None:
    """Heed no Ctrl-C and SIGTERM any more: a launcher sends them as soon as one of its processes has ended badly."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@functools.cache
def started(pattern: str) -> str:
    """A name for a run's folder that all of its processes agree on: when it started, or what the launcher calls it.

    Raises:
        UserError: nodes that Lightning starts by itself, or torchrun without an id, have nothing to agree on.
    """
    environment = os.environ
    several = shares_run()
    if several and "TORCHELASTIC_RUN_ID" in environment:
        if environment["TORCHELASTIC_RUN_ID"] != "none":
            return f"torchrun_{environment['TORCHELASTIC_RUN_ID']}"
        if environment.get("GROUP_WORLD_SIZE", "1") == "1":
            return time.strftime(pattern, time.localtime(_start_of(os.getppid())))
    elif several and "SLURM_PROCID" in environment:
        return f"slurm_{environment['SLURM_JOB_ID']}_{environment.get('SLURM_STEP_ID', 0)}"
    elif "NODE_RANK" not in environment or "LOCAL_RANK" in environment:
        return time.strftime(pattern)
    raise UserError(
        "the processes of several nodes need one folder: set hydra.run.dir=DIR, the same on all, or --rdzv-id of torchrun"
    )


def _start_of(process: int) -> float:
    """When a process started, seconds since the epoch: the same whoever asks."""
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def lost_another(error: BaseException) -> bool:
    """Whether an error says no more than that another rank has ended, or comes from one that does."""
    import torch.distributed as dist

    if port_taken(error):
        return False
    if error.__cause__ is not None and lost_another(error.__cause__):
        return True
    said = str(error)
    gone = any(sign in said for sign in ("Connection closed by peer", "Connection reset by peer", "Broken pipe"))
    return isinstance(error, (dist.DistBackendError, dist.DistNetworkError)) or (isinstance(error, RuntimeError) and gone)


def tell_why(error: BaseException, place: Place, folder: Path, *, command: str, advice: str) -> None:
    """Say why this process of several ends, and write failure.txt, unless another has said it; `leave` is due then.

    Args:
        advice: how far it has come, and how to go on.
    """
    if lost_another(error):
        time.sleep(_SECONDS_FOR_THE_CAUSE)
        said = f"another of the {place.size} processes has ended, killed perhaps, for want of memory; {advice}"
    else:
        line = told(error, folder)
        said = f"{line}; {advice}" if line is not None else f"{''.join(traceback.format_exception(error))}{advice}"
    line = f"edge-lightning {command}: rank {place.rank}: {said}"
    if is_first_to_tell(folder, line):
        print(line, file=sys.stderr, flush=True)


def leave(place: Place) -> NoReturn:
    """End this process of several at once, so that none waits for it, and those that it started."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for process in place.children:
        process.kill()
    os._exit(1)  # what else runs at exit may wait for the others


def is_first_to_tell(folder: Path, line: str) -> bool:
    """Whether no other process of the run has said yet why it ends: then failure.txt says it, too."""
    try:
        with (folder / "failure.txt").open("x") as file:
            file.write(f"{line}\n")
    except FileExistsError:
        return False
    except OSError:  # on a full disk nothing can be agreed on, and said twice is better than not at all
        return True
    return True

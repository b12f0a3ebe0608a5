"""A job as a process of its own: its stderr is shown and kept, and it ends with the one that started it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_SIGNAL_AT_DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_SECONDS_FOR_LAST_LINES = 5.0  # a process left behind by a killed job may hold its stderr open


def run_process(line: list[str], log: Path, *, label: str) -> str | None:
    """Run `edge-lightning LINE`; None if it ended well, else the one line that says why not.

    Ctrl-C is passed on, and the job's end awaited. If this process is killed, the job is sent SIGTERM.

    Args:
        log: what the job writes to stderr is appended to it, and shown.
        label: in front of each line that is shown.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "edge_lightning", *line],
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,  # a terminal's Ctrl-C is to reach it once, from here
        preexec_fn=_end_with_parent if _LIBC else None,
    )
    lines = _Lines(process, log, label)
    lines.start()
    try:
        process.wait()
    except KeyboardInterrupt:
        lines.shown = False  # how to go on is said once, of the sweep
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    lines.join(_SECONDS_FOR_LAST_LINES)
    return None if process.returncode == 0 else why(process.returncode, lines.seen, line[0])


def why(status: int, seen: list[str], command: str) -> str:
    """The line of a failed job that says why: its own one-line error, else its last."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    own = f"edge-lightning {command}: "
    said = [line.removeprefix(own) for line in seen if line.startswith(own)] or [line for line in seen if line.strip()]
    return said[-1].strip() if said else f"exit status {status}"


class _Lines(Thread):
    """Shows and keeps what a process writes to stderr."""

    def __init__(self, process: subprocess.Popen, log: Path, label: str):
        super().__init__(daemon=True)
        self.process = process
        self.log = log
        self.label = label
        self.shown = True
        self.kept = True
        self.seen: list[str] = []

    def run(self) -> None:
        self._keep("")
        for line in self.process.stderr:  # read on whatever fails: a process that nobody reads from stands still
            self.seen.append(line.rstrip("\n"))
            self._keep(line)
            if self.shown:
                self._show(f"{self.label}{line}")

    def _keep(self, line: str) -> None:
        try:
            with self.log.open("ab", buffering=0) as log:
                log.write(line.encode(errors="replace"))
        except OSError as error:
            if self.kept:
                self._show(f"{self.log}: a file that can be written expected; {error.strerror}; the job goes on\n")
            self.kept = False

    def _show(self, line: str) -> None:
        with suppress(OSError):  # stderr may be a file on the same full disk
            print(line, end="", file=sys.stderr, flush=True)


def _end_with_parent() -> None:
    _LIBC.prctl(_SIGNAL_AT_DEATH_OF_PARENT, signal.SIGTERM)

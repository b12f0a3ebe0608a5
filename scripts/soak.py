"""A run of the tiny policy that is watched from outside: what grows with time, and by how much, with an interval.

Slopes are by Theil and Sen over the samples behind the first fifth, per hour, with a 95 % interval.
Samples lie close together and depend on each other, so an interval is narrower than it should be: what counts is the size.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scipy.stats import theilslopes

EVERY_S = 5.0
WARM_UP = 0.2  # of the time, which imports, caches and the first rollouts take


def sample(pid: int) -> dict[str, float]:
    """Of the process: its memory without shared pages, open files, threads, and its children."""
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
    children = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            children += int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid
        except OSError:
            continue
    return {
        "memory, MiB": int(status["RssAnon"].split()[0]) / 1024,
        "open files": float(len(list((proc / "fd").iterdir()))),
        "threads": float(status["Threads"]),
        "child processes": float(children),
    }


def main(minutes: float, overrides: list[str]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="soak_")) / "run"
    line = [sys.executable, "-m", "edge_lightning", "fit", "steps=1000000", f"hydra.run.dir={folder}", "evaluation=none"]
    run = subprocess.Popen([*line, *overrides])
    while not (folder / "metrics.csv").exists():
        if run.poll() is not None:
            return run.returncode
        time.sleep(0.5)
    begun = time.monotonic()
    samples: list[tuple[float, dict[str, float]]] = []
    ends: list[tuple[float, int]] = []
    while (now := time.monotonic() - begun) < 60 * minutes and run.poll() is None:
        samples.append((now / 3600, sample(run.pid)))
        ends.append((now / 3600, sum(1 for _ in (folder / "metrics.csv").open()) - 1))
        time.sleep(EVERY_S)
    run.terminate()
    status = run.wait()
    if status != 1 or run.poll() is None:
        print(f"the run ended by itself with status {status}", file=sys.stderr)
    report(samples, step_seconds(folder, ends[-1][0]), ends[-1][1], minutes)
    return 0


def step_seconds(folder: Path, hours: float) -> list[tuple[float, dict[str, float]]]:
    """The seconds of each step by its stages, at the times at which steps would stand if they all took the same."""
    with (folder / "metrics.csv").open(newline="") as file:
        rows = [sum(float(v) for k, v in row.items() if k.startswith("seconds/") and v) for row in csv.DictReader(file)]
    return [(hours * (i + 1) / len(rows), {"step, s": seconds}) for i, seconds in enumerate(rows)]


def report(samples: list, steps: list, done: int, minutes: float) -> None:
    print(f"\n{done} steps in {minutes:g} minutes, {len(samples)} samples.\n")
    print("| | median | first | last | change an hour, 95 % interval |\n|---|---|---|---|---|")
    for series in (samples, steps):
        late = series[int(len(series) * WARM_UP) :]
        for name in late[0][1]:
            times, values = [t for t, _ in late], [found[name] for _, found in late]
            slope, _, low, high = theilslopes(values, times, 0.95)
            middle = sorted(values)[len(values) // 2]
            print(f"| {name} | {middle:.3g} | {values[0]:.4g} | {values[-1]:.4g} | {slope:+.3g} [{low:+.3g}, {high:+.3g}] |")


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 40.0, sys.argv[2:]))

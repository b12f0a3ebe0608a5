"""A run of the tiny policy that is watched from outside: what grows with time, and by how much, with an interval.

Leaves outputs/soak/TIME/ with report.md, soak.png, samples.csv, and the run itself. Exit status 1 where something grows.

Memory without what is shared is looked at ten times a second; a sample has the lowest and the highest of 5 s. What a run
holds is the lowest of minutes: between two steps the C library keeps some of what was freed, more or less of it each time,
and gives it back now and then. The highest of 5 s is what a step needs.

The first fifth is left out: imports, caches and first rollouts take it. The rest is cut into parts of which each gives a
mean (of what is held, its lowest): samples lie close together and depend on each other, parts hardly do. Slopes are by Theil
and Sen over the parts, with their 95 % interval. A series grows where the interval lies above 0 and the growth over the
whole time is worth a word: over 2 % of the median for memory, 10 % for time, which others disturb, and one of what is
counted.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from scipy.stats import theilslopes

EVERY_S = 5.0
LOOK_S = 0.1  # between two looks at the memory: a step of the tiny run takes .5 s, and its peak a part of that
WARM_UP = 0.2
PARTS = 20
HELD, PEAK, OF_CHILDREN = "memory held, MiB", "memory at its peak, MiB", "memory of the children, MiB"
WORTH_A_WORD = {HELD: 0.02, PEAK: 0.02, OF_CHILDREN: 0.02, "step, s": 0.1}  # of the median; others: one
SAME_WORK = ("evaluation=none", "optimizer.lr=0.0")  # a policy that learns writes other responses, or none, after an hour
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Series:
    """Values of the parts behind the warm-up, and what they come to.

    Attributes:
        hours, values: of each part.
        change: an hour, with the ends of its interval.
        seen: hours and values of the samples.
    """

    name: str
    hours: np.ndarray
    values: np.ndarray
    change: tuple[float, float, float]
    seen: tuple[np.ndarray, np.ndarray]

    @property
    def grows(self) -> bool:
        grown = self.change[0] * np.ptp(self.seen[0])
        share = WORTH_A_WORD.get(self.name)
        return self.change[1] > 0 and grown > (1.0 if share is None else share * np.median(self.values))


def series(name: str, hours: Sequence[float], values: Sequence[float]) -> Series:
    """The slope of a series over its parts."""
    first = int(len(hours) * WARM_UP)
    seen = np.asarray(hours)[first:], np.asarray(values, dtype=float)[first:]
    part_hours, part_values = (np.array_split(column, min(PARTS, len(seen[0]))) for column in seen)
    middles = np.array([part.mean() for part in part_hours])
    found = np.array([part.min() if name == HELD else part.mean() for part in part_values])
    slope, _, low, high = theilslopes(found, middles, 0.95)
    return Series(name, middles, found, (slope, low, high), seen)


def sample(pid: int, seconds: float = EVERY_S) -> dict[str, float]:
    """Of a process in some seconds: memory, lowest and highest; at their end open files, threads, children.

    Raises:
        OSError, KeyError: it has ended meanwhile.
    """
    looks, end = [], time.monotonic() + seconds
    while not looks or time.monotonic() < end:
        looks.append(_memory_mib(pid))
        time.sleep(LOOK_S)
    children = _children(pid)
    return {
        HELD: min(looks),
        PEAK: max(looks),
        "open files": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
        "threads": float(_status(pid)["Threads"]),
        "child processes": float(len(children)),
        OF_CHILDREN: sum(map(_memory_mib, children)),
    }


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _memory_mib(pid: int) -> float:
    return int(_status(pid).get("RssAnon", "0 kB").split()[0]) / 1024


def watch(minutes: float, folder: Path, overrides: Sequence[str]) -> tuple[list[float], list[dict[str, float]], int | None]:
    """Run and look; hours, samples, and the status of a run that ended by itself."""
    line = [sys.executable, "-m", "edge_lightning", "fit", "steps=1000000", f"hydra.run.dir={folder}", *SAME_WORK]
    run = subprocess.Popen([*line, *overrides], cwd=ROOT)
    hours, samples = [], []
    try:
        while not (folder / "metrics.csv").exists() and run.poll() is None:
            time.sleep(0.5)
        begun = time.monotonic()
        while (now := time.monotonic() - begun) < 60 * minutes and run.poll() is None:
            try:
                found = sample(run.pid)
            except (OSError, KeyError):  # it has ended meanwhile
                break
            hours.append(now / 3600)
            samples.append(found)
        ended = run.poll()
    finally:
        run.terminate()
        run.wait()
    return hours, samples, ended


def step_seconds(folder: Path) -> list[float]:
    """The seconds of each step, all stages together."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [sum(float(v) for k, v in row.items() if k.startswith("seconds/") and v) for row in csv.DictReader(file)]


def report(watched: Sequence[Series], steps: int, minutes: float, overrides: Sequence[str]) -> str:
    """A block for EXPERIMENTS.md."""
    rows = [
        f"| {s.name} | {np.median(s.values):.4g} | {s.values[0]:.4g} | {s.values[-1]:.4g} | "
        f"{s.change[0]:+.3g} [{s.change[1]:+.3g}, {s.change[2]:+.3g}] | {'yes' if s.grows else 'no'} |"
        for s in watched
    ]
    line = " ".join(["scripts/soak", f"{minutes:g}", *overrides])
    return "\n".join(
        [
            f"`{line}`: {steps} steps; {len(watched[0].values)} parts behind the first fifth:",
            "",
            "| | median | first | last | change an hour, 95 % interval | grows |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def draw(watched: Sequence[Series], path: Path) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(watched), 1, figsize=(7, 1.6 * len(watched)), sharex=True, layout="constrained")
    for axis, s in zip(axes, watched):
        middle = np.median(s.values) + s.change[0] * (s.hours - np.median(s.hours))
        axis.plot(60 * s.seen[0], s.seen[1], ".", markersize=3, color="#4c72b0")
        axis.plot(60 * s.hours, middle, color="#c44e52")
        axis.set_title(s.name, loc="left", fontsize=9)
        axis.set_ylim(0, 1.15 * max(s.seen[1].max(), 1e-9))
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(minutes: float, overrides: list[str]) -> int:
    folder = ROOT / "outputs" / "soak" / time.strftime("%Y-%m-%d_%H-%M-%S")
    hours, samples, ended = watch(minutes, folder / "run", overrides)
    if ended is not None or len(samples) < 10:
        why = f"it ended by itself with status {ended}" if ended is not None else "there is too little time"
        print(f"soak: a run of {minutes:g} minutes expected, {why}; see {folder}", file=sys.stderr)
        return 1
    with (folder / "samples.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["hours", *samples[0]])
        writer.writerows([hour, *found.values()] for hour, found in zip(hours, samples))
    watched = [series(name, hours, [found[name] for found in samples]) for name in samples[0]]
    seconds = step_seconds(folder / "run")
    watched.append(series("step, s", np.linspace(0, hours[-1], len(seconds)), seconds))
    text = report(watched, len(seconds), minutes, overrides)
    (folder / "report.md").write_text(text)
    draw(watched, folder / "soak.png")
    print(f"\n{text}\n{folder}")
    return int(any(s.grows for s in watched))


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 40.0, sys.argv[2:]))

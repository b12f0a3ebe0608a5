"""How soon a method learns: what the policy gets right by itself over the whole training, not after it alone.

Two methods that end alike may get there at different times. Each step's accuracy before correction is that of the policy
that the step began with, on problems that it has not been trained on yet as long as the run is in its first pass over them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from edge_lightning.report.curves import has, running_mean, samples
from edge_lightning.report.methods import Method
from edge_lightning.report.records import Run
from edge_lightning.report.statistics import mean_and_sd
from edge_lightning.report.tables import NOTHING, Table

COLUMN = "accuracy/sampled"
REACHED = 0.5


def mean_accuracy(run: Run) -> float | None:
    """Own accuracy averaged over the steps: the area under the curve, divided by its length. None without a record of it."""
    return float(np.nanmean(run.metrics[COLUMN])) if has(run, COLUMN) else None


def first_step_at(run: Run, accuracy: float, *, window: int) -> int | None:
    """The first step at which the mean own accuracy of the last `window` steps is at least `accuracy`; None where none is.

    Steps before the window is full do not count.
    """
    if not has(run, COLUMN):
        return None
    smooth = running_mean(run.metrics[COLUMN], window)
    places = np.flatnonzero(smooth[window - 1 :] >= accuracy)
    return int(run.metrics["step"][places[0] + window - 1]) if len(places) else None


def speed_table(methods: Iterable[Method], baseline: Method | None, *, window: int) -> Table | None:
    """A row a method that samples, fastest first: own accuracy over the run, the difference to the baseline between runs
    of equal seed, and when half of the answers are right. None where no finished run has the figure."""
    means = {m.label: _by_seed(m) for m in methods if samples(m)}
    means = {label: by_seed for label, by_seed in means.items() if by_seed}
    if not means:
        return None
    against = means.get(baseline.label, {}) if baseline is not None else {}
    header = ["method", "seeds", "own accuracy", f"reaches {REACHED:g} at step", "each seed"]
    if against:
        header.insert(3, f"to {baseline.label}")
    rows = []
    by_label = {m.label: m for m in methods}
    for label, by_seed in sorted(means.items(), key=lambda item: -mean_and_sd(list(item[1].values()))[0]):
        steps = [first_step_at(run, REACHED, window=window) for _, run in sorted(by_label[label].runs.items())]
        row = [label, f"{len(by_seed)}", _mean_sd(list(by_seed.values())), _steps(steps)]
        row.append(", ".join(f"{value:.3f}" for value in by_seed.values()))
        if against:
            pairs = [by_seed[seed] - against[seed] for seed in sorted(by_seed.keys() & against.keys())]
            row.insert(3, NOTHING if label == baseline.label or not pairs else _mean_sd(pairs, sign=True))
        rows.append(tuple(row))
    return Table(tuple(header), tuple(rows))


def _by_seed(method: Method) -> dict[int, float]:
    found = {seed: mean_accuracy(run) for seed, run in sorted(method.runs.items())}
    return {seed: value for seed, value in found.items() if value is not None}


def _mean_sd(values: list[float], *, sign: bool = False) -> str:
    mean, sd = mean_and_sd(values)
    return f"{mean:{'+' if sign else ''}.3f} ± {NOTHING if sd is None else f'{sd:.3f}'}"


def _steps(steps: list[int | None]) -> str:
    """Mean over the runs that get there, and how many do where not all."""
    known = [step for step in steps if step is not None]
    if not known:
        return "never"
    text = f"{sum(known) / len(known):.0f}"
    return text if len(known) == len(steps) else f"{text} ({len(known)} of {len(steps)} runs)"

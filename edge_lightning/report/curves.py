"""Curves of a training, averaged over its seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_lightning.report.methods import Method
from edge_lightning.report.records import Run


@dataclass(frozen=True)
class Band:
    """A figure over steps.

    Attributes:
        steps: of the rows.
        raw: mean over seeds, not smoothed.
        mean, low, high: mean, least and largest of the seeds' running means.
        seeds: how many runs have the figure.
    """

    steps: np.ndarray
    raw: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int


def band(method: Method, column: str, *, window: int) -> Band | None:
    """Mean over seeds with the range of seeds; None where no run has the figure.

    Each run is smoothed by itself, then the runs are put side by side; a step that one of them lacks is drawn from the rest.
    """
    runs = [run for run in method.drawn() if has(run, column)]
    if not runs:
        return None
    steps = np.unique(np.concatenate([run.metrics["step"] for run in runs]))
    raw_ST, smooth_ST = (np.full((len(runs), len(steps)), np.nan) for _ in range(2))
    for row, run in enumerate(runs):
        places = np.searchsorted(steps, run.metrics["step"])
        raw_ST[row, places] = run.metrics[column]
        smooth_ST[row, places] = running_mean(run.metrics[column], window)
    known = ~np.isnan(smooth_ST).all(axis=0)
    steps, raw_ST, smooth_ST = steps[known], raw_ST[:, known], smooth_ST[:, known]
    raw = np.full(len(steps), np.nan)
    some = ~np.isnan(raw_ST).all(axis=0)
    raw[some] = np.nanmean(raw_ST[:, some], axis=0)
    smooth = np.nanmean(smooth_ST, axis=0), np.nanmin(smooth_ST, axis=0), np.nanmax(smooth_ST, axis=0)
    return Band(steps, raw, *smooth, len(runs))


def has(run: Run, column: str) -> bool:
    return column in run.metrics and not np.isnan(run.metrics[column]).all()


def samples(method: Method) -> bool:
    """Whether the policy says anything by itself in training; without a record of its tokens it is taken to."""
    tokens = [run.metrics["tokens/sampled"] for run in method.drawn() if has(run, "tokens/sampled")]
    return not tokens or any(np.nansum(column) > 0 for column in tokens)


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of the last `window` steps, of those there are at the beginning; steps without a value do not count.

    y_t = mean of the known x_i with t - window < i <= t
    """
    known = ~np.isnan(values)
    sums = np.cumsum(np.concatenate([[0.0], np.where(known, values, 0.0)]))
    counts = np.cumsum(np.concatenate([[0], known]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - window)
    n = counts[ends] - counts[starts]
    return np.where(n > 0, (sums[ends] - sums[starts]) / np.maximum(n, 1), np.nan)


def over_steps(method: Method, column: str, *, largest: bool = False) -> tuple[float, float] | None:
    """A figure over the steps that have it, mean over seeds, and on how many steps a run has it; None where none has.

    Args:
        largest: the largest of the steps in place of their mean.
    """
    runs = [run for run in method.drawn() if has(run, column)]
    if not runs:
        return None
    reduce = np.nanmax if largest else np.nanmean
    values = [float(reduce(run.metrics[column])) for run in runs]
    counts = [int((~np.isnan(run.metrics[column])).sum()) for run in runs]
    return sum(values) / len(values), sum(counts) / len(counts)

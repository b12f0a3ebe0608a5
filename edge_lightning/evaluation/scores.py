"""Scores of sampled answers, with intervals over problems.

Sources: Chen et al. (arXiv:2107.03374), Eq. 1, for pass@k. Left out: intervals across seeds and paired tests of two
policies, which need more than one evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
from scipy.stats import bootstrap


def pass_at_k(samples: int, right: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): chance that at least one of k of the n samples, c of them right, is right.

    Raises:
        ValueError: k is not between 1 and n, or c not between 0 and n.
    """
    if not 1 <= k <= samples or not 0 <= right <= samples:
        raise ValueError(f"1 <= k <= n and 0 <= c <= n expected, k={k}, n={samples}, c={right} came")
    return 1.0 - comb(samples - right, k) / comb(samples, k)


def mean_with_interval(values_P: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float, float]:
    """Mean over problems and its percentile bootstrap interval (9999 resamples, fixed seed): mean, low, high."""
    values = np.asarray(values_P, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) == 0:
        mean = float(values.mean())
        return mean, mean, mean
    found = bootstrap((values,), np.mean, confidence_level=confidence, method="percentile", rng=0, batch=1000)
    return float(values.mean()), float(found.confidence_interval.low), float(found.confidence_interval.high)

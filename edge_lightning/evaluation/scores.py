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

    Counted in whole numbers and rounded once, so it is exact to the last bit for any n.

    Raises:
        ValueError: k is not between 1 and n, or c not between 0 and n.
    """
    if not 1 <= k <= samples or not 0 <= right <= samples:
        raise ValueError(f"1 <= k <= n and 0 <= c <= n expected, k={k}, n={samples}, c={right} came")
    draws = comb(samples, k)
    return (draws - comb(samples - right, k)) / draws


def mean_with_interval(values_P: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float, float]:
    """Mean over problems and its percentile bootstrap interval (9999 resamples, fixed seed): mean, low, high.

    Where all values are 0, or all 1, resampling knows nothing of what was not seen: the interval is then the exact
    binomial one of Clopper and Pearson, 0 to 1 - (a/2)^(1/P) or (a/2)^(1/P) to 1, with a = 1 - confidence. Other equal
    values have an interval without width.
    """
    values = np.asarray(values_P, dtype=np.float64)
    mean = float(values.mean())
    if np.ptp(values) == 0:
        unseen = 1 - ((1 - confidence) / 2) ** (1 / len(values))
        return mean, mean - unseen * (mean == 1), mean + unseen * (mean == 0)
    found = bootstrap((values,), np.mean, confidence_level=confidence, method="percentile", rng=0, batch=1000)
    return mean, float(found.confidence_interval.low), float(found.confidence_interval.high)

"""Intervals and tests for scores of several seeds on the same problems.

Sources: Owen (2007), The pigeonhole bootstrap, Annals of Applied Statistics 1(2), and Owen & Eckles (2012), Bootstrapping
data arrays of arbitrary order, same journal 6(3), for resampling both sides of a table; Fisher (1935), The Design of
Experiments, ch. 3, for flipping signs; Phipson & Smyth (2010), Permutation p-values should never be zero (arXiv:1603.05766),
for counting the observed outcome; Holm (1979), A simple sequentially rejective multiple test procedure.
Letters: S seeds, P problems.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import permutation_test

RESAMPLES = 9999
CONFIDENCE = 0.95
EXACT_UP_TO = 16  # nonzero differences: 65,536 sign patterns
_AT_A_TIME = 1000  # resamples, which bounds memory


def mean_and_sd(values_S: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (ddof 1) over seeds; no deviation for one seed."""
    values = np.asarray(values_S, dtype=np.float64)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def crossed_interval(values_SP: np.ndarray, *, resamples: int = RESAMPLES, rng: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval (95 %) of the mean of a table, its seeds and its problems both resampled.

        m* = sum_sp u_s v_p x_sp / (S P),   u ~ Multinomial(S, 1/S),  v ~ Multinomial(P, 1/P), independent

    With one seed only problems vary. A table of equal values has an interval without width. The spread of S seeds is
    underestimated by (S - 1) / S, so with few seeds the interval is too narrow.

    Args:
        values_SP: scores, or differences of paired scores.
    Raises:
        ValueError: the table is empty.
    """
    seeds, problems = values_SP.shape
    if not seeds or not problems:
        raise ValueError(f"at least one seed and one problem expected, {seeds} x {problems} came")
    draw = np.random.default_rng(rng)
    means = []
    for start in range(0, resamples, _AT_A_TIME):
        n = min(_AT_A_TIME, resamples - start)
        u = draw.multinomial(seeds, np.full(seeds, 1 / seeds), size=n)
        v = draw.multinomial(problems, np.full(problems, 1 / problems), size=n)
        means.append(((u @ values_SP) * v).sum(axis=1) / (seeds * problems))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    return float(low), float(high)


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of the hypothesis that each difference is as likely positive as negative.

        p = P(|sum_i e_i d_i| >= |sum_i d_i|),   e_i = -1 or +1 with probability 1/2

    Zeros change no sum and are left out. Up to 16 differences all 2^n patterns are counted; beyond that 9999 random ones
    and the observed one. Of none or one p is 1.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[np.abs(values) > 1e-12]  # what is left of equal means
    if len(values) < 2:  # of one, either sign gives as large a sum
        return 1.0
    resamples = 2**EXACT_UP_TO if len(values) <= EXACT_UP_TO else RESAMPLES

    def total(sample: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.sum(sample, axis=axis)

    found = permutation_test(
        (values,), total, permutation_type="samples", n_resamples=resamples, batch=_AT_A_TIME, vectorized=True, rng=0
    )
    return float(found.pvalue)


def smallest_p(count: int) -> float:
    """The least two-sided p that flipping the signs of so many differences can give: 2^-(n-1)."""
    return min(1.0, 2.0 ** (1 - count))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p of each test of a family, in the order given.

    p~_(i) = max_{j <= i} min(1, (m - j + 1) p_(j)),   p_(1) <= ... <= p_(m)
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted

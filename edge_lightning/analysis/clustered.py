"""Intervals of figures that are made of sums, drawn anew over problems: responses to one problem are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

RESAMPLES = 9999
_AT_A_TIME = 500
Figure = Callable[[np.ndarray], np.ndarray]  # sums [..., K] -> the figure [...], NaN where it has no value


def sums_by_problem(problems: Sequence[Hashable], columns: Sequence[Sequence[float]]) -> np.ndarray:
    """sums_PK: each of K columns of values summed over the responses to each of P problems."""
    index = {name: place for place, name in enumerate(dict.fromkeys(problems))}
    place_B = [index[name] for name in problems]
    return np.stack([np.bincount(place_B, np.asarray(v, dtype=np.float64), len(index)) for v in columns], axis=1)


def with_interval(sums_PK: np.ndarray, figure: Figure, *, rng: int = 0) -> tuple[float, float, float] | None:
    """A figure and its 95 % percentile interval: figure(sum_p v_p x_pk), v ~ Multinomial(P, 1/P), 9999 times.

    Draws in which it has no value are left out; where it has none on all problems, None. It says nothing of other seeds.
    """
    whole = float(figure(sums_PK.sum(axis=0)))
    if np.isnan(whole):
        return None
    problems, draw, found = len(sums_PK), np.random.default_rng(rng), []
    for start in range(0, RESAMPLES, _AT_A_TIME):
        weights = draw.multinomial(problems, np.full(problems, 1 / problems), size=min(_AT_A_TIME, RESAMPLES - start))
        found.append(figure(weights @ sums_PK))
    low, high = np.nanpercentile(np.concatenate(found), [2.5, 97.5])
    return whole, float(low), float(high)


def share_with_interval(sums_PK: np.ndarray, numerator: int, denominator: int) -> tuple[float, float, float] | None:
    """A share and its 95 % interval, over problems as above.

    Where it is 0, or 1, resampling knows nothing of what was not seen: the interval is then the exact binomial one of
    Clopper and Pearson over the P problems that have a response of the kind, 0 to 1 - .025^(1/P) or .025^(1/P) to 1. None
    where there is no such response.
    """
    found = with_interval(sums_PK, lambda sums: ratio(sums, numerator, denominator))
    if found is None or 0 < found[0] < 1:
        return found
    unseen = 1 - 0.025 ** (1 / np.count_nonzero(sums_PK[:, denominator]))
    return found[0], found[0] - unseen * (found[0] == 1), found[0] + unseen * (found[0] == 0)


def ratio(sums: np.ndarray, numerator: int, denominator: int) -> np.ndarray:
    """One sum over another; NaN over 0."""
    below = sums[..., denominator]
    return np.divide(sums[..., numerator], below, out=np.full(np.shape(below), np.nan), where=below != 0)

"""The windows of a response in which the policy was least and most sure."""

from __future__ import annotations

import numpy as np

EQUAL = 1e-9  # nats; means that differ by rounding alone are ties


def extreme_windows(entropies_T: np.ndarray, width: int, *, first_start: int = 0) -> tuple[int, int] | None:
    """Where the windows with the highest and with the lowest mean entropy begin; None where no window fits.

        highest = argmax_s mean(H_s, ..., H_{s + W - 1}),   lowest = argmin_s of the same,   first_start <= s <= T - W

    The first of equal ones is taken. Where only one window fits it is both.

    Args:
        entropies_T: of each response token, nats.
        width: W, consecutive tokens.
        first_start: the first token, counted from 0, at which a window may begin.
    """
    if len(entropies_T) - width < first_start:
        return None
    means = np.lib.stride_tricks.sliding_window_view(np.asarray(entropies_T, dtype=np.float64), width).mean(axis=1)
    means = means[first_start:]
    highest = np.flatnonzero(means >= means.max() - EQUAL)[0]
    lowest = np.flatnonzero(means <= means.min() + EQUAL)[0]
    return first_start + int(highest), first_start + int(lowest)

"""Which tokens of a response are replaced: those of the highest or of the lowest entropy, or as many at random."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

Which = Literal["highest", "lowest", "random"]


def share_of(share: float, tokens: int) -> int:
    """The tokens that a share is: rounded, a half up, and at least 1.

    n = max(1, floor(share T + 1/2))
    """
    return max(1, math.floor(share * tokens + 0.5 + 1e-9))  # what 0.05 * 30 lacks of 1.5 is rounding


def chosen_positions(entropies_T: np.ndarray, count: int, which: Which, *, seed: int) -> list[int]:
    """`count` different places in a response, ascending. Of equal entropies the first ones are taken.

    Args:
        entropies_T: nats.
        seed: of random places; the others need none.
    Raises:
        ValueError: the response has fewer tokens.
    """
    tokens = len(entropies_T)
    if not 1 <= count <= tokens:
        raise ValueError(f"1 to {tokens} places of a response of {tokens} tokens expected, {count} came")
    if which == "random":
        return sorted(np.random.default_rng(seed).choice(tokens, size=count, replace=False).tolist())
    values = np.asarray(entropies_T, dtype=np.float64)
    order = np.argsort(-values if which == "highest" else values, kind="stable")
    return sorted(order[:count].tolist())

"""How a response came by its advantage, with the numbers put in.

The record says what came out. A formula is shown where it gives that, for every response of the group; where none does, the
value stands alone. So a sum that is shown is never wrong, whatever the run was set to. Equations: EDGE-GRPO
(arXiv:2507.21848), Eqs. 2, 6, 7, and what stands in advantage/ and credit/.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

NEAR = 1e-4  # relative, or absolute below 1: the record has 32-bit floats
EPSILONS = (0.0, 1e-4)  # of the paper, and of its released code
OWN_SIGNAL = "credit's own signal"
Formula = Callable[[np.ndarray, np.ndarray], Iterator[tuple[np.ndarray, list[str]]]]  # rewards after and before correction


def advantage_sums(responses: Sequence[dict]) -> list[str | None]:
    """The sum of each response's group-relative advantage: `(1 - 0.375) / 0.484 = +1.291`; None where no formula fits."""
    rewards = np.array([row["reward"] for row in responses])
    sampled = np.array([row["sampled_reward"] for row in responses])
    recorded = np.array([row["advantage"] for row in responses])
    for formula in (_tied, _group_relative, _mean_baseline, _leave_one_out, _sampled_baseline):
        for values, sums in formula(rewards, sampled):
            if _near(values, recorded):
                return [f"{text} = {signed(value)}" for text, value in zip(sums, recorded)]
    return [None] * len(responses)


def relative_entropy_sums(responses: Sequence[dict]) -> list[str | None]:
    """The sum of each Phat: `0.212 / 0.425 = 0.500`, or what a bound made of it; None where none fits."""
    recorded = [row["relative_entropy"] for row in responses]
    entropies = [row["entropy"] for row in responses]
    if None in recorded or None in entropies:
        return [None] * len(responses)
    mean = sum(entropies) / len(entropies)
    unbounded = np.array(entropies) / mean if mean else np.ones(len(entropies))
    phat = np.array(recorded)
    held = [not _near(*pair) for pair in zip(unbounded, phat)]
    if any(held) and not _are_bounds(unbounded, phat, held):
        return [None] * len(responses)
    return [
        f"{plain(p)} / {plain(mean)} = {plain(u)}" + (f", held at {plain(bounded)}" if is_held else "")
        for p, u, bounded, is_held in zip(entropies, unbounded, phat, held)
    ]


def final_sum(row: dict) -> str:
    """What credit made of the advantage, over the response's tokens.

    With one value: `+1.291 / 0.500 = +2.582` where it is A / Phat, else `+1.291 x 1.000 = +1.291`. With several: the weights
    w_t = A_t / A, from the least to the largest, and the mean of A_t. Where some token goes against A, or has an advantage
    and A is 0, credit has a signal of its own (EP-GRPO, RL-ZVP), which is no weight.
    """
    advantage, tokens = row["advantage"], np.array(row["token_advantages"] or [0.0])
    lowest, highest, mean = float(tokens.min()), float(tokens.max()), float(tokens.mean())
    if not _near(lowest, highest):
        told = f"{signed(lowest)} to {signed(highest)} over the tokens, mean {signed(mean)}"
        if advantage == 0 or min(lowest / advantage, highest / advantage) < 0:
            return f"{told}, {OWN_SIGNAL}"
        least, most = sorted((lowest / advantage, highest / advantage))
        return f"{signed(advantage)} × w, w from {plain(least)} to {plain(most)}: {told}"
    phat = row["relative_entropy"]
    if phat and not _near(phat, 1.0) and advantage and _near(mean, advantage / phat):
        return f"{signed(advantage)} / {plain(phat)} = {signed(mean)}"
    if advantage == 0 and mean:
        return f"{signed(mean)}, {OWN_SIGNAL}"
    if advantage == 0 or _near(mean, advantage):
        return signed(mean)
    return f"{signed(advantage)} × {plain(mean / advantage)} = {signed(mean)}"


def _tied(rewards: np.ndarray, sampled: np.ndarray) -> Iterator[tuple[np.ndarray, list[str]]]:
    if np.ptp(rewards) <= 1e-9 * max(1.0, abs(rewards).max()):
        yield np.zeros(len(rewards)), ["all rewards of the group are equal: A"] * len(rewards)


def _group_relative(rewards: np.ndarray, sampled: np.ndarray) -> Iterator[tuple[np.ndarray, list[str]]]:
    mean = rewards.mean()
    for ddof in (0, 1) if len(rewards) > 1 else ():
        for epsilon in EPSILONS:
            scale = rewards.std(ddof=ddof) + epsilon
            if scale > 0:
                yield (rewards - mean) / scale, [f"({plain(r)} - {plain(mean)}) / {plain(scale)}" for r in rewards]


def _mean_baseline(rewards: np.ndarray, sampled: np.ndarray) -> Iterator[tuple[np.ndarray, list[str]]]:
    yield rewards - rewards.mean(), [f"{plain(r)} - {plain(rewards.mean())}" for r in rewards]


def _leave_one_out(rewards: np.ndarray, sampled: np.ndarray) -> Iterator[tuple[np.ndarray, list[str]]]:
    if len(rewards) > 1:
        others = (rewards.sum() - rewards) / (len(rewards) - 1)
        yield rewards - others, [f"{plain(r)} - {plain(mean)} of the others" for r, mean in zip(rewards, others)]


def _sampled_baseline(rewards: np.ndarray, sampled: np.ndarray) -> Iterator[tuple[np.ndarray, list[str]]]:
    yield rewards - sampled.mean(), [f"{plain(r)} - {plain(sampled.mean())} before correction" for r in rewards]


def _are_bounds(unbounded: np.ndarray, phat: np.ndarray, held: Sequence[bool]) -> bool:
    """Whether what differs was held by one floor from below, by one ceiling from above, and nothing lies beyond them."""
    here = np.array(held)
    floors, ceilings = phat[here & (phat > unbounded)], phat[here & (phat < unbounded)]
    low = floors.min() if len(floors) else -math.inf
    high = ceilings.max() if len(ceilings) else math.inf
    return _near(np.clip(unbounded, low, high), phat)


def _near(one: float | np.ndarray, other: float | np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=NEAR, atol=NEAR))


def plain(value: float) -> str:
    return f"{value:.3f}"


def signed(value: float) -> str:
    return f"{value + 0.0:+.3f}"

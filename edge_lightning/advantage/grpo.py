"""Group-relative advantage of GRPO.

Source: EDGE-GRPO (arXiv:2507.21848), Eq. 2. The released code divides by std (ddof 1) + 1e-4 instead.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.errors import UserError
from edge_lightning.masking import segment_count, segment_sum

TIE = 1e-9  # relative to the highest reward, or to 1


class GroupRelative:
    """A_i = (r_i - mean r) / std r over the group; exactly 0 where all rewards of the group are equal.

    Args:
        ddof: 0 for the population standard deviation (paper), 1 for the sample's.
        epsilon: added to the standard deviation; 0 in the paper.
    Raises:
        UserError: ddof is neither 0 nor 1, or epsilon is below 0.
    """

    smallest_group = 2

    def __init__(self, *, ddof: int = 0, epsilon: float = 0.0):
        if ddof not in (0, 1) or not 0 <= epsilon < math.inf:
            raise UserError(
                f"advantage.ddof={ddof}, epsilon={epsilon}: a ddof of 0 or 1 and an epsilon of at least 0 expected"
            )
        self.ddof = ddof
        self.epsilon = epsilon

    def __call__(
        self,
        rewards_B: Tensor,
        group_B: Tensor,
        groups: int,
        *,
        sampled_rewards_B: Tensor | None = None,
    ) -> Tensor:
        rewards = rewards_B.double()
        count_P = segment_count(group_B, groups).double()
        mean_P = segment_sum(rewards, group_B, groups) / count_P
        deviation_B = rewards - mean_P[group_B]
        variance_P = segment_sum(deviation_B**2, group_B, groups) / (count_P - self.ddof)
        scale_B = variance_P.sqrt()[group_B] + self.epsilon
        tied_B = tied_groups(rewards, group_B, groups)[group_B]
        return torch.where(tied_B, 0.0, deviation_B / scale_B).float()


def tied_groups(rewards_B: Tensor, group_B: Tensor, groups: int, all_reduce: AllReduce = alone) -> Tensor:
    """True for groups whose rewards are all equal: they carry no group-relative signal. Shape [groups].

    Weighted sums of equal parts may differ in their last bits, so rewards within 1e-9 of each other are equal.
    """
    highest = rewards_B.new_full((groups,), -torch.inf).scatter_reduce(0, group_B, rewards_B, "amax")
    lowest = rewards_B.new_full((groups,), torch.inf).scatter_reduce(0, group_B, rewards_B, "amin")
    highest, lowest = all_reduce(highest, "max"), all_reduce(lowest, "min")
    return highest - lowest <= TIE * highest.abs().clamp(min=1.0)

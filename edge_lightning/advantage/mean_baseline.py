"""Reward less a mean of the group, not divided by its deviation: Dr. GRPO and RLOO.

Sources: Dr. GRPO (arXiv:2503.20783), which finds that the division favours problems that are nearly always or nearly never
solved; RLOO (arXiv:2402.14740), whose baseline leaves the response itself out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edge_lightning.advantage.grpo import tied_groups
from edge_lightning.masking import segment_count, segment_sum


class MeanBaseline:
    """A_i = r_i - mean_j r_j over the group, or over the others; exactly 0 where all rewards of the group are equal.

        leave_one_out    A_i = r_i - sum_{j != i} r_j / (G - 1) = G / (G - 1) (r_i - mean_j r_j)

    Args:
        leave_one_out: RLOO; False: Dr. GRPO.
    """

    smallest_group = 2

    def __init__(self, *, leave_one_out: bool = False):
        self.leave_one_out = leave_one_out

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
        scale_P = count_P / (count_P - 1) if self.leave_one_out else torch.ones_like(count_P)
        tied_B = tied_groups(rewards, group_B, groups)[group_B]
        return torch.where(tied_B, 0.0, scale_P[group_B] * (rewards - mean_P[group_B])).float()

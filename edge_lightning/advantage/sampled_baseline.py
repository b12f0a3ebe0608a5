"""Reward less the mean of what the policy sampled: a baseline that correction does not move.

With the group's mean after correction a group that is corrected altogether gives no gradient, and the more is corrected the
more the right answers that the policy found by itself are worth nothing. EDGE-GRPO (arXiv:2507.21848) has that mean; this is
the other choice. Left out: division by a deviation, so advantages stay within the range of the rewards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edge_lightning.advantage.grpo import TIE
from edge_lightning.masking import segment_count, segment_sum


class SampledBaseline:
    """A_i = r_i - mean_j r_j^sampled over the group, r^sampled being the rewards before correction.

    Without correction it is r - mean r, exactly 0 where all rewards of the group are equal. The mean of A over the group is
    what correction has gained.

    Raises:
        ValueError: from the call, where the rewards before correction are missing.
    """

    smallest_group = 2  # an uncorrected response is compared with the others

    def __call__(
        self,
        rewards_B: Tensor,
        group_B: Tensor,
        groups: int,
        *,
        sampled_rewards_B: Tensor | None = None,
    ) -> Tensor:
        if sampled_rewards_B is None:
            raise ValueError("sampled_rewards_B: the rewards before correction expected, None came; hand them in")
        count_P = segment_count(group_B, groups).double()
        baseline_B = (segment_sum(sampled_rewards_B.double(), group_B, groups) / count_P)[group_B]
        deviation_B = rewards_B.double() - baseline_B
        rounding_B = deviation_B.abs() <= TIE * baseline_B.abs().clamp(min=1.0)
        return torch.where(rounding_B, 0.0, deviation_B).float()

"""No advantage: for objectives that do not weigh responses, such as supervised training."""

from __future__ import annotations

import torch
from torch import Tensor


class NoAdvantage:
    """A_i = 0."""

    smallest_group = 1

    def __call__(
        self,
        rewards_B: Tensor,
        group_B: Tensor,
        groups: int,
        *,
        sampled_rewards_B: Tensor | None = None,
    ) -> Tensor:
        return torch.zeros(len(rewards_B), device=rewards_B.device)

"""Entropy-driven advantage: confident responses get larger advantages.

Source: EDGE-GRPO (arXiv:2507.21848), Eqs. 3, 4, 6, 7. Its released code neither detaches P_i nor bounds Phat.
Left out: per-token weights; the whole response is scaled by one factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Constants, Scored
from edge_lightning.errors import UserError
from edge_lightning.masking import segment_count, segment_mean, segment_sum
from edge_lightning.tokens import Forward


@dataclass(frozen=True)
class EntropyConstants(Constants):
    """Adds the mean entropy of each response's group, nats."""

    group_mean_entropy_B: Tensor | None = None


class EntropyDrivenAdvantage:
    """A_i' = A_i / Phat_i,  Phat_i = P_i / mean_j P_j,  P_i = mean_t H_it.

    Args:
        floor, ceiling: bounds on Phat, None for no bound. Phat <= G always, so at G = 8 a ceiling of 10 never holds.
            Without a floor a Phat of 0 gives an infinite advantage, and the module refuses the step.
        detach: False lets the gradient through P_i (not through the group mean), which lowers entropy where A > 0 and
            raises it where A < 0.
    Raises:
        UserError: the bounds are not 0 < floor <= 1 <= ceiling.
    """

    needs_scores = True

    def __init__(self, *, floor: float | None = 0.1, ceiling: float | None = 10.0, detach: bool = True):
        if not (floor is None or 0 < floor <= 1) or not (ceiling is None or ceiling >= 1):
            raise UserError(
                f"credit.floor={floor}, credit.ceiling={ceiling}: 0 < floor <= 1 <= ceiling expected, null for no bound"
            )
        self.floor = floor
        self.ceiling = ceiling
        self.detach = detach

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> EntropyConstants:
        """Group mean entropies over all ranks, and Phat of each response here.

        Raises:
            ValueError: a response has no token.
        """
        entropy_B = segment_mean(scored.entropies_N, scored.response_N, len(scored.advantages_B))
        total_P = all_reduce(segment_sum(entropy_B, scored.group_B, scored.groups), "sum")
        count_P = all_reduce(segment_count(scored.group_B, scored.groups), "sum")
        group_mean_B = (total_P / count_P)[scored.group_B]
        unbounded_B = relative_entropy(entropy_B, group_mean_B)
        bounded_B = self._bound(unbounded_B)
        return EntropyConstants(
            advantages_B=scored.advantages_B,
            alive_B=scored.advantages_B != 0,
            relative_entropy_B=bounded_B,
            clamped_B=bounded_B != unbounded_B,
            group_mean_entropy_B=group_mean_B,
        )

    def weigh(self, constants: EntropyConstants, forward: Forward) -> Tensor:
        if self.detach:
            return divide_by_relative_entropy(constants.advantages_B, constants.relative_entropy_B)[forward.response_N]
        responses, local_N = forward.response_N.unique(return_inverse=True)
        entropy = segment_mean(forward.entropies_N, local_N, len(responses))
        phat = self._bound(relative_entropy(entropy, constants.group_mean_entropy_B[responses]))
        return divide_by_relative_entropy(constants.advantages_B[responses], phat)[local_N]

    def _bound(self, phat: Tensor) -> Tensor:
        return phat if self.floor is None and self.ceiling is None else phat.clamp(self.floor, self.ceiling)


def relative_entropy(entropy_B: Tensor, group_mean_B: Tensor) -> Tensor:
    """Phat_i = P_i / mean_j P_j (Eq. 6); 1 where the mean is 0, since all responses are then equally certain."""
    certain_B = group_mean_B == 0
    return torch.where(certain_B, 1.0, entropy_B / group_mean_B.masked_fill(certain_B, 1.0))


def divide_by_relative_entropy(advantages_B: Tensor, phat_B: Tensor) -> Tensor:
    """A_i' = A_i / Phat_i (Eq. 7); 0 where A_i is 0, also at Phat = 0."""
    zero_B = advantages_B == 0
    return torch.where(zero_B, 0.0, advantages_B / phat_B.masked_fill(zero_B, 1.0))

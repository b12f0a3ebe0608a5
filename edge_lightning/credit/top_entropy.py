"""The 80/20 rule: only the most uncertain tokens are learned from.

Source: "Beyond the 80/20 rule" (arXiv:2506.01939). The loss still divides by all tokens.
"""

from __future__ import annotations

import torch

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Scope, Scored, TokenConstants, TokenCredit
from edge_lightning.errors import UserError
from edge_lightning.order_statistics import quantiles


class TopEntropy(TokenCredit):
    """A_t = A where H_t is at or above the quantile 1 - share over all response tokens of the step, else 0.

    Args:
        share: of the tokens that keep their advantage; 0.2 in the paper, 1 is GRPO.
    Raises:
        UserError: the share is not in (0, 1].
    """

    scope = Scope.STEP

    def __init__(self, *, share: float = 0.2):
        if not 0 < share <= 1:
            raise UserError(f"credit.share={share}: above 0 and at most 1 expected, 0.2 is usual")
        self.share = share

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> TokenConstants:
        """Which tokens keep their advantage; the quantile is over all ranks."""
        known_N = scored.entropies_N[~scored.entropies_N.isnan()]
        threshold = quantiles(known_N, [1 - self.share], all_reduce).to(scored.entropies_N.device)
        advantage_N = scored.advantages_B[scored.response_N]
        left_out_N = scored.entropies_N.double() < threshold
        unknown_N = scored.entropies_N.isnan() & (advantage_N != 0)
        kept_N = torch.where(left_out_N, 0.0, advantage_N).masked_fill(unknown_N, torch.nan)
        return TokenConstants(scored.advantages_B, token_advantages_N=kept_N)

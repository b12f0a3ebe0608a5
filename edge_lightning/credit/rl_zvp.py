"""Groups without variance are learned from too: right ones praise uncertain tokens, wrong ones blame certain ones.

Source: RL-ZVP (arXiv:2509.21880), Eq. 5.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Scope, Scored, TokenConstants, TokenCredit
from edge_lightning.errors import UserError


class RLZVP(TokenCredit):
    """In a group whose rewards are equal, H detached and its maximum taken inside the response,

        right   A_t = alpha H_t
        wrong   A_t = -alpha (max_k H_k - H_t)

    elsewhere A_t = A.

    Args:
        alpha: 0.1 in the paper; 0 is GRPO.
    Raises:
        UserError: alpha is below 0.
    """

    scope = Scope.RESPONSE

    def __init__(self, *, alpha: float = 0.1):
        if not 0 <= alpha < math.inf:
            raise UserError(f"credit.alpha={alpha}: at least 0 expected, 0.1 is usual")
        self.alpha = alpha

    def alive(self, advantages_B: Tensor) -> Tensor:
        return torch.full_like(advantages_B, self.alpha > 0, dtype=torch.bool) | (advantages_B != 0)

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> TokenConstants:
        entropies_N, response_N = scored.entropies_N, scored.response_N
        highest_B = entropies_N.new_full((len(scored.advantages_B),), -torch.inf)
        highest_B = highest_B.scatter_reduce(0, response_N, entropies_N, "amax")
        praise_N = self.alpha * entropies_N
        blame_N = -self.alpha * (highest_B[response_N] - entropies_N)
        shaped_N = torch.where(scored.right_B[response_N], praise_N, blame_N)
        advantage_N = scored.advantages_B[response_N]
        return TokenConstants(
            scored.advantages_B, token_advantages_N=torch.where(scored.tied_B[response_N], shaped_N, advantage_N)
        )

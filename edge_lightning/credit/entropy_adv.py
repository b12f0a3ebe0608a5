"""Entropy as a bonus on the advantage, bounded so that it never turns a sign.

Source: EntropyAdv (arXiv:2506.14758).
"""

from __future__ import annotations

import math

import torch

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Scope, Scored, TokenConstants, TokenCredit
from edge_lightning.errors import UserError


class EntropyAdv(TokenCredit):
    """A_t = A + min(alpha H_t, |A| / kappa), H detached; 0 where A is 0.

    A positive advantage grows at uncertain tokens, a negative one shrinks there, by at most its kappa-th part.

    Args:
        alpha: 0.4 in the paper; 0 is GRPO.
        kappa: 2 in the paper; above 1, so that the sign of A stays.
    Raises:
        UserError: a value is out of its range.
    """

    scope = Scope.RESPONSE

    def __init__(self, *, alpha: float = 0.4, kappa: float = 2.0):
        if not 0 <= alpha < math.inf:
            raise UserError(f"credit.alpha={alpha}: at least 0 expected, 0.4 is usual")
        if not 1 < kappa < math.inf:
            raise UserError(f"credit.kappa={kappa}: above 1 expected, or the bonus could turn the sign of an advantage")
        self.alpha = alpha
        self.kappa = kappa

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> TokenConstants:
        advantage_N = scored.advantages_B[scored.response_N]
        bonus_N = torch.minimum(self.alpha * scored.entropies_N, advantage_N.abs() / self.kappa)
        return TokenConstants(
            scored.advantages_B, token_advantages_N=torch.where(advantage_N == 0, 0.0, advantage_N + bonus_N)
        )

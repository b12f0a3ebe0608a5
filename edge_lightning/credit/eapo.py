"""EAPO: in right responses uncertain tokens get more of the advantage, in wrong ones certain tokens do.

Source: EAPO (arXiv:2609.33781) and its released code. The share of a response's tokens is redistributed; how much a response
counts stays what its advantage says.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Scope, Scored, TokenConstants, TokenCredit
from edge_lightning.errors import UserError
from edge_lightning.masking import segment_mean
from edge_lightning.order_statistics import quantiles

EPSILON = 1e-8
LARGEST_KAPPA = 50  # e^kappa is a float32 number, and the sum of such


class EAPO(TokenCredit):
    """A_t = A w_t,  w_t = u_t / mean of u over the response,  u_t = exp(kappa b h_t).

        h_t = clip((H_t - Q10) / (Q90 - Q10 + 1e-8), 0, 1)    b = positive where A > 0, negative where A < 0

    Q10 and Q90 are quantiles over all response tokens of the step, H is the policy's that sampled. The mean of A_t over a
    response is A; two weights of a response differ at most by a factor of e^kappa.

    Args:
        kappa: log 4 in the paper; 0 is GRPO.
        positive, negative: b, each -1, 0 or 1. (1, -1) is EAPO, (0, 0) GRPO.
        kappa_decay_steps: over these first rollouts kappa falls linearly to 0, an option of the released code; 0: it is the
            same throughout.
    Raises:
        UserError: a value is out of its range.
    """

    scope = Scope.STEP

    def __init__(self, *, kappa: float = math.log(4), positive: int = 1, negative: int = -1, kappa_decay_steps: int = 0):
        if not 0 <= kappa <= LARGEST_KAPPA:
            raise UserError(f"credit.kappa={kappa}: 0 to {LARGEST_KAPPA} expected, log 4 = 1.386 is usual")
        if positive not in (-1, 0, 1) or negative not in (-1, 0, 1):
            raise UserError(f"credit.positive={positive}, credit.negative={negative}: -1, 0 or 1 expected")
        if kappa_decay_steps < 0:
            raise UserError(f"credit.kappa_decay_steps={kappa_decay_steps}: at least 0 expected")
        self.kappa = kappa
        self.positive = positive
        self.negative = negative
        self.kappa_decay_steps = kappa_decay_steps

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> TokenConstants:
        """The weights of a step's tokens; quantiles over all ranks."""
        level_N = entropy_level(scored.entropies_N, all_reduce)
        sign_B = self.positive * (scored.advantages_B > 0) + self.negative * (scored.advantages_B < 0)
        u_N = (self.kappa_at(scored.step) * sign_B[scored.response_N] * level_N).exp()
        mean_B = segment_mean(u_N, scored.response_N, len(scored.advantages_B))
        weight_N = u_N / mean_B[scored.response_N]
        advantage_N = scored.advantages_B[scored.response_N]
        return TokenConstants(
            scored.advantages_B, token_advantages_N=torch.where(advantage_N == 0, 0.0, advantage_N * weight_N)
        )

    def kappa_at(self, step: int) -> float:
        """kappa of a step, counted from 0."""
        return self.kappa * (max(0.0, 1 - step / self.kappa_decay_steps) if self.kappa_decay_steps else 1.0)


def entropy_level(entropies_N: Tensor, all_reduce: AllReduce) -> Tensor:
    """h_t in [0, 1]; 0 at and below the step's 10 % quantile, 1 at and above its 90 % quantile. NaN where H is."""
    known_N = entropies_N[~entropies_N.isnan()]
    low, high = quantiles(known_N, [0.1, 0.9], all_reduce).to(entropies_N.device, entropies_N.dtype)
    return ((entropies_N - low) / (high - low + EPSILON)).clamp(0, 1)

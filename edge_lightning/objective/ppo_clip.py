"""The clipped surrogate of PPO over token advantages, as GRPO uses it.

Source: EDGE-GRPO (arXiv:2507.21848), Eq. 1; the KL term is GRPO's (arXiv:2402.03300, Eq. 4), with a coefficient of 0 there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.errors import UserError
from edge_lightning.masking import wrong_prefix_mask
from edge_lightning.objective.base import Loss, StepTotals, check_aggregation, token_weights
from edge_lightning.objective.kl import kl_divergence
from edge_lightning.tokens import Forward, TokenBatch
from edge_lightning.types import Response

INJECTED_TOKENS = ("as_sampled", "masked")


class PPOClip:
    """loss = -sum_t w_t [min(rho_t A_t, clip(rho_t, 1 - low, 1 + high) A_t) - beta KL_t],   rho_t = pi_theta / pi_old.

    Args:
        clip_low, clip_high: distances of the bounds from 1.
        injected_tokens: `as_sampled` trains on tokens that the policy did not sample as if it had (ratio 1 at the first
            update: advantage-weighted imitation, the paper's way); `masked` gives them no gradient.
        train_wrong_prefix: False gives no gradient to the sampled tokens in front of an injected part, so that a
            correction's positive advantage does not praise the wrong working before it.
        aggregation: `response_mean` (paper) or `token_mean`.
        kl_coefficient: beta, of the divergence from a frozen reference policy, over the tokens that are trained on; above 0
            every response has a gradient, also where all advantages of its group are 0.
    """

    imitates = False

    def __init__(
        self,
        *,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        injected_tokens: str = "as_sampled",
        train_wrong_prefix: bool = True,
        aggregation: str = "response_mean",
        kl_coefficient: float = 0.0,
    ):
        if injected_tokens not in INJECTED_TOKENS:
            raise UserError(f"objective.injected_tokens={injected_tokens}: one of {', '.join(INJECTED_TOKENS)} expected")
        if not 0 <= clip_low < 1 or clip_high < 0:
            raise UserError(f"objective.clip_low={clip_low}, clip_high={clip_high}: 0 <= low < 1 and 0 <= high expected")
        if not 0 <= kl_coefficient < math.inf:
            raise UserError(f"objective.kl_coefficient={kl_coefficient}: at least 0 expected")
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.injected_tokens = injected_tokens
        self.train_wrong_prefix = train_wrong_prefix
        self.aggregation = check_aggregation(aggregation)
        self.kl_coefficient = kl_coefficient
        self.needs_reference = kl_coefficient > 0

    def wants(self, response: Response, alive: bool) -> bool:
        return alive or self.kl_coefficient > 0

    def __call__(
        self,
        forward: Forward,
        advantages_N: Tensor,
        tokens: TokenBatch,
        totals: StepTotals,
        *,
        old_logprobs_N: Tensor | None = None,
        reference_logprobs_N: Tensor | None = None,
    ) -> Loss:
        old_N = forward.logprobs_N.detach() if old_logprobs_N is None else old_logprobs_N
        ratio_N = (forward.logprobs_N - old_N).exp()
        bounded_N = ratio_N.clamp(1 - self.clip_low, 1 + self.clip_high)
        surrogate_N = torch.minimum(ratio_N * advantages_N, bounded_N * advantages_N)
        weights_N = token_weights(self.aggregation, forward.response_N, totals) * self._trained(tokens)
        clipped_N = bounded_N * advantages_N < ratio_N * advantages_N
        terms_N = -weights_N * surrogate_N
        if not self.needs_reference:
            return Loss(terms_N, ratio_N.detach(), clipped_N.detach())
        kl_N = kl_divergence(forward.logprobs_N, reference_logprobs_N)
        return Loss(terms_N + self.kl_coefficient * weights_N * kl_N, ratio_N.detach(), clipped_N.detach(), kl_N.detach())

    def _trained(self, tokens: TokenBatch) -> Tensor:
        """True for the tokens that get a gradient."""
        trained_N = torch.ones_like(tokens.sampled_N)
        if self.injected_tokens == "masked":
            trained_N &= tokens.sampled_N
        if not self.train_wrong_prefix:
            _, local_N = tokens.response_N.unique(return_inverse=True)
            trained_N &= ~wrong_prefix_mask(tokens.sampled_N, local_N, len(tokens.responses))
        return trained_N

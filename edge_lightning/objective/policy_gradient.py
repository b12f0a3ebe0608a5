"""The policy gradient over token advantages, with a surrogate of choice.

Source: EDGE-GRPO (arXiv:2507.21848), Eq. 1; the KL term is GRPO's (arXiv:2402.03300, Eq. 4), with a coefficient of 0 there.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from edge_lightning.errors import UserError
from edge_lightning.objective.base import Aggregation, Loss, StepTotals
from edge_lightning.objective.injected import INJECTED_TOKENS, likelihood, shaped_advantage, trained_tokens
from edge_lightning.objective.kl import kl_divergence
from edge_lightning.objective.mismatch import check_mismatch, mismatch_weights
from edge_lightning.objective.surrogates import Surrogate, TokenClip
from edge_lightning.tokens import Forward, TokenBatch
from edge_lightning.types import Provenance, Response


class PolicyGradient:
    """loss = -sum_t w_t [m_t gain_t - beta KL_t],   gain_t = rho_t A_t, bounded by the surrogate,   rho_t = p_t / p_old,t.

    The sum is over the tokens that are trained on; the others stay in the denominators of w_t.

    Args:
        surrogate: what a token is worth; None: TokenClip with bounds of 0.2.
        injected_tokens: what stands in place of the surrogate for tokens that the policy did not sample.
            `as_sampled` nothing does (ratio 1 at the first update: advantage-weighted imitation, the paper's way);
            `masked` they have no gradient; `supervised` their log-likelihood, whatever the advantage; `shaped` LUFFY's
            f(p) A without a clip.
        supervised_weight: of a `supervised` token beside a sampled one with an advantage of 1.
        shaping_gamma: the probability at which a `shaped` token has the largest gradient.
        train_wrong_prefix: False gives no gradient to the sampled tokens in front of an injected part, so that a
            correction's positive advantage does not praise the wrong working before it.
        train_corrected: False gives no gradient to responses that correction changed, not even of the KL term; they still
            stand in the statistics of their group.
        aggregation: `response_mean` (paper), `token_mean`, `group_token_mean` (EP-GRPO), or `token_sum` over
            `constant_length` (Dr. GRPO).
        mismatch: m_t for what engine and policy disagree about: `none` (1), `tis` or `mis`; see mismatch.py.
        mismatch_low, mismatch_high: bounds of the weight, the lower of `mis` alone.
        kl_coefficient: beta, of the divergence from a frozen reference policy, over the tokens that are trained on; above 0
            a response with such tokens has a gradient also where all advantages of its group are 0.
    """

    imitates = False

    def __init__(
        self,
        *,
        surrogate: Surrogate | None = None,
        injected_tokens: str = "as_sampled",
        supervised_weight: float = 1.0,
        shaping_gamma: float = 0.1,
        train_wrong_prefix: bool = True,
        train_corrected: bool = True,
        aggregation: str = "response_mean",
        constant_length: int | None = None,
        kl_coefficient: float = 0.0,
        mismatch: str = "none",
        mismatch_low: float = 0.5,
        mismatch_high: float = 2.0,
    ):
        if injected_tokens not in INJECTED_TOKENS:
            raise UserError(f"objective.injected_tokens={injected_tokens}: one of {', '.join(INJECTED_TOKENS)} expected")
        if not 0 < supervised_weight < math.inf:
            raise UserError(
                f"objective.supervised_weight={supervised_weight}: above 0 expected; "
                "set objective.injected_tokens=masked for no gradient"
            )
        if not 0 < shaping_gamma < math.inf:
            raise UserError(f"objective.shaping_gamma={shaping_gamma}: above 0 expected, 0.1 is usual")
        if not 0 <= kl_coefficient < math.inf:
            raise UserError(f"objective.kl_coefficient={kl_coefficient}: at least 0 expected")
        check_mismatch(mismatch, mismatch_low, mismatch_high)
        self.surrogate = surrogate or TokenClip()
        self.injected_gain = {
            "supervised": partial(likelihood, weight=supervised_weight),
            "shaped": partial(shaped_advantage, gamma=shaping_gamma),
        }.get(injected_tokens)
        self.supervises = injected_tokens == "supervised"
        self.trained = partial(
            trained_tokens, injected=injected_tokens != "masked", wrong_prefix=train_wrong_prefix, corrected=train_corrected
        )
        self.weights = Aggregation(aggregation, constant_length)
        self.mismatch = (
            None if mismatch == "none" else partial(mismatch_weights, kind=mismatch, low=mismatch_low, high=mismatch_high)
        )
        self.kl_coefficient = kl_coefficient
        self.needs_reference = kl_coefficient > 0

    def wants(self, response: Response, alive: bool) -> bool:
        """Whether a token that is trained on has a surrogate, a KL term or a likelihood."""
        sampled_N = torch.tensor(response.sampled_mask)
        corrected_N = torch.full_like(sampled_N, response.provenance is not Provenance.SAMPLED)
        trained_N = self.trained(sampled_N, corrected_N, torch.zeros_like(sampled_N, dtype=torch.long))
        supervised = self.supervises and bool((trained_N & ~sampled_N).any())
        return supervised or ((alive or self.needs_reference) and bool(trained_N.any()))

    def __call__(
        self,
        forward: Forward,
        advantages_N: Tensor,
        tokens: TokenBatch,
        totals: StepTotals,
        *,
        old_logprobs_N: Tensor | None = None,
        reference_logprobs_N: Tensor | None = None,
        clip_factors: tuple[Tensor, Tensor] | None = None,
    ) -> Loss:
        old_N = forward.logprobs_N.detach() if old_logprobs_N is None else old_logprobs_N
        worth = self.surrogate(forward.logprobs_N, old_N, advantages_N, forward.response_N, clip_factors)
        gain_N, ratio_N, clipped_N = worth.gain_N, worth.ratio_N, worth.clipped_N
        if self.mismatch is not None:
            gain_N = gain_N * self.mismatch(old_N, tokens.engine_logprobs_N)
        if self.injected_gain is not None:
            gain_N = torch.where(tokens.sampled_N, gain_N, self.injected_gain(forward.logprobs_N, advantages_N))
            ratio_N, clipped_N = (x.masked_fill(~tokens.sampled_N, torch.nan) for x in (ratio_N, clipped_N))
        trained_N = self.trained(tokens.sampled_N, tokens.corrected_N, tokens.response_N)
        ratio_N, clipped_N = (x.masked_fill(~trained_N, torch.nan) for x in (ratio_N, clipped_N))
        weights_N = self.weights(forward.response_N, totals) * trained_N
        terms_N = -weights_N * gain_N
        if not self.needs_reference:
            return Loss(terms_N, ratio_N, clipped_N)
        kl_N = kl_divergence(forward.logprobs_N, reference_logprobs_N)
        terms_N = terms_N + self.kl_coefficient * weights_N * kl_N
        return Loss(terms_N, ratio_N, clipped_N, kl_N.detach().masked_fill(~trained_N, torch.nan))

"""What a sampled token is worth: its advantage times a bounded ratio of the policy to the one that sampled.

At the first update of a rollout every ratio is 1, nothing is bounded, and all of them have the gradient A grad log p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from edge_lightning.errors import UserError
from edge_lightning.masking import segment_mean

ClipFactors = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Worth:
    """Of each token.

    Attributes:
        gain_N: what the objective adds up; differentiable in the log-probabilities.
        ratio_N: the ratio before it is bounded, detached.
        clipped_N: 1 where the bound took the gradient away, or (CISPO) cut its weight.
    """

    gain_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor


class Surrogate(Protocol):
    """What a token is worth.

    Attributes:
        scalable: whether its bounds can be scaled token by token.
    """

    scalable: bool

    def __call__(
        self,
        logprobs_N: Tensor,
        old_logprobs_N: Tensor,
        advantages_N: Tensor,
        response_N: Tensor,
        factors: ClipFactors | None = None,
    ) -> Worth:
        """The worth of the tokens of whole responses.

        Args:
            old_logprobs_N: under the policy that sampled, detached.
            response_N: index of each token's response, any numbers.
            factors: what the lower and the upper distance of each token's bounds from 1 are multiplied by.
        """


class TokenClip:
    """min(rho_t A_t, clip(rho_t, 1 - low, 1 + high) A_t),   rho_t = p_t / p_old,t.

    Source: PPO (arXiv:1707.06347), Eq. 7, by tokens as in GRPO. DAPO's clip-higher (arXiv:2503.14476) is 0.2 and 0.28.

    Args:
        clip_low, clip_high: distances of the bounds from 1.
    """

    scalable = True

    def __init__(self, *, clip_low: float = 0.2, clip_high: float = 0.2):
        self.clip_low, self.clip_high = check_clip(clip_low, clip_high)

    def __call__(
        self,
        logprobs_N: Tensor,
        old_logprobs_N: Tensor,
        advantages_N: Tensor,
        response_N: Tensor,
        factors: ClipFactors | None = None,
    ) -> Worth:
        low, high = self.clip_low, self.clip_high
        if factors is not None:
            low, high = (distance * factor_N for distance, factor_N in zip((low, high), factors))
        return clipped((logprobs_N - old_logprobs_N).exp(), advantages_N, low, high)


class SequenceClip:
    """GSPO: the ratio of a response is the geometric mean of its tokens' ratios, and is clipped as one.

        s_i = exp(mean_t (log p_t - log p_old,t))    min(s A_t, clip(s, 1 - low, 1 + high) A_t)

    Each token has the value s_i and the gradient s_i grad log p_t, so that token advantages may differ (GSPO-token); where
    they are equal, the mean over a response's tokens has value and gradient of min(s_i A, clip(s_i) A).

    Source: GSPO (arXiv:2507.18071), Eqs. 5 to 7 and 13, 14; clip 3e-4 and 4e-4.

    Args:
        clip_low, clip_high: distances of the bounds from 1.
    """

    scalable = False

    def __init__(self, *, clip_low: float = 3e-4, clip_high: float = 4e-4):
        self.clip_low, self.clip_high = check_clip(clip_low, clip_high)

    def __call__(
        self,
        logprobs_N: Tensor,
        old_logprobs_N: Tensor,
        advantages_N: Tensor,
        response_N: Tensor,
        factors: ClipFactors | None = None,
    ) -> Worth:
        responses, local_N = response_N.unique(return_inverse=True)
        log_ratio_N = (logprobs_N - old_logprobs_N).detach()
        ratio_N = segment_mean(log_ratio_N, local_N, len(responses)).exp()[local_N]
        return clipped(ratio_N * (logprobs_N - logprobs_N.detach()).exp(), advantages_N, self.clip_low, self.clip_high)


class CappedWeight:
    """CISPO: sg(min(rho_t, cap)) A_t log p_t. A bound limits a token's weight and never takes its gradient away.

    Source: MiniMax-M1 (arXiv:2506.13585), Eqs. 4 and 5.

    Args:
        cap: the largest weight; 5 is usual. 1 + clip_high where bounds are meant as PPO's.
        floor: the smallest; 0 for none, as published.
    """

    scalable = False

    def __init__(self, *, cap: float = 5.0, floor: float = 0.0):
        if not 0 <= floor <= 1 <= cap < math.inf:
            raise UserError(f"objective.surrogate.floor={floor}, cap={cap}: 0 <= floor <= 1 <= cap expected")
        self.cap = cap
        self.floor = floor

    def __call__(
        self,
        logprobs_N: Tensor,
        old_logprobs_N: Tensor,
        advantages_N: Tensor,
        response_N: Tensor,
        factors: ClipFactors | None = None,
    ) -> Worth:
        ratio_N = (logprobs_N - old_logprobs_N).exp().detach()
        weight_N = ratio_N.clamp(self.floor, self.cap)
        return Worth(weight_N * advantages_N * logprobs_N, ratio_N, (weight_N != ratio_N).float())


def clipped(ratio_N: Tensor, advantages_N: Tensor, low: float | Tensor, high: float | Tensor) -> Worth:
    """min(rho A, clip(rho, 1 - low, 1 + high) A)."""
    bounded_N = torch.clamp(ratio_N, as_bound(1 - low, ratio_N), as_bound(1 + high, ratio_N))
    gain_N = torch.minimum(ratio_N * advantages_N, bounded_N * advantages_N)
    return Worth(gain_N, ratio_N.detach(), (bounded_N * advantages_N < ratio_N * advantages_N).float())


def as_bound(bound: float | Tensor, like: Tensor) -> Tensor:
    return torch.as_tensor(bound, dtype=like.dtype, device=like.device)


def check_clip(low: float, high: float) -> tuple[float, float]:
    """Raise UserError for bounds that are none."""
    if not 0 <= low < 1 or not 0 <= high < math.inf:
        raise UserError(
            f"objective.surrogate.clip_low={low}, clip_high={high}: 0 <= clip_low < 1 and 0 <= clip_high expected"
        )
    return low, high

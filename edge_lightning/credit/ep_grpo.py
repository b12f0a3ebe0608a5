"""EP-GRPO: an entropy gate on the outcome, and a progress signal from the policy's own drift.

Source: EP-GRPO (arXiv:2605.04960); no code was released. Three parts can be switched: the entropy gate (EG), the implicit
progress signal (IPS), and its anchor in groups without variance (ZVD).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Scope, Scored, TokenConstants, TokenCredit
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.masking import segment_sum

EPSILON = 1e-8
ROUNDING = 1e-5  # nats: what two passes of one policy differ by in float32


class EPGRPO(TokenCredit):
    """A_t = W_t A + eta z_t.

        gate       W_t = sigmoid(gamma (H_t - mu) / (sigma + 1e-8)), mu and sigma over all tokens of the group
        signal     s_t = d (log p_t - log p_ref,t), d = sign A; in groups without variance 1 if right, -1 if wrong
        progress   tau_t = S_t / S_T, S the running sum of H in the response, 1 where S_T is 0
        z          z-score of s_t among the tokens of the group in one of K equal buckets of tau

    p is the policy that sampled. A bucket with one token, or whose signals differ by rounding alone, has z = 0: so it is in
    the first step of a run, where p is p_ref. The paper's factor lambda of the signal cancels in the z-score; its theta of
    0.5 divides rewards of 0 and 1, which is what right and wrong are here, whatever else a reward pays for.

    Args:
        entropy_gate: False: W = 1.
        progress: False: no z, and no reference policy is needed.
        zero_variance: False: d = 0 in groups without variance, which then have no gradient.
        gamma, buckets, eta: 5, 10, 0.2 in the paper.
    Raises:
        UserError: a value is out of its range.
    """

    scope = Scope.GROUP

    def __init__(
        self,
        *,
        entropy_gate: bool = True,
        progress: bool = True,
        zero_variance: bool = True,
        gamma: float = 5.0,
        buckets: int = 10,
        eta: float = 0.2,
    ):
        require_at_least_one("credit.buckets", buckets)
        if not 0 <= eta < math.inf or not 0 <= gamma < math.inf:
            raise UserError(f"credit.gamma={gamma}, eta={eta}: both at least 0 expected")
        self.entropy_gate = entropy_gate
        self.needs_reference = progress
        self.zero_variance = zero_variance
        self.gamma = gamma
        self.buckets = buckets
        self.eta = eta

    def alive(self, advantages_B: Tensor) -> Tensor:
        tied_too = self.needs_reference and self.zero_variance and self.eta > 0
        return torch.full_like(advantages_B, tied_too, dtype=torch.bool) | (advantages_B != 0)

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> TokenConstants:
        """Token advantages; statistics of a group are over all ranks.

        Raises:
            ValueError: the progress signal has no reference log-probabilities.
        """
        advantages_N = scored.advantages_B[scored.response_N].clone()
        if self.entropy_gate:
            advantages_N = torch.where(advantages_N == 0, 0.0, advantages_N * self.gate(scored, all_reduce))
        if self.needs_reference:
            advantages_N = advantages_N + self.eta * self.progress(scored, all_reduce)
        alive_N = self.alive(scored.advantages_B)[scored.response_N]
        advantages_N = torch.where(alive_N, advantages_N, 0.0)  # not NaN, where the group has no scores
        return TokenConstants(scored.advantages_B, token_advantages_N=advantages_N)

    def gate(self, scored: Scored, all_reduce: AllReduce = alone) -> Tensor:
        """W_t in (0, 1); 1/2 at the group's mean entropy."""
        group_N = scored.group_B[scored.response_N]
        return torch.sigmoid(self.gamma * z_scores(scored.entropies_N, group_N, scored.groups, all_reduce, epsilon=EPSILON))

    def progress(self, scored: Scored, all_reduce: AllReduce = alone) -> Tensor:
        """z_t."""
        if scored.reference_logprobs_N is None:
            raise ValueError("credit ep_grpo: log-probabilities under a reference policy expected, None came")
        tied_B = 2.0 * scored.right_B.float() - 1 if self.zero_variance else torch.zeros_like(scored.advantages_B)
        anchor_B = torch.where(scored.tied_B, tied_B, torch.sign(scored.advantages_B))
        signal_N = anchor_B[scored.response_N] * (scored.logprobs_N - scored.reference_logprobs_N)
        bucket_N = (progress_of(scored.entropies_N, scored.response_N) * self.buckets).long().clamp(0, self.buckets - 1)
        segment_N = scored.group_B[scored.response_N] * self.buckets + bucket_N
        return z_scores(signal_N, segment_N, scored.groups * self.buckets, all_reduce, rounding=ROUNDING)


def progress_of(entropies_N: Tensor, response_N: Tensor) -> Tensor:
    """tau_t: share of the response's entropy that is used up after the token; 1 where the response has none."""
    entropies = entropies_N.double().nan_to_num(0)  # one that is not known yet must not reach into the next response
    total_B = segment_sum(entropies, response_N, int(response_N.max()) + 1)
    before_B = total_B.cumsum(0) - total_B
    share_N = (entropies.cumsum(0) - before_B[response_N]) / total_B[response_N]
    return torch.where(total_B[response_N] == 0, 1.0, share_N).clamp(0, 1)


def z_scores(
    values_N: Tensor,
    segment_N: Tensor,
    segments: int,
    all_reduce: AllReduce,
    *,
    epsilon: float = 0.0,
    rounding: float = 0.0,
) -> Tensor:
    """(x - mean) / (std + epsilon) over each segment and all ranks, with the population's standard deviation.

    Args:
        rounding: a segment with a standard deviation up to this has z = 0.
    """
    values = values_N.double()
    count = all_reduce(torch.bincount(segment_N, minlength=segments).double(), "sum").clamp(min=1)
    mean = all_reduce(segment_sum(values, segment_N, segments), "sum") / count
    deviation_N = values - mean[segment_N]
    std_N = (all_reduce(segment_sum(deviation_N**2, segment_N, segments), "sum") / count).sqrt()[segment_N]
    equal_N = std_N <= rounding
    return torch.where(equal_N, 0.0, deviation_N / (std_N + epsilon).masked_fill(equal_N, 1.0)).float()

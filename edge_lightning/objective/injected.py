"""Tokens that correction put in: which of a response's tokens are trained on, and what an injected one is worth.

The policy did not sample them, so no ratio to its own probability corrects for where they came from. docs/injected_tokens.md
compares the treatments. Left out: RL-PLUS (arXiv:2508.00222), and what else LUFFY changes about GRPO.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.masking import wrong_prefix_mask

INJECTED_TOKENS = ("as_sampled", "masked", "supervised", "shaped")


def likelihood(logprobs_N: Tensor, advantages_N: Tensor, *, weight: float) -> Tensor:
    """weight log p, whatever the advantage. Its gradient in log p is the weight.

    Source: the sum of a reinforcement and a supervised loss, each over its own tokens.
    """
    return weight * logprobs_N


def shaped_advantage(logprobs_N: Tensor, advantages_N: Tensor, *, gamma: float) -> Tensor:
    """f(p) A,  f(p) = p / (p + gamma): the ratio to a behaviour probability of 1, shaped, without a clip.

    Its gradient in log p is A gamma p / (p + gamma)^2, where that of p A would be A p: tokens that the policy holds
    unlikely are learned from too. The most, A / 4, is at p = gamma.

    Source: LUFFY (arXiv:2504.14945), policy shaping.
    """
    return torch.sigmoid(logprobs_N - math.log(gamma)) * advantages_N


def trained_tokens(
    sampled_N: Tensor, corrected_N: Tensor, response_N: Tensor, *, injected: bool, wrong_prefix: bool, corrected: bool
) -> Tensor:
    """True for the tokens that may have a gradient.

    Args:
        sampled_N: True where the policy sampled the token; corrected_N: True where correction changed its response.
        response_N: index of each token's response, any numbers.
        injected, wrong_prefix, corrected: whether injected tokens, sampled tokens in front of an injected part, and
            responses that correction changed are trained on.
    """
    trained_N = torch.ones_like(sampled_N)
    if not injected:
        trained_N &= sampled_N
    if not corrected:
        trained_N &= ~corrected_N
    if not wrong_prefix:
        responses, local_N = response_N.unique(return_inverse=True)
        trained_N &= ~wrong_prefix_mask(sampled_N, local_N, len(responses))
    return trained_N

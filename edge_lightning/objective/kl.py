"""Divergence from a reference policy, estimated from the tokens at hand.

Source: Schulman's k3 estimator, as GRPO uses it (arXiv:2402.03300, Eq. 4). It is unbiased for tokens that the policy
sampled; for tokens that correction put in it is a penalty of the same shape, not an estimate of the divergence.
"""

from __future__ import annotations

from torch import Tensor


def kl_divergence(logprobs_N: Tensor, reference_logprobs_N: Tensor) -> Tensor:
    """KL_t = p_ref / p - log(p_ref / p) - 1, nats; at least 0, and 0 where both agree.

    Differentiable in `logprobs_N`: d KL_t / d log p = 1 - p_ref / p.
    """
    log_ratio_N = reference_logprobs_N - logprobs_N
    return log_ratio_N.exp() - log_ratio_N - 1

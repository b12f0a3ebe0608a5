"""A weight for tokens of which the engine and the policy hold different probabilities though their weights are the same.

    w_t = p_old,t / p_engine,t,   p_old the policy's own when it sampled

Sources: truncated importance sampling (TIS, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training") and
masked importance sampling (MIS, as in IcePop). A float32 engine beside a float32 policy has w = 1 to 1e-5.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edge_lightning.errors import UserError

MISMATCH = ("none", "tis", "mis")


def mismatch_weights(old_logprobs_N: Tensor, engine_logprobs_N: Tensor, *, kind: str, low: float, high: float) -> Tensor:
    """w_t, detached; 1 for tokens that no engine sampled.

        tis    min(w_t, high)
        mis    w_t where low <= w_t <= high, else 0

    Args:
        engine_logprobs_N: NaN for tokens that were put in.
    """
    weight_N = (old_logprobs_N.detach() - engine_logprobs_N).exp()
    if kind == "tis":
        weight_N = weight_N.clamp(max=high)
    else:
        weight_N = torch.where((weight_N < low) | (weight_N > high), 0.0, weight_N)
    return torch.where(engine_logprobs_N.isnan(), 1.0, weight_N)


def check_mismatch(kind: str, low: float, high: float) -> None:
    """Raise UserError for an unknown kind or bounds that 1 does not lie between."""
    if kind not in MISMATCH:
        raise UserError(f"objective.mismatch={kind}: one of {', '.join(MISMATCH)} expected")
    if not 0 <= low <= 1 <= high < math.inf:
        raise UserError(f"objective.mismatch_low={low}, mismatch_high={high}: 0 <= low <= 1 <= high expected")

"""One pass of the policy without gradient over the responses of a step, laid out in the step's flat token order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from edge_lightning.policy import Policy
from edge_lightning.sharding import forget_passes
from edge_lightning.tokens import Forward, TokenBatch
from edge_lightning.types import Response


def response_index(responses: Sequence[Response]) -> Tensor:
    """response_N: index of each token's response, in the step's flat order (response by response)."""
    lengths = torch.tensor([len(r.completion_ids) for r in responses])
    return torch.repeat_interleave(torch.arange(len(responses)), lengths)


@torch.no_grad()
def score(
    policy: Policy, micro_batches: Iterable[TokenBatch], response_N: Tensor, *, padded_to: int | None = None
) -> Forward:
    """Log-probabilities and entropies of every response token, on the CPU, in the step's flat order.

    Args:
        padded_to: also the entropies at the padding that brings each response to this length; None: there is no padding.
    """
    logprobs_N = torch.full((len(response_N),), torch.nan)
    entropies_N = torch.full((len(response_N),), torch.nan)
    padding_B = None if padded_to is None else torch.full((int(response_N[-1]) + 1,), torch.nan)
    device = next(policy.parameters()).device
    for tokens in micro_batches:
        forward = policy(tokens.to(device), padded_to=padded_to if tokens.responses else None)
        logprobs_N[tokens.place_N] = forward.logprobs_N.cpu()
        entropies_N[tokens.place_N] = forward.entropies_N.cpu()
        if padding_B is not None and tokens.responses:
            padding_B[sorted(tokens.responses)] = forward.padding_entropy_B.cpu()
    forget_passes(policy)
    return Forward(logprobs_N, entropies_N, response_N, torch.arange(len(response_N)), padding_B)

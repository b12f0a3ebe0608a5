"""What an objective owes the pipeline: the loss of a micro-batch as a share of the whole step's.

Denominators are counts of the whole step over all ranks, so the sum over micro-batches does not depend on how the step
was split. Masked and left-out tokens stay in the denominators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from edge_lightning.errors import UserError
from edge_lightning.tokens import Forward, TokenBatch


@dataclass(frozen=True)
class StepTotals:
    """Counts of a whole step over all ranks, responses without gradient included."""

    responses: int
    tokens: int


@dataclass(frozen=True)
class Loss:
    """The micro-batch's share of the loss, and what it was made of (detached; None where it has no ratio)."""

    value: Tensor
    ratio_N: Tensor | None = None
    clipped_N: Tensor | None = None


class Objective(Protocol):
    """The loss.

    Attributes:
        wants_every_response: also those whose advantages are all 0.
    """

    wants_every_response: bool

    def __call__(
        self,
        forward: Forward,
        advantages_N: Tensor,
        tokens: TokenBatch,
        totals: StepTotals,
        *,
        old_logprobs_N: Tensor | None = None,
    ) -> Loss:
        """The loss. `old_logprobs_N` None: this is the first update, the old policy is the current one."""


def check_aggregation(name: str) -> str:
    """Raise UserError for an unknown aggregation."""
    if name not in ("response_mean", "token_mean"):
        raise UserError(f"objective.aggregation={name}: response_mean or token_mean expected")
    return name


def token_weights(aggregation: str, response_N: Tensor, totals: StepTotals) -> Tensor:
    """The weight of each token's term in the loss.

        response_mean   1 / (B L_i): the token mean of each response, then the mean over all responses of the step
        token_mean      1 / N:       the mean over all response tokens of the step

    Args:
        response_N: index of each token's response; each response stands in the micro-batch with all of its tokens.
    """
    if aggregation == "token_mean":
        return torch.full((len(response_N),), 1.0 / totals.tokens, device=response_N.device)
    _, local_N, length = response_N.unique(return_inverse=True, return_counts=True)
    return 1.0 / (totals.responses * length[local_N])

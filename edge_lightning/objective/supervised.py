"""Negative log-likelihood of the responses, whatever their advantage: supervised training on reference solutions."""

from __future__ import annotations

from torch import Tensor

from edge_lightning.objective.base import Aggregation, Loss, StepTotals
from edge_lightning.tokens import Forward, TokenBatch
from edge_lightning.types import Response


class Supervised:
    """loss = -sum_t w_t log pi_theta(token_t).

    Args:
        aggregation: `token_mean` (the usual cross-entropy) or `response_mean`.
    """

    imitates = True
    needs_reference = False

    def __init__(self, *, aggregation: str = "token_mean"):
        self.weights = Aggregation(aggregation)

    def wants(self, response: Response, alive: bool) -> bool:
        return True

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
        weights_N = self.weights(forward.response_N, totals)
        return Loss(-weights_N * forward.logprobs_N)

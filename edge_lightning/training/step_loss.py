"""The loss of one step as a function of the current weights, one micro-batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from edge_lightning.credit.base import Constants, Credit, Scored
from edge_lightning.objective.base import Loss, Objective, StepTotals
from edge_lightning.policy import Policy
from edge_lightning.tokens import Forward, TokenBatch

ConstantsOf = Callable[[Forward], Constants]


@dataclass(frozen=True)
class Piece:
    """A micro-batch's share of the loss.

    Attributes:
        place_N: where its tokens stand in the step's flat order.
        advantages_N: after credit.
    """

    place_N: Tensor
    forward: Forward
    advantages_N: Tensor
    loss: Loss


@dataclass(frozen=True)
class StepLoss:
    """Calls policy, credit and objective; the pieces' losses sum to the step's.

    Attributes:
        scored: the step.
        totals: what the loss is divided by, whichever responses are trained.
        padded_to: tokens of the longest response here, where the credit looks at padding.
    """

    policy: Policy
    credit: Credit
    objective: Objective
    scored: Scored
    totals: StepTotals
    device: torch.device
    padded_to: int | None = None

    def __call__(
        self, micro_batches: Iterable[TokenBatch], constants_of: ConstantsOf, old_logprobs_N: Tensor | None = None
    ) -> Iterator[Piece]:
        """The pieces of some responses, each with a graph of its own; take the gradient of one before the next.

        Args:
            constants_of: the step's constants, right for the micro-batch with this forward pass.
            old_logprobs_N: under the policy that sampled, in the step's flat order; None at the first update.
        """
        for tokens in micro_batches:
            place_N, tokens = tokens.place_N, tokens.to(self.device)
            forward = self.policy(tokens, padded_to=self.padded_to if tokens.responses else None)
            constants = constants_of(forward).to(self.device)
            if not tokens.responses:  # other ranks have some
                yield Piece(place_N, forward, forward.logprobs_N, Loss(forward.logprobs_N))
                continue
            advantages_N = self.credit.weigh(constants, forward)
            clip_factors = None
            if self.credit.scales_clip:
                factors = constants.clip_low_factor_N, constants.clip_high_factor_N
                clip_factors = tuple(factor_N[forward.place_N] for factor_N in factors)
            loss = self.objective(
                forward,
                advantages_N,
                tokens,
                self.totals,
                old_logprobs_N=self._of(old_logprobs_N, place_N),
                reference_logprobs_N=self._of(self.scored.reference_logprobs_N, place_N),
                clip_factors=clip_factors,
            )
            yield Piece(place_N, forward, advantages_N, loss)

    def _of(self, values_N: Tensor | None, place_N: Tensor) -> Tensor | None:
        return None if values_N is None else values_N[place_N].to(self.device)

"""What a step's optimizer steps did, for the record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from edge_lightning.credit.base import Constants, Scored
from edge_lightning.errors import UserError
from edge_lightning.training.step_loss import Piece


@dataclass
class Update:
    """In the step's flat token order. NaN where no pass computed a value.

    Attributes:
        logprobs_N, entropies_N: under the policy that sampled, nats.
        scored: whether they come from a pass over all responses, not from the first update's over some.
        token_advantages_N: after credit; 0 for responses left out of the forward pass.
        ratio_N, clipped_N: of the surrogate at the last update; NaN where the objective has none.
        kl_N: divergence from the reference policy at the last update, nats.
        losses, gradient_norms: of each update; norms before clipping.
        gradient_shares: figures of the first update's gradient by part of the tokens, where they were asked for.
    """

    constants: Constants
    response_N: Tensor
    logprobs_N: Tensor
    entropies_N: Tensor
    token_advantages_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor
    kl_N: Tensor
    scored: bool
    trained_responses: int
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    gradient_shares: dict[str, float] = field(default_factory=dict)
    learning_rate: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Mean over the updates."""
        return sum(self.losses) / len(self.losses)

    @property
    def gradient_norm(self) -> float:
        """Mean over the updates, before clipping."""
        return sum(self.gradient_norms) / len(self.gradient_norms)

    @classmethod
    def begin(cls, scored: Scored, constants: Constants, trained_responses: int) -> Update:
        """Nothing done yet; what the scoring pass found is known."""
        nothing_N = torch.full((len(scored.response_N),), torch.nan)
        return cls(
            constants=constants,
            response_N=scored.response_N,
            logprobs_N=nothing_N.clone() if scored.logprobs_N is None else scored.logprobs_N.clone(),
            entropies_N=nothing_N.clone() if scored.entropies_N is None else scored.entropies_N.clone(),
            token_advantages_N=torch.zeros(len(scored.response_N)),
            ratio_N=nothing_N.clone(),
            clipped_N=nothing_N.clone(),
            kl_N=nothing_N.clone(),
            scored=scored.logprobs_N is not None,
            trained_responses=trained_responses,
        )

    def take(self, piece: Piece) -> None:
        """Note a micro-batch of the update that has begun last."""
        first, place_N, loss = len(self.losses) == 1, piece.place_N, piece.loss
        self.losses[-1] += float(loss.value.detach())
        self.token_advantages_N[place_N] = piece.advantages_N.detach().cpu()
        if first and not self.scored:
            self.logprobs_N[place_N] = piece.forward.logprobs_N.detach().cpu()
            self.entropies_N[place_N] = piece.forward.entropies_N.detach().cpu()
        for here_N, found_N in ((self.ratio_N, loss.ratio_N), (self.clipped_N, loss.clipped_N), (self.kl_N, loss.kl_N)):
            if found_N is not None:
                here_N[place_N] = found_N.float().cpu()

    def refuse_non_finite(self, step: int) -> None:
        """Raise UserError before an optimizer step that would ruin the weights; those of the one before stay."""
        loss, norm = self.losses[-1], self.gradient_norms[-1]
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise UserError(
                f"step {step}, update {len(self.losses)}: loss {loss:g} and gradient norm {norm:g}, finite ones expected; "
                "this update was not made; lower optimizer.lr, or set credit.floor where relative entropy can be 0"
            )

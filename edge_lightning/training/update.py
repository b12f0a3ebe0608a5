"""What a step's optimizer steps did, for the record."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from edge_lightning.credit.base import Constants, Scored
from edge_lightning.tokens import Forward
from edge_lightning.training.step_loss import Piece


@dataclass
class Update:
    """In the step's flat token order. NaN where no pass computed a value.

    Attributes:
        logprobs_N, entropies_N: under the policy that sampled, nats; from the scoring pass, or from the first update's.
        constants: of the credit, with all that was scored.
        token_advantages_N: after credit; 0 for responses left out of the forward pass.
        ratio_N, clipped_N: of the surrogate at the last update over the token; NaN where the objective has none.
        kl_N: divergence from the reference policy at that update, nats.
        losses, gradient_norms: of each update; norms before clipping.
        skipped: optimizer steps that were not made.
        faults: which responses of the update that has begun last had which value that is no number.
        gradient_shares: figures of the first update's gradient by part of the tokens, where they were asked for.
    """

    response_N: Tensor
    logprobs_N: Tensor
    entropies_N: Tensor
    token_advantages_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor
    kl_N: Tensor
    trained_responses: int
    constants: Constants | None = None
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    gradient_shares: dict[str, float] = field(default_factory=dict)
    learning_rate: float = 0.0
    skipped: int = 0
    faults: dict[str, set[int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every token has its log-probability and entropy, not those of trained responses alone."""
        return not bool(self.entropies_N.isnan().any())

    @property
    def loss(self) -> float:
        """Mean over the updates."""
        return sum(self.losses) / len(self.losses)

    @property
    def gradient_norm(self) -> float:
        """Mean over the updates, before clipping."""
        return sum(self.gradient_norms) / len(self.gradient_norms)

    @classmethod
    def begin(cls, scored: Scored, trained_responses: int) -> Update:
        """Nothing done yet; what the scoring pass found is known."""
        nothing_N = torch.full((len(scored.response_N),), torch.nan)
        return cls(
            response_N=scored.response_N,
            logprobs_N=scored.logprobs_N.clone(),
            entropies_N=scored.entropies_N.clone(),
            token_advantages_N=torch.zeros(len(scored.response_N)),
            ratio_N=nothing_N.clone(),
            clipped_N=nothing_N.clone(),
            kl_N=nothing_N.clone(),
            trained_responses=trained_responses,
        )

    def see(self, forward: Forward) -> None:
        """Note what the first update's forward pass says about responses that had no scoring pass."""
        place_N = forward.place_N.cpu()
        unscored_N = self.logprobs_N[place_N].isnan()
        for here_N, found_N in ((self.logprobs_N, forward.logprobs_N), (self.entropies_N, forward.entropies_N)):
            here_N[place_N] = torch.where(unscored_N, found_N.detach().cpu(), here_N[place_N])

    def take(self, piece: Piece) -> Tensor:
        """Note a micro-batch of the update that has begun last; returns its share of the loss."""
        place_N, loss = piece.place_N, piece.loss
        self._note_faults(piece)
        self.losses[-1] += float(loss.value.detach())
        self.token_advantages_N[place_N] = piece.advantages_N.detach().cpu()
        for here_N, found_N in ((self.ratio_N, loss.ratio_N), (self.clipped_N, loss.clipped_N), (self.kl_N, loss.kl_N)):
            if found_N is not None:
                here_N[place_N] = found_N.float().cpu()
        return loss.value

    def _note_faults(self, piece: Piece) -> None:
        here_N = self.response_N[piece.place_N]
        for what, values_N in (
            ("entropy", piece.forward.entropies_N),
            ("log-probability", piece.forward.logprobs_N),
            ("advantage", piece.advantages_N),
            ("loss", piece.loss.terms_N),
        ):
            bad_N = ~torch.isfinite(values_N.detach()).cpu()
            if bad_N.any():
                self.faults.setdefault(what, set()).update(here_N[bad_N].tolist())

"""What a credit owes the pipeline: two calls.

`prepare` sees a whole step once, detached, and gives its constants. `weigh` turns them into token advantages beside the
loss, micro-batch by micro-batch, where it may look at the current policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce
from edge_lightning.tokens import Forward


class Scope(StrEnum):
    """What a credit's statistics are taken over."""

    RESPONSE = "response"
    GROUP = "group"
    STEP = "step"


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A step's responses as the policy that sampled them scores them. Detached.

    Attributes:
        step: number of rollouts before this one.
        advantages_B: group-relative, after correction.
        rewards_B, right_B: after correction; right means that the answer is, whatever else was rewarded.
        tied_B: whether all rewards of the response's group are equal.
        group_B: index of each response's group; `groups` of them.
        response_N: index of each token's response.
        entropies_N, logprobs_N: nats at the sampling temperature; NaN for responses that no pass has scored yet.
        reference_logprobs_N: under a frozen reference policy, nats; None where nothing needs it.
        padding_entropy_B: sum of the entropies at the padding that brings each response to the length of the longest here,
            nats; None where nothing needs it.
    """

    step: int
    advantages_B: Tensor
    rewards_B: Tensor
    right_B: Tensor
    tied_B: Tensor
    group_B: Tensor
    groups: int
    response_N: Tensor
    entropies_N: Tensor
    logprobs_N: Tensor
    reference_logprobs_N: Tensor | None = None
    padding_entropy_B: Tensor | None = None


@dataclass(frozen=True)
class Constants:
    """What `prepare` found out about a step. A credit may add to it.

    Attributes:
        advantages_B: group-relative.
        relative_entropy_B: Phat of each response, bounded, NaN where it is unknown; None for credits that have none.
        clamped_B: True where a bound on Phat held; None likewise.
        clip_low_factor_N, clip_high_factor_N: what the clip's distances from 1 are multiplied by, in the step's flat order;
            None for credits that leave them alone.
    """

    advantages_B: Tensor
    relative_entropy_B: Tensor | None = None
    clamped_B: Tensor | None = None
    clip_low_factor_N: Tensor | None = None
    clip_high_factor_N: Tensor | None = None

    def to(self, device: torch.device) -> Self:
        return replace(self, **{k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)})


class Credit(Protocol):
    """How a response's advantage spreads over responses and tokens.

    Attributes:
        scope: what the entropies or log-probabilities that `prepare` reads are taken over; None: it reads none.
        needs_padding: whether entropies at padding are read too.
        needs_reference: whether log-probabilities under a frozen reference policy are read.
        scales_clip: whether its constants have factors for the clip.
    """

    scope: Scope | None
    needs_padding: bool
    needs_reference: bool
    scales_clip: bool

    def alive(self, advantages_B: Tensor) -> Tensor:
        """False where no token advantage of the response can be other than 0, whatever `prepare` finds."""

    def prepare(self, scored: Scored, all_reduce: AllReduce) -> Constants:
        """The constants of a step; statistics span all ranks. What has no score yet (NaN) leaves the others' as they are."""

    def weigh(self, constants: Constants, forward: Forward) -> Tensor:
        """advantages_N of the tokens of a micro-batch."""


@dataclass(frozen=True)
class TokenConstants(Constants):
    """Adds the token advantages themselves, for credits that know them once the step is scored.

    Attributes:
        token_advantages_N: in the step's flat order, detached; NaN where a response has no scores and an advantage.
    """

    token_advantages_N: Tensor | None = None


class TokenCredit:
    """A credit whose token advantages do not look at the current policy: `prepare` finds all of them."""

    needs_padding = False
    needs_reference = False
    scales_clip = False

    def alive(self, advantages_B: Tensor) -> Tensor:
        return advantages_B != 0

    def weigh(self, constants: TokenConstants, forward: Forward) -> Tensor:
        return constants.token_advantages_N[forward.place_N]

"""What an objective owes the pipeline: the loss of a micro-batch as a share of the whole step's.

Denominators are counts of the whole step over all ranks, so the sum over micro-batches does not depend on how the step
was split. Masked and left-out tokens stay in the denominators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.errors import UserError
from edge_lightning.tokens import Forward, TokenBatch
from edge_lightning.types import Response


@dataclass(frozen=True)
class StepTotals:
    """Counts of what an update is over, on all ranks, responses without gradient included.

    Attributes:
        tokens_G: of each group, 0 where it isn't part of the update; None where nobody counted them.
        group_B: index of the group of each response of this rank.
    """

    responses: int
    tokens: int
    tokens_G: Tensor | None = None
    group_B: Tensor | None = None

    @classmethod
    def of(
        cls,
        response_N: Tensor,
        group_B: Tensor,
        groups: int,
        all_reduce: AllReduce = alone,
        *,
        counted: Sequence[int] | None = None,
    ) -> StepTotals:
        """Counted from the tokens of this rank's responses and the groups that these belong to.

        Args:
            response_N: index of each token's response.
            groups: of the step; a group may be spread over ranks.
            counted: the responses of an update over a part of the step, which is made of whole groups; None: all.
        """
        counted_B = torch.ones_like(group_B, dtype=torch.bool)
        if counted is not None:
            counted_B = torch.zeros_like(counted_B).index_fill_(0, torch.tensor(counted, dtype=torch.long), True)
        tokens_G = all_reduce(group_B[response_N[counted_B[response_N]]].bincount(minlength=groups), "sum")
        responses = all_reduce(counted_B.sum()[None], "sum")
        return cls(int(responses), int(tokens_G.sum()), tokens_G, group_B)


@dataclass(frozen=True)
class Loss:
    """The micro-batch's share of the loss, token by token, and what it was made of.

    Attributes:
        terms_N: each token's share, weights included; the loss is their sum.
        ratio_N: pi_theta / pi_old, detached; NaN for tokens without a surrogate, None where the objective has none.
        clipped_N: 1 where the clip took the gradient away, else 0; NaN and None likewise.
        kl_N: estimated divergence from the reference policy, nats, detached; NaN for tokens without a KL term, None where
            the objective has none.
    """

    terms_N: Tensor
    ratio_N: Tensor | None = None
    clipped_N: Tensor | None = None
    kl_N: Tensor | None = None

    @property
    def value(self) -> Tensor:
        return self.terms_N.sum()


class Objective(Protocol):
    """The loss.

    Attributes:
        imitates: whether it learns from whatever stands in the groups, so that what the policy sampled would confirm itself.
        needs_reference: whether it reads the log-probabilities of a frozen reference policy.
    """

    imitates: bool
    needs_reference: bool

    def wants(self, response: Response, alive: bool) -> bool:
        """Whether a response has a gradient and so a forward pass. `alive`: a token advantage of it may be other than 0."""

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
        """The loss.

        Args:
            old_logprobs_N: under the policy that sampled; None: this is the first update, which starts from it.
            reference_logprobs_N: under the reference policy; None unless `needs_reference`.
            clip_factors: of each token's bounds, for surrogates that have such; None: the bounds are as they are.
        """


AGGREGATIONS = ("response_mean", "token_mean", "group_token_mean", "token_sum")


class Aggregation:
    """The weight of each token's term in the loss.

        response_mean   1 / (B L_i): the token mean of each response, then the mean over all responses of the step
        token_mean      1 / N:       the mean over all response tokens of the step
        group_token_mean  1 / (P N_g):  the mean over all tokens of a group, then the mean over groups
        token_sum       1 / (B C):   the sum over a response's tokens by a constant length, then the mean over responses

    Sources: EP-GRPO (arXiv:2605.04960), Eq. 5, for the third, where a problem counts as much as another, however long its
    responses are; Dr. GRPO (arXiv:2503.20783) for the last, where long responses weigh more, whatever the others' lengths.

    Args:
        constant_length: C, tokens; the response limit is usual.
    Raises:
        UserError: the name is unknown, or C is missing.
    """

    def __init__(self, name: str, constant_length: int | None = None):
        if name not in AGGREGATIONS:
            raise UserError(f"objective.aggregation={name}: one of {', '.join(AGGREGATIONS)} expected")
        if name == "token_sum" and not (constant_length and constant_length > 0):
            raise UserError(
                f"objective.constant_length={constant_length}: at least 1 expected with objective.aggregation=token_sum"
            )
        self.name = name
        self.constant_length = constant_length

    def __call__(self, response_N: Tensor, totals: StepTotals) -> Tensor:
        """Args:
        response_N: index of each token's response; each response stands in the micro-batch with all of its tokens.
        Raises:
            ValueError: the mean is over groups, and the totals have no groups.
        """
        if self.name == "token_mean":
            return torch.full((len(response_N),), 1.0 / totals.tokens, device=response_N.device)
        if self.name == "token_sum":
            weight = 1.0 / (totals.responses * self.constant_length)
            return torch.full((len(response_N),), weight, device=response_N.device)
        if self.name == "group_token_mean":
            if totals.tokens_G is None:
                raise ValueError("group_token_mean needs the tokens of each group; count them with StepTotals.of")
            tokens_N = totals.tokens_G[totals.group_B[response_N.cpu()]].to(response_N.device)
            return 1.0 / (totals.tokens_G.count_nonzero() * tokens_N)
        _, local_N, length = response_N.unique(return_inverse=True, return_counts=True)
        return 1.0 / (totals.responses * length[local_N])

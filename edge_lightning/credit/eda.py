"""Entropy-driven advantage: confident responses get larger advantages.

Source: EDGE-GRPO (arXiv:2507.21848), Eqs. 3, 4, 6, 7. Its released code differs in four ways, each an option here: it does
not detach P_i, does not bound Phat, takes P_i over padding too, and the mean of P over all ranks whatever their groups.
Left out: per-token weights; the whole response is scaled by one factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Constants, Scope, Scored
from edge_lightning.errors import UserError
from edge_lightning.masking import segment_count, segment_mean, segment_sum
from edge_lightning.tokens import Forward

SIGNS = {"all": (-1, 0, 1), "positive": (1,), "negative": (-1,)}


@dataclass(frozen=True)
class EntropyConstants(Constants):
    """Adds what P_i is compared with, and over how many positions it is taken.

    Attributes:
        group_mean_entropy_B: mean P of each response's group (or of the step), nats.
        padded_length: tokens of the longest response here, to which the others are padded.
    """

    group_mean_entropy_B: Tensor | None = None
    padded_length: int = 0


class EntropyDrivenAdvantage:
    """A_i' = A_i / Phat_i,  Phat_i = P_i / mean_j P_j,  P_i = mean_t H_it.

    Args:
        floor, ceiling: bounds on Phat, None for no bound. Phat <= G always, so at G = 8 a ceiling of 10 never holds.
            Without a floor a Phat of 0 gives an infinite advantage, and the module refuses the step. A floor of 1 only
            damps advantages (of responses with more entropy than their group), a ceiling of 1 only sharpens them.
        detach: False lets the gradient through P_i (not through the mean), which lowers entropy where A > 0 and
            raises it where A < 0.
        advantages: whose are divided: `all`, `positive` or `negative` ones; the others stay as they are.
        entropy_over_padding: P_i also counts the padding up to the longest response of this rank, and divides by that
            length. Changes nothing where a rank has one response, as in the published runs.
        mean_over: `group`, or `step`: the mean of P over all responses of the step. The same at one problem a step.
    Raises:
        UserError: the bounds are not 0 < floor <= 1 <= ceiling, or a name is unknown.
    """

    needs_reference = False
    scales_clip = False

    def __init__(
        self,
        *,
        floor: float | None = 0.1,
        ceiling: float | None = 10.0,
        detach: bool = True,
        advantages: str = "all",
        entropy_over_padding: bool = False,
        mean_over: str = "group",
    ):
        if not (floor is None or 0 < floor <= 1) or not (ceiling is None or ceiling >= 1):
            raise UserError(
                f"credit.floor={floor}, credit.ceiling={ceiling}: 0 < floor <= 1 <= ceiling expected, null for no bound"
            )
        if advantages not in SIGNS:
            raise UserError(f"credit.advantages={advantages}: one of {', '.join(SIGNS)} expected")
        if mean_over not in (Scope.GROUP, Scope.STEP):
            raise UserError(f"credit.mean_over={mean_over}: group or step expected")
        self.floor = floor
        self.ceiling = ceiling
        self.detach = detach
        self.signs = SIGNS[advantages]
        self.needs_padding = entropy_over_padding
        self.scope = Scope(mean_over)

    def alive(self, advantages_B: Tensor) -> Tensor:
        return advantages_B != 0

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> EntropyConstants:
        """Mean entropies over all ranks, and Phat of each response here.

        Raises:
            ValueError: a response has no token.
        """
        responses = len(scored.advantages_B)
        padded_length = int(segment_count(scored.response_N, responses).max())
        entropy_B = self._mean_entropy(
            scored.entropies_N, scored.response_N, responses, padded_length, scored.padding_entropy_B
        )
        group_B, groups = scored.group_B, scored.groups
        if self.scope is Scope.STEP:
            group_B, groups = torch.zeros_like(group_B), 1
        total_P = all_reduce(segment_sum(entropy_B, group_B, groups), "sum")
        count_P = all_reduce(segment_count(group_B, groups), "sum")
        group_mean_B = (total_P / count_P)[group_B]
        unbounded_B = relative_entropy(entropy_B, group_mean_B)
        bounded_B = self._bound(unbounded_B)
        return EntropyConstants(
            advantages_B=scored.advantages_B,
            relative_entropy_B=bounded_B,
            clamped_B=(bounded_B < unbounded_B) | (bounded_B > unbounded_B),
            group_mean_entropy_B=group_mean_B,
            padded_length=padded_length,
        )

    def weigh(self, constants: EntropyConstants, forward: Forward) -> Tensor:
        if self.detach:
            return self._divide(constants.advantages_B, constants.relative_entropy_B)[forward.response_N]
        index_B, local_N = forward.response_N.unique(return_inverse=True)
        entropy_B = self._mean_entropy(
            forward.entropies_N, local_N, len(index_B), constants.padded_length, forward.padding_entropy_B
        )
        phat_B = self._bound(relative_entropy(entropy_B, constants.group_mean_entropy_B[index_B]))
        return self._divide(constants.advantages_B[index_B], phat_B)[local_N]

    def _mean_entropy(
        self, entropies_N: Tensor, response_N: Tensor, responses: int, padded_length: int, padding_entropy_B: Tensor | None
    ) -> Tensor:
        """P_i, nats."""
        if not self.needs_padding:
            return segment_mean(entropies_N, response_N, responses)
        if padding_entropy_B is None:
            raise ValueError("credit.entropy_over_padding: entropies at the padding expected, None came")
        return (segment_sum(entropies_N, response_N, responses) + padding_entropy_B) / padded_length

    def _divide(self, advantages_B: Tensor, phat_B: Tensor) -> Tensor:
        """A_i' of the responses whose advantage has one of the signs, A_i of the others."""
        chosen_B = torch.isin(advantages_B.sign(), torch.tensor(self.signs, device=advantages_B.device))
        return torch.where(chosen_B, divide_by_relative_entropy(advantages_B, phat_B), advantages_B)

    def _bound(self, phat_B: Tensor) -> Tensor:
        return phat_B if self.floor is None and self.ceiling is None else phat_B.clamp(self.floor, self.ceiling)


def relative_entropy(entropy_B: Tensor, group_mean_B: Tensor) -> Tensor:
    """Phat_i = P_i / mean_j P_j (Eq. 6); 1 where the mean is 0, since all responses are then equally certain."""
    certain_B = group_mean_B == 0
    return torch.where(certain_B, 1.0, entropy_B / group_mean_B.masked_fill(certain_B, 1.0))


def divide_by_relative_entropy(advantages_B: Tensor, phat_B: Tensor) -> Tensor:
    """A_i' = A_i / Phat_i (Eq. 7); 0 where A_i is 0, also at Phat = 0."""
    zero_B = advantages_B == 0
    return torch.where(zero_B, 0.0, advantages_B / phat_B.masked_fill(zero_B, 1.0))

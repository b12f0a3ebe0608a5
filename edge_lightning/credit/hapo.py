"""HAPO: uncertain tokens get more room to change and, once they have moved, more weight; certain ones less of either.

Source: HAPO (arXiv:2509.16591) and its released code, which has a sign slip for the certain tokens.
Left out: a sampling temperature that follows the entropy token by token, which the engines do not offer, and a mean and
deviation of the group's rewards over tokens in the place of responses.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Constants, Scope, Scored
from edge_lightning.errors import UserError
from edge_lightning.order_statistics import quantiles
from edge_lightning.tokens import Forward


@dataclass(frozen=True)
class LevelConstants(Constants):
    """Adds, in the step's flat order, h of each token, and what its ratio is taken to."""

    level_N: Tensor | None = None
    old_logprobs_N: Tensor | None = None


class HAPO:
    """With h in [-1, 1] the token's entropy as a level around the step's 80 % quantile,

        x = log max(H, tiny)    h = (x - Q80) / (max x - Q80) above Q80, (x - Q80) / (Q80 - min x) up to it

        bounds of the clip    h > 0: the upper one is 1 + high (1 + h)    else: the lower one is 1 - low (1 - h)
        A_t = A (1 + h)       h > 0: where the ratio is outside the zone    else: where it is inside
        A_t = A               elsewhere

    The zone ends half way to the bounds: (1 - margin, 1 + margin (1 + h)) or (1 - margin (1 - h), 1 + margin). The root mean
    square that the paper divides by cancels. At the first update of a rollout all ratios are inside.

    Args:
        margin: half of the clip's distances: 0.1 in the paper, beside bounds of 0.2.
        tiny: entropies below it count as it, nats.
        sign_slip: True: h of tokens up to Q80 has the other sign, as in the released code, so that no h is below 0.
    Raises:
        UserError: a value is out of its range.
    """

    scope = Scope.STEP
    needs_padding = False
    needs_reference = False
    scales_clip = True

    def __init__(self, *, margin: float = 0.1, tiny: float = 1e-6, sign_slip: bool = False):
        if not 0 < margin < 1 or not 0 < tiny < 1:
            raise UserError(f"credit.margin={margin}, tiny={tiny}: both above 0 and below 1 expected")
        self.margin = margin
        self.tiny = tiny
        self.sign_slip = sign_slip

    def alive(self, advantages_B: Tensor) -> Tensor:
        return advantages_B != 0

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> LevelConstants:
        """Levels of a step's tokens; quantile, least and largest over all ranks."""
        level_N = self.level(scored.entropies_N, all_reduce)
        return LevelConstants(
            scored.advantages_B,
            clip_low_factor_N=torch.where(level_N > 0, 1.0, 1 - level_N),
            clip_high_factor_N=torch.where(level_N > 0, 1 + level_N, 1.0),
            level_N=level_N,
            old_logprobs_N=scored.logprobs_N,
        )

    def level(self, entropies_N: Tensor, all_reduce: AllReduce = alone) -> Tensor:
        """h, 0 at the quantile and NaN where H is."""
        x_N = entropies_N.clamp(min=self.tiny).log().float()
        low, middle, high = quantiles(x_N[~x_N.isnan()], [0.0, 0.8, 1.0], all_reduce).to(x_N.device)
        distance_N = x_N.double() - middle
        above_N = distance_N / (high - middle).clamp(min=1e-12)
        below_N = distance_N / (middle - low).clamp(min=1e-12)
        level_N = torch.where(distance_N > 0, above_N, -below_N if self.sign_slip else below_N)
        return level_N.clamp(-1, 1).float()

    def weigh(self, constants: LevelConstants, forward: Forward) -> Tensor:
        level_N = constants.level_N[forward.place_N]
        advantage_N = constants.advantages_B[forward.response_N]
        ratio_N = (forward.logprobs_N.detach() - constants.old_logprobs_N[forward.place_N]).exp()
        low_N = 1 - self.margin * constants.clip_low_factor_N[forward.place_N]
        high_N = 1 + self.margin * constants.clip_high_factor_N[forward.place_N]
        inside_N = (ratio_N > low_N) & (ratio_N < high_N)
        scaled_N = torch.where(level_N > 0, ~inside_N, inside_N)
        weighed_N = torch.where(scaled_N, advantage_N * (1 + level_N), advantage_N)
        return torch.where(advantage_N == 0, 0.0, torch.where(level_N.isnan(), torch.nan, weighed_N))

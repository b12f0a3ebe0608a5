"""Every token of a response gets the response's advantage, as in GRPO."""

from __future__ import annotations

from torch import Tensor

from edge_lightning.collective import AllReduce, alone
from edge_lightning.credit.base import Constants, Scored
from edge_lightning.tokens import Forward


class NoCredit:
    """A_t = A_i."""

    scope = None
    needs_padding = False
    needs_reference = False
    scales_clip = False

    def alive(self, advantages_B: Tensor) -> Tensor:
        return advantages_B != 0

    def prepare(self, scored: Scored, all_reduce: AllReduce = alone) -> Constants:
        return Constants(scored.advantages_B)

    def weigh(self, constants: Constants, forward: Forward) -> Tensor:
        return constants.advantages_B[forward.response_N]

r"""Reward for putting an answer into a box, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence

from edge_lightning.rewards.base import RewardPart
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.types import Response


class BoxedFormat(RewardPart):
    r"""1 where the text has a closed \boxed{...}, else 0. By default measured, not rewarded."""

    def __init__(self, weight: float = 0.0):
        self.weight = weight

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """1.0 or 0.0 for each response."""
        return [float(last_boxed(response.text) is not None) for response in responses]

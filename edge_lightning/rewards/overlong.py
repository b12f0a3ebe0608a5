"""A penalty that grows as a response comes near its length limit, so that being cut off is no surprise.

Source: DAPO (arXiv:2503.14476), Eq. 13.
"""

from __future__ import annotations

from collections.abc import Sequence

from edge_lightning.errors import UserError
from edge_lightning.rewards.base import RewardPart
from edge_lightning.types import Response


class SoftOverlong(RewardPart):
    """0 up to `from_tokens`, -1 from `to_tokens` on, linear between: (from - L) / (to - from), L tokens of the response.

    L counts all that is trained on, injected tokens too, so that a correction is no way around it.

    Args:
        weight: of the part in the sum.
        to_tokens: the response limit is usual.
    Raises:
        UserError: the tokens are no interval.
    """

    def __init__(self, *, from_tokens: int, to_tokens: int | None, weight: float = 1.0):
        if to_tokens is None or not 0 <= from_tokens < to_tokens:
            raise UserError(
                f"reward.parts.overlong.from_tokens={from_tokens}, to_tokens={to_tokens}: 0 <= from < to expected; "
                "to_tokens is rollout.response_limit where there is one"
            )
        self.weight = weight
        self.from_tokens = from_tokens
        self.to_tokens = to_tokens

    def __call__(self, responses: Sequence[Response]) -> list[float]:
        """The penalty of each response, in [-1, 0]."""
        width = self.to_tokens - self.from_tokens
        return [-min(1.0, max(0, len(r.completion_ids) - self.from_tokens) / width) for r in responses]

"""No correction: the responses stand as the policy sampled them (GRPO)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge_lightning.correction.base import CorrectionTools
from edge_lightning.types import Response


class NoCorrection:
    """Gives the responses back."""

    def extra_tokens(self, encode: Callable[[str], tuple[int, ...]]) -> int:
        return 0

    def __call__(self, responses: Sequence[Response], tools: CorrectionTools) -> list[Response]:
        return list(responses)

"""The reward of a response: a weighted sum of parts, one of which says what is right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from edge_lightning.errors import UserError
from edge_lightning.rewards.base import RewardPart
from edge_lightning.types import Grade, Response, Verdict


class WeightedSum:
    """reward = offset + sum over the parts of weight * value

    A response is right where the part named "accuracy" is 1, whatever the sum.

    Args:
        offset: added to every reward, in units of it. EDGE-GRPO's released code has 1 in effect, since its format reward is
            always given. Advantages compare rewards with each other, so they don't change with it.
    Raises:
        UserError: no part is named "accuracy", that part gives no verdicts, or the offset is not finite.
    """

    def __init__(self, parts: Mapping[str, RewardPart], *, offset: float = 0.0):
        if "accuracy" not in parts:
            named = ", ".join(parts) or "none"
            raise UserError(f"reward.parts: a part named accuracy expected, {named} came; add reward.parts.accuracy")
        if not parts["accuracy"].weight > 0:
            weight = parts["accuracy"].weight
            raise UserError(
                f"reward.parts.accuracy.weight={weight}: above 0 expected, or wrong answers are as good as right"
            )
        missing = [name for name in ("judge", "readable") if not callable(getattr(parts["accuracy"], name, None))]
        if missing:
            kind = type(parts["accuracy"]).__name__
            raise UserError(
                f"reward.parts.accuracy: a part that gives verdicts expected, {kind} has no {' and no '.join(missing)}; "
                "name another reward.parts.accuracy._target_"
            )
        if not math.isfinite(offset):
            raise UserError(f"reward.offset={offset}: a finite number expected")
        self.parts = dict(parts)
        self.offset = offset

    def __call__(self, responses: Sequence[Response]) -> list[Grade]:
        """One grade per response, in order; its parts are the values before weighting."""
        values = {name: part(responses) for name, part in self.parts.items()}
        grades = []
        for row in zip(*values.values(), strict=True):
            parts = dict(zip(values, row))
            reward = self.offset + sum(self.parts[name].weight * value for name, value in parts.items())
            grades.append(Grade(reward=reward, right=parts["accuracy"] == 1.0, parts=parts))
        return grades

    def judge(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The accuracy part's verdict on each (golds, whole text of a response), in order."""
        return self.parts["accuracy"].judge(pairs)

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether the accuracy part can compare with each gold at all."""
        return self.parts["accuracy"].readable(golds)

    @property
    def timeouts(self) -> int:
        """Gradings that ran out of time, all parts together."""
        return sum(part.timeouts for part in self.parts.values())

    def close(self) -> None:
        """Close the parts. Safe to call twice."""
        for part in self.parts.values():
            part.close()

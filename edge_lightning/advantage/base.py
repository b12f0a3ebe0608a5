"""What an advantage owes the pipeline."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Advantage(Protocol):
    """One number per response from the rewards of its group. It is given the responses of all ranks.

    Attributes:
        smallest_group: the fewest responses of a problem for which it means something.
    """

    smallest_group: int

    def __call__(
        self,
        rewards_B: Tensor,
        group_B: Tensor,
        groups: int,
        *,
        sampled_rewards_B: Tensor | None = None,
    ) -> Tensor:
        """advantages_B from rewards_B and the index of each response's group.

        Args:
            sampled_rewards_B: of what the policy sampled first, before correction.
        """

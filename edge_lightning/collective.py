"""The one thing that group statistics need from other ranks: an all-reduce that is handed in as an argument."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

AllReduce = Callable[[Tensor, str], Tensor]  # (values, "sum" | "max" | "min") -> the same over all ranks


def alone(values: Tensor, operation: str) -> Tensor:
    """The all-reduce of a single process."""
    return values

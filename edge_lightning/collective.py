"""What a stage needs from other ranks, handed in as an argument: sums of tensors, and small values of everyone.

What torch.distributed makes of it is in training/process_ranks.py; here is what a single process makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol, TypeVar

from torch import Tensor

AllReduce = Callable[[Tensor, str], Tensor]  # (values, "sum" | "max" | "min") -> the same over all ranks
T = TypeVar("T")


def alone(values: Tensor, operation: str) -> Tensor:
    """The all-reduce of a single process."""
    return values


class Ranks(Protocol):
    """The processes that share a run. Every method but `share` is called by all of them, in the same order, or they wait.

    Attributes:
        rank, size: which of them this is, of how many.
    """

    rank: int
    size: int

    def all_reduce(self, values: Tensor, operation: str) -> Tensor:
        """The "sum", "max" or "min" of what all ranks bring, element by element; `values` is left as it is."""

    def gather(self, value: T) -> list[T]:
        """What every rank brings, in the order of ranks, on every rank."""

    def collect(self, value: T) -> list[T] | None:
        """What every rank brings, in the order of ranks, on rank 0; None elsewhere."""

    def first(self, value: T) -> T:
        """What rank 0 brings."""

    def barrier(self) -> None:
        """Returns when all ranks have called it."""


class Alone:
    """A single process."""

    rank = 0
    size = 1

    def all_reduce(self, values: Tensor, operation: str) -> Tensor:
        return values

    def gather(self, value: T) -> list[T]:
        return [value]

    def collect(self, value: T) -> list[T] | None:
        return [value]

    def first(self, value: T) -> T:
        return value

    def barrier(self) -> None:
        pass


ALONE = Alone()


def share_of(count: int, ranks: Ranks) -> range:
    """Which of `count` things in a row are this rank's: neighbours, as many as another rank's or one more or less."""
    return range(count * ranks.rank // ranks.size, count * (ranks.rank + 1) // ranks.size)


def gathered(places: Sequence[int], values: Sequence[T], ranks: Ranks) -> list[T]:
    """The things of all ranks in a row, of which each brings those at some places."""
    pairs = chain.from_iterable(ranks.gather(list(zip(places, values, strict=True))))
    return [value for _, value in sorted(pairs, key=lambda pair: pair[0])]

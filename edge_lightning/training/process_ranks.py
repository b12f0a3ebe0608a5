"""Ranks as processes: what collective.py describes, through torch.distributed.

Small values go through a gloo group of their own, on the CPU: they need no device memory, wait for no stream, and a rank
that has ended is noticed at once, which NCCL does not.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist
from torch import Tensor

from edge_lightning.collective import ALONE, Ranks

T = TypeVar("T")
OPERATIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
LONGEST_WAIT = timedelta(hours=2)  # ranks wait for the one that samples longest


class ProcessRanks:
    """The processes of the default process group. All of them build it together."""

    def __init__(self):
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self._group = dist.new_group(backend="gloo", timeout=LONGEST_WAIT)

    def all_reduce(self, values: Tensor, operation: str) -> Tensor:
        reduced = values.detach().cpu().clone()
        dist.all_reduce(reduced, OPERATIONS[operation], group=self._group)
        return reduced.to(values.device)

    def gather(self, value: T) -> list[T]:
        found: list = [None] * self.size
        dist.all_gather_object(found, value, group=self._group)
        return found

    def collect(self, value: T) -> list[T] | None:
        found: list | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, found, dst=0, group=self._group)
        return found

    def first(self, value: T) -> T:
        found = [value]
        dist.broadcast_object_list(found, src=0, group=self._group)
        return found[0]

    def barrier(self) -> None:
        dist.barrier(group=self._group)


def process_ranks(world_size: int) -> Ranks:
    """The ranks of a trainer; a process by itself needs no group."""
    return ALONE if world_size == 1 else ProcessRanks()

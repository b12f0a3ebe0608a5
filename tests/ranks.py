"""Several ranks in one process: threads that meet wherever ranks do."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

REDUCTIONS = {"sum": lambda x: x.sum(0), "max": lambda x: x.amax(0), "min": lambda x: x.amin(0)}


class ThreadRanks:
    """One of `size` ranks (edge_lightning/collective.py), each in a thread of its own.

    Attributes:
        calls: how often this one has met the others.
    """

    def __init__(self, rank: int, size: int, meeting: threading.Barrier, brought: list):
        self.rank, self.size = rank, size
        self._meeting, self._brought = meeting, brought
        self.calls = 0

    def gather(self, value):
        self.calls += 1
        self._brought[self.rank] = value
        self._meeting.wait()
        found = list(self._brought)
        self._meeting.wait()
        return found

    def all_reduce(self, values, operation):
        return REDUCTIONS[operation](torch.stack(self.gather(values)))

    def collect(self, value):
        found = self.gather(value)
        return found if self.rank == 0 else None

    def first(self, value):
        return self.gather(value)[0]

    def barrier(self):
        self.gather(None)


def together(work: Callable[[ThreadRanks], object], count: int) -> list:
    """work(ranks) on each rank at once; their results in order. An error of one is raised here, and ends the others."""
    meeting, brought, errors = threading.Barrier(count, timeout=30), [None] * count, []
    results: list = [None] * count

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadRanks(rank, count, meeting, brought))
        except Exception as error:
            errors.append(error)
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def on_ranks(work: Callable[[int, Callable], object], count: int) -> list:
    """work(rank, all_reduce) on each rank at once, as `together`."""
    return together(lambda ranks: work(ranks.rank, ranks.all_reduce), count)

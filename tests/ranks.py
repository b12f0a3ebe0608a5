"""Several ranks in one process: threads that meet in every all-reduce."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch


def on_ranks(work: Callable[[int, Callable], object], count: int) -> list:
    """work(rank, all_reduce) on each rank at once; their results in order. An error of one is raised here."""
    meeting, values, errors = threading.Barrier(count, timeout=30), [None] * count, []
    results: list = [None] * count
    reduce = {"sum": lambda x: x.sum(0), "max": lambda x: x.amax(0), "min": lambda x: x.amin(0)}

    def run(rank: int) -> None:
        def all_reduce(mine: torch.Tensor, operation: str) -> torch.Tensor:
            values[rank] = mine
            meeting.wait()
            found = reduce[operation](torch.stack(values))
            meeting.wait()
            return found

        try:
            results[rank] = work(rank, all_reduce)
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

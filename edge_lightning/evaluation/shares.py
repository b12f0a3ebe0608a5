"""Problems shared between ranks, and their rows brought together again: each response once, whatever the layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from edge_lightning.types import Problem

T = TypeVar("T")


def share(items: Sequence[T], *, rank: int, world_size: int) -> list[T]:
    """Every world_size-th item, from the rank-th on: shares differ by one item at most, and none is in two."""
    if not 0 <= rank < world_size:
        raise ValueError(f"0 <= rank < world_size expected, rank={rank}, world_size={world_size} came")
    return list(items[rank::world_size])


def merge(parts: Iterable[Sequence[dict]], problems: Sequence[Problem], samples: int) -> list[dict]:
    """The rows of all parts in the order of the problems, then of the response index.

    Raises:
        ValueError: a (problem, response) of `problems` is missing, or stands there twice, or another one does.
    """
    rows = list(chain.from_iterable(parts))
    expected = Counter((problem.id, index) for problem in problems for index in range(samples))
    found = Counter((row["problem_id"], row["response_index"]) for row in rows)
    if found != expected or expected.total() != len(expected):
        wrong = next(iter((expected - found) + (found - expected)), None) or next(k for k, n in expected.items() if n > 1)
        raise ValueError(
            f"evaluation: {samples} responses to each of {len(problems)} problems expected, each once; "
            f"{len(rows)} rows came, and problem {wrong[0]!r}, response {wrong[1]} is there {found[wrong]} times"
        )
    by_place = {(row["problem_id"], row["response_index"]): row for row in rows}
    return [by_place[place] for place in expected]

"""Which responses get a pass with gradient, and which are scored before a step's first update, in one without.

That update's forward pass computes the same values, so a response that it trains is scored first only where a credit has to
see more than the response's micro-batch holds. What later updates train first is scored: the weights will have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from edge_lightning.collective import ALONE, AllReduce, Ranks, alone
from edge_lightning.credit.base import Scope
from edge_lightning.types import Response


def trained_of(
    part: Sequence[int], wanted: Sequence[bool], responses: Sequence[Response], ranks: Ranks = ALONE
) -> Sequence[int]:
    """Of a mini-batch those that get a pass with gradient: those that may have one, or the shortest if none has anywhere.

    That one's gradient is 0, which the optimizer must see: its moments decay as they would without leaving out. All ranks
    call this together, each with what it has of the mini-batch, and train what one rank would.
    """
    found = [i for i in part if wanted[i]]
    shortest = sorted(part, key=lambda i: len(responses[i].completion_ids))[:1]
    lengths = [len(responses[i].completion_ids) for i in shortest]
    everyones = ranks.gather((bool(found), lengths))
    if any(has_some for has_some, _ in everyones):
        return found
    holders = [(length, rank) for rank, (_, lengths) in enumerate(everyones) for length in lengths]
    return shortest if min(holders)[1] == ranks.rank else []


def alive_with_others(
    scope: Scope | None, alive_B: Tensor, group_B: Tensor, groups: int, all_reduce: AllReduce = alone
) -> Tensor:
    """Whether a response's statistics are needed: those of its group or step are if any of their responses is alive.

    Args:
        all_reduce: a unit may be spread over ranks.
    """
    if scope in (None, Scope.RESPONSE):
        return alive_B
    of_step = scope is Scope.STEP
    unit_B = torch.zeros_like(group_B) if of_step else group_B
    alive_U = torch.zeros(1 if of_step else groups).index_add(0, unit_B, alive_B.float())
    return all_reduce(alive_U, "max")[unit_B] > 0


def scored_first(
    scope: Scope | None,
    micro_batches: Sequence[Sequence[int]],
    *,
    alive_B: Tensor,
    group_B: Tensor,
    later: Collection[int] = (),
    everyone: bool = False,
    apart: bool = False,
) -> list[int]:
    """Responses that need a scoring pass, ascending.

    Where a group (or the step) has a token advantage other than 0, its statistics need all of its responses: those that no
    micro-batch holds are scored, and all of them if the trained ones are in several micro-batches.

    Args:
        scope: what the credit's statistics are taken over; None: it has none. A response is never split.
        micro_batches: the responses that are trained together.
        alive_B: False where no token advantage of the unit (response, group or step) can be other than 0, on any rank.
        later: those of `micro_batches` that the first update does not train.
        everyone: every response is to be scored or trained, for the metrics.
        apart: what stands in one micro-batch here is not all of its unit, since other ranks have several micro-batches.
    """
    batch_of = {response: number for number, batch in enumerate(micro_batches) for response in batch}
    needed = set(later)
    if everyone:
        needed |= set(range(len(alive_B))) - batch_of.keys()
    if scope in (None, Scope.RESPONSE):
        return sorted(needed)
    unit_B = group_B if scope is Scope.GROUP else group_B.new_zeros(len(group_B))
    for unit in unit_B[alive_B].unique():
        members = (unit_B == unit).nonzero().flatten().tolist()
        together = not apart and len({batch_of[i] for i in members if i in batch_of}) == 1
        needed.update(i for i in members if i not in batch_of or not together)
    return sorted(needed)

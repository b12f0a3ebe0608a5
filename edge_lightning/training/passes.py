"""Which responses are scored before a step's first update, in a pass of their own without gradient.

That update's forward pass computes the same values, so a response that it trains is scored first only where a credit has to
see more than the response's micro-batch holds. What later updates train first is scored: the weights will have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor

from edge_lightning.credit.base import Scope


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

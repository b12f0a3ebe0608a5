"""Ranks that make the same passes: as many micro-batches on each, and one gradient of all of them.

DDP and FSDP average gradients over ranks, and meet the others in each backward pass (FSDP in each forward pass, too), so a
rank that has less to do makes passes over nothing. The loss of a step is a sum over all its tokens with denominators of the
whole step, whoever holds them, so that a rank's part is multiplied by the number of ranks before the average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from edge_lightning.collective import Ranks
from edge_lightning.tokens import Span, TokenBatch


def level(batches: Sequence[TokenBatch], ranks: Ranks) -> list[TokenBatch]:
    """The micro-batches of this rank and empty ones behind them, up to the most that any rank has."""
    most = max(ranks.gather(len(batches)))
    return [*batches, *[empty_batch()] * (most - len(batches))]


def empty_batch() -> TokenBatch:
    """A row of two tokens, of which none is trained or scored: what comes out is empty, its gradient 0."""
    nothing = torch.zeros(0, dtype=torch.long)
    return TokenBatch(
        input_ids_T=torch.tensor([0, 0]),
        position_ids_T=torch.tensor([0, 1]),
        spans=(Span(range(0, 1), range(1, 2)),),
        predictor_N=nothing,
        target_N=nothing,
        response_N=nothing,
        place_N=nothing,
        sampled_N=nothing.bool(),
        corrected_N=nothing.bool(),
        engine_logprobs_N=nothing.float(),
        responses=(),
    )


def backward(losses: Iterable[Tensor], count: int, ranks: Ranks, strategy, add_gradient: Callable[[Tensor], None]) -> None:
    """The gradient of the sum of the losses of all ranks, in the parameters of each: DDP meets the others in the last one.

    Args:
        losses: one after the other, each with a graph of its own; `count` of them, on every rank alike.
        strategy: Lightning's.
        add_gradient: adds a loss's gradient to the parameters.
    """
    for number, loss in enumerate(losses, 1):
        waits = number < count and hasattr(strategy, "block_backward_sync")
        with strategy.block_backward_sync() if waits else nullcontext():
            add_gradient(loss * ranks.size)

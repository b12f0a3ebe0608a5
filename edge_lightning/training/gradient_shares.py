"""How much of a step's gradient comes from which part of its tokens, exactly.

Cost: one forward and backward pass more for each part, over the responses that it has tokens in, and one copy of the
gradient: in a step with all parts about three times the step's own training (EXPERIMENTS.md has the measurement).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from edge_lightning.collective import ALONE, Ranks
from edge_lightning.sharding import is_shard, shard_of
from edge_lightning.training.step_loss import Piece


def gradient_shares(
    pieces_of: Callable[[Sequence[int]], tuple[Iterable[Piece], int]],
    trained: Sequence[int],
    response_N: Tensor,
    parts: Mapping[str, Tensor],
    parameters: Sequence[torch.nn.Parameter],
    backward: Callable[[Iterable[Tensor], int], None],
    ranks: Ranks = ALONE,
) -> dict[str, float]:
    """Norm of the gradient of each part's terms of the loss, and its share of the whole.

        g = sum_k g_k        gradient/norm/k = |g_k|        gradient/share/k = g_k . g / |g|^2

    The shares of parts that together hold every token sum to 1; a part that pulls against the others has a negative one.
    A part without gradient has norm 0 and share 0; where the whole gradient is 0 there are no shares.

    Args:
        pieces_of: the pieces of the step's loss that some responses have, and how many they are, as many on every rank.
        trained: the responses whose gradient stands in the parameters now; it stands there again afterwards.
        response_N: index of each of the step's tokens' response.
        parts: masks over the step's tokens of this rank.
        backward: puts the gradient of the sum of so many losses into the parameters, those of other ranks included.
        ranks: that share the step.
    """
    whole = [None if p.grad is None else p.grad.clone() for p in parameters]
    squared = _dot(whole, whole, ranks)
    figures = {}
    nothing_N = torch.zeros(len(response_N), dtype=torch.bool)
    for name in _parts_anywhere(parts, ranks):
        mask_N = parts.get(name, nothing_N)
        of_it = [i for i in trained if bool(mask_N[response_N == i].any())]
        for parameter in parameters:
            parameter.grad = None
        pieces, count = pieces_of(of_it)
        backward((_terms_of(piece, mask_N) for piece in pieces), count)
        part = [p.grad for p in parameters]
        figures[f"gradient/norm/{name}"] = _dot(part, part, ranks) ** 0.5
        if squared > 0:
            figures[f"gradient/share/{name}"] = _dot(part, whole, ranks) / squared
    for parameter, gradient in zip(parameters, whole):
        parameter.grad = gradient
    return figures


def _parts_anywhere(parts: Mapping[str, Tensor], ranks: Ranks) -> list[str]:
    """Names of the parts that some rank has, in one order on all of them."""
    return list(dict.fromkeys(name for here in ranks.gather(list(parts)) for name in here))


def _terms_of(piece: Piece, mask_N: Tensor) -> Tensor:
    return piece.loss.terms_N[mask_N[piece.place_N].to(piece.loss.terms_N.device)].sum()


def _dot(left: Sequence[Tensor | None], right: Sequence[Tensor | None], ranks: Ranks) -> float:
    """Inner product over all parameters, summed in float64; None counts as 0. Of shards, over those of all ranks."""
    pairs = [(a, b) for a, b in zip(left, right) if a is not None and b is not None]
    sums = {True: 0.0, False: 0.0}
    for a, b in pairs:
        sums[is_shard(a)] += float((shard_of(a).double() * shard_of(b).double()).sum())
    return sums[False] + float(ranks.all_reduce(torch.tensor(sums[True], dtype=torch.float64), "sum"))

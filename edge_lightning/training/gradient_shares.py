"""How much of a step's gradient comes from which part of its tokens, exactly.

Cost: one forward and backward pass more for each part, over the responses that it has tokens in, and one copy of the
gradient: in a step with all parts about three times the step's own training (EXPERIMENTS.md has the measurement).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from edge_lightning.training.step_loss import Piece


def gradient_shares(
    pieces_of: Callable[[Sequence[int]], Iterable[Piece]],
    trained: Sequence[int],
    response_N: Tensor,
    parts: Mapping[str, Tensor],
    parameters: Sequence[torch.nn.Parameter],
    backward: Callable[[Tensor], None],
) -> dict[str, float]:
    """Norm of the gradient of each part's terms of the loss, and its share of the whole.

        g = sum_k g_k        gradient/norm/k = |g_k|        gradient/share/k = g_k . g / |g|^2

    The shares of parts that together hold every token sum to 1; a part that pulls against the others has a negative one.
    A part without gradient has norm 0 and share 0; where the whole gradient is 0 there are no shares.

    Args:
        pieces_of: the pieces of the step's loss that some responses have.
        trained: the responses whose gradient stands in the parameters now; it stands there again afterwards.
        response_N: index of each of the step's tokens' response.
        parts: masks over the step's tokens.
        backward: adds a loss's gradient to the parameters.
    """
    whole = [None if p.grad is None else p.grad.clone() for p in parameters]
    squared = _dot(whole, whole)
    figures = {}
    for name, mask_N in parts.items():
        of_it = [i for i in trained if bool(mask_N[response_N == i].any())]
        for parameter in parameters:
            parameter.grad = None
        for piece in pieces_of(of_it) if of_it else ():
            backward(piece.loss.terms_N[mask_N[piece.place_N].to(piece.loss.terms_N.device)].sum())
        part = [p.grad for p in parameters]
        figures[f"gradient/norm/{name}"] = _dot(part, part) ** 0.5
        if squared > 0:
            figures[f"gradient/share/{name}"] = _dot(part, whole) / squared
    for parameter, gradient in zip(parameters, whole):
        parameter.grad = gradient
    return figures


def _dot(left: Sequence[Tensor | None], right: Sequence[Tensor | None]) -> float:
    """Inner product over all parameters, summed in float64; None counts as 0."""
    pairs = [(a, b) for a, b in zip(left, right) if a is not None and b is not None]
    return float(sum((a.double() * b.double()).sum() for a, b in pairs))

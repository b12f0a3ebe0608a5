"""Whether an engine holds what was pushed: some values of every tensor that both sides know under one name.

An engine fuses projections and pads the vocabulary; what it does not fuse (embeddings, norms, output projections, the head)
is compared, the head with the embeddings where the policy has them tied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

AT_MOST = 8  # places along each axis
EMBEDDINGS, HEAD = "model.embed_tokens.weight", "lm_head.weight"


class SpotCheck:
    """Takes samples of what passes by, and holds them against an engine's model."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[tuple[int, ...], Tensor]] = {}

    def watched(self, named: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same weights, one after the other; a sample of each is kept."""
        for name, weight in named:
            self._taken[name] = tuple(weight.shape), sample(weight, weight.shape)
            yield name, weight

    def differing(self, model: nn.Module) -> set[str]:
        """Names of the engine's weights that are not what was pushed, to the engine's own precision.

        Raises:
            RuntimeError: the engine has no weight of a name that was pushed.
        """
        held = dict(model.named_parameters(remove_duplicate=False))
        taken = dict(self._taken)
        if HEAD not in taken and EMBEDDINGS in taken:
            taken[HEAD] = taken[EMBEDDINGS]
        pairs = {name: (held[name], *taken[name]) for name in held.keys() & taken.keys()}
        if not pairs:
            raise RuntimeError(f"none of the engine's weights has the name of a pushed one; {min(held)} is one of them")
        return {name for name, (weight, shape, values) in pairs.items() if not _agree(weight, shape, values)}


def sample(weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Up to 8 places along each axis of what lies in `shape`, evenly spread."""
    for axis, size in enumerate(shape):
        places = torch.linspace(0, size - 1, min(size, AT_MOST), device=weight.device).long()
        weight = weight.index_select(axis, places)
    return weight.detach().clone()


def _agree(weight: Tensor, shape: tuple[int, ...], values: Tensor) -> bool:
    fits = weight.ndim == len(shape) and weight.shape[1:] == shape[1:] and weight.shape[0] >= shape[0]
    return fits and torch.equal(sample(weight, shape), values.to(weight.device, weight.dtype))

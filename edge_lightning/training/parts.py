"""The parts into which a step's tokens fall: by what became of their response, and by who wrote the token.

Every token is in one part of each kind, so figures and gradients of the parts of a kind add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edge_lightning.masking import wrong_prefix_mask
from edge_lightning.types import Provenance, Response

ORIGINS = ("sampled_tokens", "wrong_prefix_tokens", "injected_tokens")


def by_provenance(responses: Sequence[Response], response_N: Tensor) -> dict[str, Tensor]:
    """Masks over the step's tokens, one for each provenance that occurs."""
    masks = {}
    for provenance in Provenance:
        of_it_B = torch.tensor([r.provenance is provenance for r in responses])
        if of_it_B.any():
            masks[str(provenance)] = of_it_B[response_N]
    return masks


def by_origin(responses: Sequence[Response], response_N: Tensor) -> dict[str, Tensor]:
    """Masks over the step's tokens, one for each origin that occurs.

    injected_tokens       put in by correction: cues, answers, reference solutions
    wrong_prefix_tokens   sampled, in front of an injected part of their response
    sampled_tokens        sampled, all others: responses that stand as they were, and what a reflection went on to say
    """
    sampled_N = torch.tensor([flag for r in responses for flag in r.sampled_mask], dtype=torch.bool)
    prefix_N = wrong_prefix_mask(sampled_N, response_N, len(responses))
    found = dict(zip(ORIGINS, (sampled_N & ~prefix_N, prefix_N, ~sampled_N)))
    return {name: mask_N for name, mask_N in found.items() if mask_N.any()}


def parts_of(responses: Sequence[Response], response_N: Tensor) -> dict[str, Tensor]:
    """Masks of both kinds."""
    return by_provenance(responses, response_N) | by_origin(responses, response_N)

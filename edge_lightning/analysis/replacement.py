"""What a token is replaced by: another one that the policy might have said, or any of the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from edge_lightning.analysis.words import special_ids
from edge_lightning.engine.hf import draw, evaluation_mode
from edge_lightning.layers import uncompiled
from edge_lightning.policy import Policy
from edge_lightning.types import Response, Sampling

Replacement = Literal["sampled_other", "sampled", "uniform", "original"]


def plain_tokens(policy: Policy) -> Tensor:
    """True for the ids that may be put in: those that a text can have. Shape [V], V that of the model's head.

    Special tokens (ends of sequence, turns, padding) are not among them, nor ids that pad the vocabulary.
    """
    tokenizer = policy.tokenizer
    size = policy.model.get_output_embeddings().weight.shape[0]
    special = {*special_ids(tokenizer), *policy.eos_ids}
    plain_V = torch.zeros(size, dtype=torch.bool)
    plain_V[[token for token in tokenizer.get_vocab().values() if token < size and token not in special]] = True
    return plain_V


@torch.no_grad()
def logits_at(policy: Policy, response: Response, positions: Sequence[int]) -> Tensor:
    """The policy's logits for response tokens at some places, each behind the response's own tokens: [K, V], on the CPU."""
    device = next(policy.parameters()).device
    ids = torch.tensor([response.prompt_ids + response.completion_ids], device=device)
    predictors = torch.tensor([len(response.prompt_ids) - 1 + position for position in positions], device=device)
    with evaluation_mode(policy.model), uncompiled():
        return policy.model(input_ids=ids, use_cache=False, logits_to_keep=predictors).logits[0].float().cpu()


def other_tokens(
    logits_KV: Tensor,
    original_K: Sequence[int],
    plain_V: Tensor,
    uniforms_K: Sequence[float],
    *,
    how: Replacement,
    temperature: float,
) -> list[int]:
    """A token for each place, never a special one, and where the name does not say otherwise never the original.

        sampled_other: p(v) = softmax(z / T)_v / sum_w softmax(z / T)_w,   uniform: p(v) = 1 / count
        v, w: plain tokens that are not the original

    `sampled` leaves the original among them, so that a sure place mostly keeps its token.

    `original` gives the original tokens back: what going on from there costs by itself.

    Args:
        logits_KV: z; see logits_at.
        plain_V: see plain_tokens.
        uniforms_K: in [0, 1), one a place.
        temperature: T, of sampling.
    """
    if how == "original":
        return list(original_K)
    allowed_KV = plain_V.expand(len(original_K), -1).clone()
    if how != "sampled":
        allowed_KV[torch.arange(len(original_K)), torch.tensor(original_K)] = False
    weighed_KV = torch.zeros_like(logits_KV) if how == "uniform" else logits_KV
    masked_KV = weighed_KV.masked_fill(~allowed_KV, -torch.inf)
    uniforms = torch.tensor(uniforms_K, dtype=torch.float64)
    return draw(masked_KV, uniforms, Sampling(temperature))[0].tolist()

"""Entropies at padding, which a packed row does not have: for EDA as its released code computes it, and for nothing else.

That code pads the responses of a rank on the right to the longest of them and averages entropies over all positions. The
attention mask hides padding from what is looked at, so a padding position sees the prompt and the response alone: its
entropy is what the policy would say after a padding token put there. Source: ZhangXJ199/EDGE-GRPO, `_get_per_token_logps`.
Left out: what it does where a rank holds several problems with prompts of different lengths (it cuts every row at the
longest prompt, and so loses the beginnings of the responses to the others).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edge_lightning.head import logprobs_and_entropies
from edge_lightning.masking import segment_sum
from edge_lightning.tokens import TokenBatch


def padding_entropies(model: nn.Module, batch: TokenBatch, padded_to: int, *, pad_id: int, temperature: float) -> Tensor:
    """Sum of the entropies that predict the padding of each response, nats; differentiable.

        sum over j = L_i + 1 .. padded_to of the entropy that predicts token j;  0 at L_i = padded_to

    Args:
        model: a transformers causal language model.
        padded_to: tokens of a padded response, at least as many as any has here.
        pad_id: of the token that stands at padding.
    Returns:
        padding_entropy_B, of the responses of the batch, ascending by index.
    """
    device = batch.input_ids_T.device
    width = max(len(span.prompt) for span in batch.spans) + padded_to
    at_once = max(1, len(batch.input_ids_T) // width)  # so that a padded pass is no larger than the packed one
    sums = []
    for first in range(0, len(batch.spans), at_once):
        rows = batch.spans[first : first + at_once]
        ids = torch.full((len(rows), width), pad_id, device=device)
        for row, span in enumerate(rows):
            ids[row, : len(span)] = batch.input_ids_T[[*span.prompt, *span.response]]
        length_R = torch.tensor([len(span) for span in rows], device=device)
        missing_R = torch.tensor([padded_to - len(span.response) for span in rows], device=device)
        position_W = torch.arange(width, device=device)
        hidden_RWD = model.base_model(
            input_ids=ids, attention_mask=(position_W < length_R[:, None]).long(), use_cache=False
        ).last_hidden_state
        predicts_RW = (position_W >= length_R[:, None] - 1) & (position_W < (length_R + missing_R)[:, None] - 1)
        head = model.get_output_embeddings()
        row_N, column_N = predicts_RW.nonzero(as_tuple=True)
        _, entropies_N = logprobs_and_entropies(
            hidden_RWD[row_N, column_N], head.weight, ids[row_N, column_N], temperature=temperature, bias_V=head.bias
        )
        sums.append(segment_sum(entropies_N, row_N, len(rows)))
    return torch.cat(sums)[torch.tensor(batch.responses).argsort().to(device)]

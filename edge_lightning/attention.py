"""Attention over a packed row in which responses to one prompt share it: the prompt is computed once.

On CPU queries, keys and values of each response are laid out right-padded behind their prompt and given to the fused causal
kernel, which needs no mask then: a token attends to what stands before it, and padding stands behind. On CUDA in half
precision the variable-length kernel takes the row as it is. Without a layout the same function is transformers' own sdpa
attention, so that generation with a cache works as ever. Left out: sliding windows, soft-capping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Protocol, Self

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from edge_lightning.tokens import Span

PACKED = "edge_packed"
HALF = (torch.bfloat16, torch.float16)
MOST_PADDED = 1.5  # the longest sequence of a block over its shortest; EXPERIMENTS.md has the times of others


class Layout(Protocol):
    """How a packed row meets an attention kernel; made once for all layers."""

    def attend(self, module, query: Tensor, key: Tensor, value: Tensor, **kwargs) -> Tensor:
        """Attention inside each response and its prompt.

        Args:
            query, key, value: [1, heads, T, head size]; keys and values may have fewer heads.
        Returns:
            [1, T, heads, head size].
        """


def layout_of(spans: Sequence[Span], device: torch.device, dtype: torch.dtype, *, one_block: bool = False) -> Layout:
    """The layout for the kernel that is fastest there.

    Args:
        dtype: of queries, keys and values.
        one_block: pad all sequences to the longest one: compiled layers have code for one number of blocks.
    """
    if device.type == "cuda" and dtype in HALF:
        return VarlenLayout.of(spans, device, dtype)
    return PaddedLayout.of(spans, device, most_padded=inf if one_block else MOST_PADDED)


@dataclass(frozen=True)
class PaddedLayout:
    """Each response behind its prompt, padded on the right; a shared prompt is attended from by each of them.

    Attributes:
        blocks: token of the row at each place of each sequence, [S, L], for blocks of sequences of like length; token 0
            stands at the padding.
        place_T: where each token's output stands among all places.
    """

    blocks: tuple[Tensor, ...]
    place_T: Tensor

    @classmethod
    def of(cls, spans: Sequence[Span], device: torch.device, *, most_padded: float = MOST_PADDED) -> Self:
        place_T = torch.empty(max(span.response.stop for span in spans), dtype=torch.long)
        blocks, first = [], 0
        for members in _of_like_length(spans, most_padded):
            slots_SL = torch.zeros(len(members), len(members[0]), dtype=torch.long)
            for row, span in enumerate(members):
                tokens = torch.tensor([*span.prompt, *span.response])
                slots_SL[row, : len(tokens)] = tokens
                start = first + row * slots_SL.shape[1]
                place_T[tokens] = torch.arange(start, start + len(tokens))
            blocks.append(slots_SL.to(device))
            first += slots_SL.numel()
        return cls(tuple(blocks), place_T.to(device))

    def attend(self, module, query: Tensor, key: Tensor, value: Tensor, **kwargs) -> Tensor:
        rows = [packed[0].transpose(0, 1) for packed in (query, key, value)]  # T, heads, head size
        outputs = []
        for slots_SL in self.blocks:
            padded = [_take(row, slots_SL.flatten()).unflatten(0, slots_SL.shape).transpose(1, 2) for row in rows]
            output, _ = sdpa_attention_forward(module, *padded, None, **kwargs)
            outputs.append(output.flatten(0, 1))
        return _take(torch.cat(outputs), self.place_T)[None]


@dataclass(frozen=True)
class VarlenLayout:
    """The row as it is for flash attention of variable length, without padding; not yet run on hardware.

    Prompts and responses are segments of the row. The queries of a segment are its own tokens; the keys of a response are
    its prompt's tokens and its own, and causal attention of fewer queries than keys is aligned at their ends.

    Attributes:
        key_T: token of the row at each place of the keys.
        query_starts, key_starts: int32, of each segment, with the end of the last.
    """

    key_T: Tensor
    query_starts: Tensor
    key_starts: Tensor
    longest_query: int
    longest_key: int
    dtype: torch.dtype

    @classmethod
    def of(cls, spans: Sequence[Span], device: torch.device, dtype: torch.dtype) -> Self:
        segments = {span.prompt.start: (span.prompt, [*span.prompt]) for span in spans}
        segments |= {span.response.start: (span.response, [*span.prompt, *span.response]) for span in spans}
        queries = [len(segments[start][0]) for start in sorted(segments)]
        keys = [segments[start][1] for start in sorted(segments)]

        def starts(lengths):
            return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)

        return cls(
            key_T=torch.tensor([token for segment in keys for token in segment], device=device),
            query_starts=starts(queries),
            key_starts=starts(map(len, keys)),
            longest_query=max(queries),
            longest_key=max(map(len, keys)),
            dtype=dtype,
        )

    def attend(self, module, query: Tensor, key: Tensor, value: Tensor, *, scaling: float, **kwargs) -> Tensor:
        query_THD, key_THD, value_THD = (packed[0].transpose(0, 1).to(self.dtype) for packed in (query, key, value))
        output = varlen_attn(
            query_THD.contiguous(),
            _take(key_THD, self.key_T),
            _take(value_THD, self.key_T),
            self.query_starts,
            self.key_starts,
            self.longest_query,
            self.longest_key,
            scale=scaling,
            window_size=(-1, 0),
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return output.to(query.dtype)[None]


def packed_attention(module, query, key, value, attention_mask, *, packed_layout: Layout | None = None, **kwargs):
    """The attention function of the policy's model; with a layout, inside each response and its prompt."""
    if packed_layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    return packed_layout.attend(module, query, key, value, **kwargs), None


def _take(tokens_THD: Tensor, index: Tensor) -> Tensor:
    """tokens_THD[index] with a backward pass that adds rows of a matrix, which is faster on CPU."""
    return tokens_THD.flatten(1).index_select(0, index).unflatten(1, tokens_THD.shape[1:])


def _of_like_length(spans: Sequence[Span], most_padded: float) -> list[list[Span]]:
    """Blocks of sequences, the longest first, which is at most `most_padded` times as long as the shortest."""
    blocks: list[list[Span]] = []
    for span in sorted(spans, key=len, reverse=True):
        if not blocks or len(blocks[-1][0]) > most_padded * len(span):
            blocks.append([])
        blocks[-1].append(span)
    return blocks


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, sdpa_mask)

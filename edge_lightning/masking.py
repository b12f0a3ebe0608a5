"""Sums and means over segments of flat values.

Token values of a step stand in one flat row (values_N) beside the index of their response (response_N); response values
beside the index of their group (group_B). There is no padding, so there is nothing to mask but what a stage leaves out.
"""

from __future__ import annotations

import torch
from torch import Tensor


def segment_sum(values_N: Tensor, segment_N: Tensor, segments: int) -> Tensor:
    """Sum of the values of each segment; 0 where a segment has none. Shape [segments]."""
    return values_N.new_zeros(segments).index_add(0, segment_N, values_N)


def segment_count(segment_N: Tensor, segments: int) -> Tensor:
    """Number of values of each segment, int64. Shape [segments]."""
    return torch.bincount(segment_N, minlength=segments)


def segment_mean(values_N: Tensor, segment_N: Tensor, segments: int) -> Tensor:
    """Mean of the values of each segment. Shape [segments].

    Raises:
        ValueError: a segment has no value.
    """
    count = segment_count(segment_N, segments)
    if segments and int(count.min()) == 0:
        raise ValueError(f"segment {int(count.argmin())} of {segments} has no value; a mean needs at least one")
    return segment_sum(values_N, segment_N, segments) / count


def injected_part_start(sampled_N: Tensor, response_N: Tensor, responses: int) -> Tensor:
    """Position, counted over the flat row, of each response's first injected token; N where it has none.

    Args:
        sampled_N: True where the policy sampled the token.
    """
    position_N = torch.arange(len(sampled_N), device=sampled_N.device)
    position_N = position_N.masked_fill(sampled_N, len(sampled_N))
    start_B = torch.full((responses,), len(sampled_N), device=sampled_N.device)
    return start_B.scatter_reduce(0, response_N, position_N, "amin")


def wrong_prefix_mask(sampled_N: Tensor, response_N: Tensor, responses: int) -> Tensor:
    """True for sampled tokens that stand in front of an injected part of their response.

    A response without injected tokens has no such prefix; one that is injected from its first token on has none either.
    """
    start_B = injected_part_start(sampled_N, response_N, responses)
    position_N = torch.arange(len(sampled_N), device=sampled_N.device)
    has_injection_B = start_B < len(sampled_N)
    return has_injection_B[response_N] & (position_N < start_B[response_N])

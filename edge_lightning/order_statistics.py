"""Quantiles of values that are spread over ranks, without gathering them.

Source: binary search over the bits of float32, whose order as integers is their order as numbers: 32 counts over all ranks
find any order statistic exactly, for any number of values (torch.quantile stops at 2^24).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edge_lightning.collective import AllReduce, alone


def quantiles(values_N: Tensor, probabilities: Sequence[float], all_reduce: AllReduce = alone) -> Tensor:
    """Quantiles with linear interpolation between order statistics, over all ranks.

        position = q (n - 1),   quantile = x_floor + (position - floor) (x_floor+1 - x_floor)

    Args:
        values_N: of this rank, no NaN among them.
        probabilities: q, each in [0, 1].
    Returns:
        float64, one a probability; NaN where no rank has a value.
    """
    count = int(all_reduce(torch.tensor(len(values_N), device=values_N.device), "sum"))
    if count == 0:
        return torch.full((len(probabilities),), torch.nan, dtype=torch.float64)
    position_Q = torch.tensor(probabilities, dtype=torch.float64) * (count - 1)
    below_Q = position_Q.floor().long()
    above_Q = (below_Q + 1).clamp(max=count - 1)
    found = _order_statistics(values_N, torch.cat([below_Q, above_Q]), all_reduce)
    low_Q, high_Q = found.double().chunk(2)
    return low_Q + (position_Q - below_Q) * (high_Q - low_Q)


def _order_statistics(values_N: Tensor, rank_K: Tensor, all_reduce: AllReduce) -> Tensor:
    """The rank-th smallest values over all ranks, counted from 0, float32."""
    keys_N = _as_keys(values_N).sort().values
    low_K, high_K = torch.full_like(rank_K, -(2**31)), torch.full_like(rank_K, 2**31 - 1)
    for _ in range(32):
        middle_K = (low_K + high_K).div(2, rounding_mode="floor")
        at_most_K = torch.searchsorted(keys_N, middle_K.to(keys_N.device), right=True)
        enough_K = all_reduce(at_most_K, "sum").cpu() > rank_K
        high_K = torch.where(enough_K, middle_K, high_K)
        low_K = torch.where(enough_K, low_K, middle_K + 1)
    return _as_values(low_K)


def _as_keys(values: Tensor) -> Tensor:
    """int64 keys in the order of the values."""
    bits = values.float().view(torch.int32).long()
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _as_values(keys: Tensor) -> Tensor:
    return torch.where(keys < 0, keys ^ 0x7FFFFFFF, keys).to(torch.int32).view(torch.float32)

"""Quantiles over all ranks, against torch's own of the gathered values."""

import pytest
import torch

from edge_lightning.order_statistics import quantiles
from tests.ranks import on_ranks


def test_quantiles_by_hand():
    values = torch.tensor([5.0, 1.0, 3.0, 2.0, 4.0])
    # positions 0, 0.4, 2, 3.6, 4 of 1 2 3 4 5
    assert quantiles(values, [0.0, 0.1, 0.5, 0.9, 1.0]).tolist() == pytest.approx([1.0, 1.4, 3.0, 4.6, 5.0])


def test_one_value_is_every_quantile():
    assert quantiles(torch.tensor([0.7]), [0.1, 0.9]).tolist() == pytest.approx([0.7, 0.7])


def test_no_value_has_no_quantile():
    assert quantiles(torch.zeros(0), [0.1, 0.9]).isnan().tolist() == [True, True]


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(1001, generator=torch.Generator().manual_seed(0)),
        torch.zeros(50),
        torch.tensor([-0.0, 0.0, 1e-45, -1e-45, 3e38, -3e38, 1.0, 1.0000001]),
        torch.rand(64, generator=torch.Generator().manual_seed(1)).round(decimals=1),  # many ties
    ],
    ids=["both signs", "all equal", "extremes", "ties"],
)
def test_quantiles_equal_those_of_torch(values):
    wanted = torch.tensor([0.0, 0.1, 0.25, 0.8, 0.9, 1.0], dtype=torch.float64)
    torch.testing.assert_close(
        quantiles(values, wanted.tolist()), torch.quantile(values.double(), wanted), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("sizes", [(3, 4), (7, 0), (1, 1, 5)])
def test_ranks_find_the_quantiles_of_all_their_values(sizes):
    values = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(2))
    parts = values.split(sizes)
    wanted = torch.quantile(values.double(), torch.tensor([0.1, 0.9], dtype=torch.float64))
    for found in on_ranks(lambda rank, all_reduce: quantiles(parts[rank], [0.1, 0.9], all_reduce), len(sizes)):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)


def test_more_values_than_torch_takes():
    values = torch.arange(2**24 + 3, dtype=torch.float32)
    with pytest.raises(RuntimeError):
        torch.quantile(values, 0.5)
    assert quantiles(values, [0.5]).item() == 2**23 + 1

"""Eq. 2 of EDGE-GRPO, worked by hand."""

import pytest
import torch

from edge_lightning.advantage.grpo import GroupRelative, tied_groups
from edge_lightning.advantage.mean_baseline import MeanBaseline
from edge_lightning.advantage.none import NoAdvantage
from edge_lightning.advantage.sampled_baseline import SampledBaseline

ONE_GROUP = torch.zeros(4, dtype=torch.long)


def test_one_right_of_four_gets_root_three():
    # mean 1/4, std sqrt(3/16): (1 - 1/4) / (sqrt(3)/4) = sqrt(3); (0 - 1/4) / (sqrt(3)/4) = -1/sqrt(3)
    advantages = GroupRelative()(torch.tensor([1.0, 0.0, 0.0, 0.0]), ONE_GROUP, 1)
    assert advantages.tolist() == pytest.approx([3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)], abs=1e-6)


def test_sample_deviation_and_epsilon_are_the_released_codes():
    # ddof 1: std = sqrt(3/4 / 3) = 1/2; (3/4) / (1/2 + 1e-4) = 1.4997
    advantages = GroupRelative(ddof=1, epsilon=1e-4)(torch.tensor([1.0, 0.0, 0.0, 0.0]), ONE_GROUP, 1)
    assert advantages[0].item() == pytest.approx(0.75 / 0.5001, abs=1e-6)


def test_epsilon_is_added_to_the_deviation_not_to_the_variance():
    # std of (4, 0) is 2: 2 / (2 + 1) against 2 / sqrt(4 + 1)
    advantages = GroupRelative(epsilon=1.0)(torch.tensor([4.0, 0.0]), torch.tensor([0, 0]), 1)
    assert advantages.tolist() == pytest.approx([2 / 3, -2 / 3])


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3, 1e-30])
@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_equal_rewards_give_exactly_zero(reward, size):
    # the mean of equal floats may differ from them in the last bit: noise / noise would be of order 1
    advantages = GroupRelative()(torch.full((size,), reward, dtype=torch.float64), torch.zeros(size, dtype=torch.long), 1)
    assert advantages.tolist() == [0.0] * size


def test_rewards_that_differ_by_rounding_are_ties():
    rewards = torch.tensor([0.1 + 0.2, 0.3, 0.3], dtype=torch.float64)
    assert rewards[0] != rewards[1]
    assert GroupRelative()(rewards, torch.zeros(3, dtype=torch.long), 1).tolist() == [0.0, 0.0, 0.0]


def test_groups_do_not_see_each_other():
    rewards = torch.tensor([1.0, 0.0, 5.0, 5.0])
    advantages = GroupRelative()(rewards, torch.tensor([0, 0, 1, 1]), 2)
    assert advantages.tolist() == [1.0, -1.0, 0.0, 0.0]


def test_order_of_responses_does_not_matter():
    rewards, groups = torch.tensor([1.0, 0.0, 0.0, 3.0, 4.0]), torch.tensor([0, 1, 0, 1, 1])
    order = torch.tensor([3, 0, 4, 2, 1])
    straight = GroupRelative()(rewards, groups, 2)
    assert torch.equal(GroupRelative()(rewards[order], groups[order], 2), straight[order])


def test_tied_groups_are_those_with_one_reward():
    assert tied_groups(torch.tensor([1.0, 1.0, 0.0, 1.0]), torch.tensor([0, 0, 1, 1]), 2).tolist() == [True, False]


def test_no_advantage_is_zero():
    assert NoAdvantage()(torch.tensor([1.0, 0.0]), torch.tensor([0, 1]), 2).tolist() == [0.0, 0.0]


def test_the_sampled_baseline_is_the_mean_before_correction():
    # before: 1, 0, 0, 0, mean 1/4; after: 1, 1, 0, 0. The deviation of either is nowhere.
    first, now = torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    advantages = SampledBaseline()(now, ONE_GROUP, 1, sampled_rewards_B=first)
    assert advantages.tolist() == [0.75, 0.75, -0.25, -0.25]


def test_a_group_corrected_altogether_has_a_sampled_baseline_to_exceed():
    first, now = torch.zeros(4), torch.ones(4)
    assert SampledBaseline()(now, ONE_GROUP, 1, sampled_rewards_B=first).tolist() == [1.0] * 4
    assert GroupRelative()(now, ONE_GROUP, 1, sampled_rewards_B=first).tolist() == [0.0] * 4


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3])
@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_equal_rewards_without_correction_are_exactly_zero_against_the_sampled_baseline(reward, size):
    rewards = torch.full((size,), reward, dtype=torch.float64)
    found = SampledBaseline()(rewards, torch.zeros(size, dtype=torch.long), 1, sampled_rewards_B=rewards)
    assert found.tolist() == [0.0] * size


def test_sampled_baselines_of_groups_do_not_see_each_other():
    first, now = torch.tensor([0.0, 4.0, 1.0, 1.0]), torch.tensor([2.0, 4.0, 1.0, 5.0])
    order = torch.tensor([2, 0, 3, 1])
    groups = torch.tensor([0, 0, 1, 1])
    found = SampledBaseline()(now[order], groups[order], 2, sampled_rewards_B=first[order])
    assert found.tolist() == [0.0, 0.0, 4.0, 2.0]  # baselines 2 and 1


def test_a_sampled_baseline_without_the_sampled_rewards_is_an_error():
    with pytest.raises(ValueError, match="the rewards before correction expected, None came"):
        SampledBaseline()(torch.tensor([1.0, 0.0]), torch.tensor([0, 0]), 1)


def test_mean_baselines_by_hand():
    # mean 1/4; the others' means 0, 1/3, 1/3, 1/3
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    assert MeanBaseline()(rewards, ONE_GROUP, 1).tolist() == pytest.approx([0.75, -0.25, -0.25, -0.25])
    assert MeanBaseline(leave_one_out=True)(rewards, ONE_GROUP, 1).tolist() == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_mean_baselines_of_ties_are_exactly_zero(leave_one_out):
    rewards = torch.tensor([0.1 + 0.2, 0.3, 0.3], dtype=torch.float64)
    assert MeanBaseline(leave_one_out=leave_one_out)(rewards, torch.zeros(3).long(), 1).tolist() == [0.0] * 3

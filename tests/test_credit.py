"""EDA, Eqs. 3, 4, 6, 7 of EDGE-GRPO, worked by hand."""

import pytest
import torch

from edge_lightning.credit.base import Scored
from edge_lightning.credit.eda import EntropyDrivenAdvantage, divide_by_relative_entropy, relative_entropy
from edge_lightning.credit.none import NoCredit
from edge_lightning.errors import UserError
from edge_lightning.tokens import Forward

RESPONSE_N = torch.tensor([0, 0, 1, 1, 1])


def scored(advantages, entropies, response=RESPONSE_N, group=None):
    group_B = torch.zeros(len(advantages), dtype=torch.long) if group is None else torch.tensor(group)
    return Scored(torch.tensor(advantages), group_B, int(group_B.max()) + 1, response, torch.tensor(entropies))


def weigh(credit, step, entropies_N=None, response_N=None):
    response_N = step.response_N if response_N is None else response_N
    entropies_N = step.entropies_N if entropies_N is None else entropies_N
    return credit.weigh(credit.prepare(step), Forward(torch.zeros(len(response_N)), entropies_N, response_N))


@pytest.mark.parametrize(
    ("advantage", "phat", "expected"),
    [(1.0, 0.5, 2.0), (-1.0, 0.5, -2.0), (1.0, 1.5, 2 / 3), (-1.0, 1.5, -2 / 3), (0.0, 0.5, 0.0), (0.0, 0.0, 0.0)],
)
def test_advantage_is_divided_by_relative_entropy(advantage, phat, expected):
    assert divide_by_relative_entropy(torch.tensor([advantage]), torch.tensor([phat])).item() == pytest.approx(expected)


def test_confident_response_gets_the_larger_advantage():
    # P = (0.5, 1.5), mean 1, Phat = (0.5, 1.5): 1 / 0.5 = 2 for both tokens of the first, -1 / 1.5 for the second's three
    step = scored([1.0, -1.0], [0.4, 0.6, 1.0, 1.5, 2.0])
    assert weigh(EntropyDrivenAdvantage(), step).tolist() == pytest.approx([2, 2, -2 / 3, -2 / 3, -2 / 3])


def test_eda_keeps_advantages_when_entropies_are_equal():
    step = scored([1.0, -1.0], [0.7] * 5)
    assert weigh(EntropyDrivenAdvantage(), step).tolist() == pytest.approx([1, 1, -1, -1, -1])


def test_entropy_is_a_mean_over_tokens_not_a_sum():
    # sums 1.0 and 1.5 would give Phat 0.8 and 1.2; means 0.5 and 0.5 give 1
    step = scored([1.0, -1.0], [0.5, 0.5, 0.5, 0.5, 0.5])
    assert EntropyDrivenAdvantage().prepare(step).relative_entropy_B.tolist() == pytest.approx([1.0, 1.0])


def test_groups_have_means_of_their_own():
    step = scored([1.0, 1.0], [0.1, 0.1, 2.0, 2.0, 2.0], group=[0, 1])
    assert EntropyDrivenAdvantage().prepare(step).relative_entropy_B.tolist() == [1.0, 1.0]


def test_zero_mean_entropy_leaves_advantages_alone():
    step = scored([1.0, -1.0], [0.0] * 5)
    assert weigh(EntropyDrivenAdvantage(), step).tolist() == [1, 1, -1, -1, -1]


def test_phat_is_bounded_by_default_and_not_where_bounds_are_null():
    # P = (0.002, 3.998), mean 2: Phat = (0.001, 1.999)
    step = scored([1.0, -1.0], [0.002, 0.002, 3.998, 3.998, 3.998])
    bounded = EntropyDrivenAdvantage().prepare(step)
    assert bounded.relative_entropy_B.tolist() == pytest.approx([0.1, 1.999])
    assert bounded.clamped_B.tolist() == [True, False]
    free = EntropyDrivenAdvantage(floor=None, ceiling=None)
    assert free.prepare(step).relative_entropy_B.tolist() == pytest.approx([0.001, 1.999])
    assert not free.prepare(step).clamped_B.any()
    assert weigh(free, step)[0].item() == pytest.approx(1000, rel=1e-4)


def test_ceiling_alone_holds():
    step = scored([1.0, -1.0, 0.0], [0.1, 0.1, 2.8], response=torch.tensor([0, 1, 2]))
    credit = EntropyDrivenAdvantage(floor=None, ceiling=2.0)
    assert credit.prepare(step).relative_entropy_B.tolist() == pytest.approx([0.1, 0.1, 2.0])


@pytest.mark.parametrize(("floor", "ceiling"), [(0.0, 10.0), (1.5, 10.0), (0.1, 0.5), (-1.0, None)])
def test_bounds_that_exclude_one_are_refused(floor, ceiling):
    with pytest.raises(UserError, match="0 < floor <= 1 <= ceiling"):
        EntropyDrivenAdvantage(floor=floor, ceiling=ceiling)


def test_gradient_passes_through_entropy_only_when_asked():
    # A' = A m / P with m the constant group mean: dA'/dP = -A m / P^2, and dP/dH = 1/length
    entropies = torch.tensor([0.4, 0.6, 1.0, 1.5, 2.0], requires_grad=True)
    step = scored([1.0, -1.0], entropies.tolist())
    assert not weigh(EntropyDrivenAdvantage(), step, entropies).requires_grad
    weigh(EntropyDrivenAdvantage(detach=False), step, entropies)[0].backward()
    assert entropies.grad.tolist() == pytest.approx([-1.0 * 1.0 / 0.5**2 / 2] * 2 + [0, 0, 0])


def test_undetached_eda_equals_detached_in_value_also_in_a_micro_batch():
    step = scored([1.0, -1.0], [0.4, 0.6, 1.0, 1.5, 2.0])
    whole = weigh(EntropyDrivenAdvantage(), step)
    part = weigh(EntropyDrivenAdvantage(detach=False), step, step.entropies_N[2:], RESPONSE_N[2:])
    assert part.tolist() == pytest.approx(whole[2:].tolist())


def test_undetached_phat_is_bounded_and_has_no_gradient_at_its_bound():
    # P = (0.002, 3.998), mean 2: Phat = 0.001 is raised to 0.1, so A' = 1 / 0.1 and the entropy has no say
    entropies = torch.tensor([0.002, 0.002, 3.998, 3.998, 3.998], requires_grad=True)
    weighed = weigh(EntropyDrivenAdvantage(detach=False), scored([1.0, -1.0], entropies.tolist()), entropies)
    assert weighed[0].item() == pytest.approx(10.0)
    weighed[0].backward()
    assert entropies.grad.tolist() == [0.0] * 5


def test_response_without_a_token_is_refused():
    with pytest.raises(ValueError, match="segment 1"):
        EntropyDrivenAdvantage().prepare(scored([1.0, 1.0], [0.5, 0.5], response=torch.tensor([0, 0])))


def test_ranks_share_a_group_through_the_all_reduce():
    """This rank has the response with P = 0.5; another has one with P = 1.5: the group's mean is 1."""
    step = scored([1.0], [0.4, 0.6], response=torch.tensor([0, 0]))
    others = iter([torch.tensor([1.5]), torch.tensor([1])])
    constants = EntropyDrivenAdvantage().prepare(step, lambda values, operation: values + next(others))
    assert constants.relative_entropy_B.tolist() == pytest.approx([0.5])


def test_only_responses_with_an_advantage_are_alive():
    step = scored([0.0, -1.0], [0.5] * 5)
    assert EntropyDrivenAdvantage().prepare(step).alive_B.tolist() == [False, True]
    assert NoCredit().prepare(step).alive_B.tolist() == [False, True]


def test_without_credit_every_token_has_its_responses_advantage():
    assert weigh(NoCredit(), scored([2.0, -1.0], [0.5] * 5)).tolist() == [2, 2, -1, -1, -1]


def test_relative_entropy_of_a_zero_mean_is_one():
    assert relative_entropy(torch.tensor([0.0, 0.5]), torch.tensor([0.0, 1.0])).tolist() == [1.0, 0.5]

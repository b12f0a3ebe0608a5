"""EDA, Eqs. 3, 4, 6, 7 of EDGE-GRPO, and its options, worked by hand."""

import math
from dataclasses import replace

import pytest
import torch

from edge_lightning.credit.eda import EntropyDrivenAdvantage, divide_by_relative_entropy, relative_entropy
from edge_lightning.credit.none import NoCredit
from edge_lightning.errors import UserError
from edge_lightning.objective.base import StepTotals
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.packing import pack
from edge_lightning.tokens import Forward
from tests.by_hand import response
from tests.credit_steps import scored, weigh


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


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"floor": 1.0}, [1.0, -1.0, 2 / 3, -2 / 3]),  # only damping: Phat (.5, .5, 1.5, 1.5) becomes (1, 1, 1.5, 1.5)
        ({"ceiling": 1.0}, [2.0, -2.0, 1.0, -1.0]),  # only sharpening: (.5, .5, 1, 1)
        ({"floor": 1.0, "ceiling": 1.0}, [1.0, -1.0, 1.0, -1.0]),
    ],
)
def test_a_bound_of_one_leaves_damping_or_sharpening_alone(bounds, expected):
    step = scored([1.0, -1.0, 1.0, -1.0], [0.5, 0.5, 1.5, 1.5], response=torch.arange(4))
    credit = EntropyDrivenAdvantage(**bounds)
    assert weigh(credit, step).tolist() == pytest.approx(expected)
    assert credit.prepare(step).clamped_B.tolist() == [p != e for p, e in zip([2.0, -2.0, 2 / 3, -2 / 3], expected)]


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize(
    ("advantages", "expected"),
    [
        ("all", [2.0, -2.0, 2 / 3, -2 / 3, 0.0]),
        ("positive", [2.0, -1.0, 2 / 3, -1.0, 0.0]),
        ("negative", [1.0, -2.0, 1.0, -2 / 3, 0.0]),
    ],
)
def test_advantages_of_one_sign_can_be_left_as_they_are(advantages, expected, detach):
    # P = (.5, .5, 1.5, 1.5, 1), mean 1
    step = scored([1.0, -1.0, 1.0, -1.0, 0.0], [0.5, 0.5, 1.5, 1.5, 1.0], response=torch.arange(5))
    credit = EntropyDrivenAdvantage(advantages=advantages, detach=detach)
    assert weigh(credit, step).tolist() == pytest.approx(expected)
    assert credit.prepare(step).relative_entropy_B.tolist() == pytest.approx([0.5, 0.5, 1.5, 1.5, 1.0])


def test_mean_entropy_over_padding():
    # the first response has 2 of 3 positions: P = (.4 + .6 + .8) / 3 = .6 and 4.5 / 3 = 1.5, mean 1.05
    step = replace(scored([1.0, -1.0], [0.4, 0.6, 1.0, 1.5, 2.0]), padding_entropy_B=torch.tensor([0.8, 0.0]))
    credit = EntropyDrivenAdvantage(entropy_over_padding=True)
    assert credit.needs_padding
    assert credit.prepare(step).relative_entropy_B.tolist() == pytest.approx([0.6 / 1.05, 1.5 / 1.05])
    assert weigh(credit, step).tolist() == pytest.approx([1.75, 1.75, -0.7, -0.7, -0.7])
    assert EntropyDrivenAdvantage().prepare(step).relative_entropy_B.tolist() == pytest.approx([0.5, 1.5])


def test_undetached_mean_entropy_over_padding_keeps_its_length_in_a_micro_batch():
    # a micro-batch of the first response alone: A' = m / P, dA'/dH = -m / P^2 / 3, also for the padding
    step = replace(scored([1.0, -1.0], [0.4, 0.6, 1.0, 1.5, 2.0]), padding_entropy_B=torch.tensor([0.8, 0.0]))
    credit = EntropyDrivenAdvantage(entropy_over_padding=True, detach=False)
    entropies = torch.tensor([0.4, 0.6], requires_grad=True)
    padding = torch.tensor([0.8], requires_grad=True)
    weighed = credit.weigh(
        credit.prepare(step), Forward(torch.zeros(2), entropies, torch.tensor([0, 0]), torch.arange(2), padding)
    )
    assert weighed.tolist() == pytest.approx([1.75, 1.75])
    weighed[0].backward()
    slope = -1.05 / 0.6**2 / 3
    assert entropies.grad.tolist() == pytest.approx([slope] * 2)
    assert padding.grad.tolist() == pytest.approx([slope])


def test_entropies_at_padding_must_come_where_they_are_needed():
    with pytest.raises(ValueError, match="entropies at the padding expected"):
        EntropyDrivenAdvantage(entropy_over_padding=True).prepare(scored([1.0, -1.0], [0.5] * 5))


def test_mean_over_the_step_is_the_groups_mean_at_one_problem_a_step():
    step = scored([1.0, -1.0], [0.4, 0.6, 1.0, 1.5, 2.0])
    over_step = EntropyDrivenAdvantage(mean_over="step")
    assert over_step.prepare(step).relative_entropy_B.tolist() == pytest.approx([0.5, 1.5])


def test_mean_over_the_step_mixes_problems():
    # P = (.5, 1.5 | 1, 5): group means 1 and 3, the step's is 2
    step = scored([1.0] * 4, [0.5, 1.5, 1.0, 5.0], response=torch.arange(4), group=[0, 0, 1, 1])
    assert EntropyDrivenAdvantage().prepare(step).relative_entropy_B.tolist() == pytest.approx([0.5, 1.5, 1 / 3, 5 / 3])
    over_step = EntropyDrivenAdvantage(mean_over="step").prepare(step)
    assert over_step.relative_entropy_B.tolist() == pytest.approx([0.25, 0.75, 0.5, 2.5])
    assert over_step.group_mean_entropy_B.tolist() == pytest.approx([2.0] * 4)


def test_mean_over_the_step_is_taken_over_all_ranks():
    """This rank has P = .5; another has 1.5 of another problem: one count and one sum for all."""
    step = scored([1.0], [0.4, 0.6], response=torch.tensor([0, 0]))
    others = iter([torch.tensor([1.5]), torch.tensor([1])])
    constants = EntropyDrivenAdvantage(mean_over="step").prepare(step, lambda values, operation: values + next(others))
    assert constants.relative_entropy_B.tolist() == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"advantages": "both"}, "all, positive, negative expected"), ({"mean_over": "batch"}, "group or step expected")],
)
def test_unknown_names_are_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        EntropyDrivenAdvantage(**wrong)


def test_gradient_passes_through_entropy_only_when_asked():
    # A' = A m / P with m the constant group mean: dA'/dP = -A m / P^2, and dP/dH = 1/length
    entropies = torch.tensor([0.4, 0.6, 1.0, 1.5, 2.0], requires_grad=True)
    step = scored([1.0, -1.0], entropies.tolist())
    assert not weigh(EntropyDrivenAdvantage(), step, entropies).requires_grad
    weigh(EntropyDrivenAdvantage(detach=False), step, entropies)[0].backward()
    assert entropies.grad.tolist() == pytest.approx([-1.0 * 1.0 / 0.5**2 / 2] * 2 + [0, 0, 0])


def two_coins(z):
    """Log-probability of heads and entropy of coins whose heads have logit z, one token a response."""
    p = torch.sigmoid(z)
    return p.log(), -(p * p.log() + (1 - p) * (1 - p).log())


def loss_gradient(z, advantages, *, detach):
    """d loss / d z of two responses, each one toss that came out heads, at the first update."""
    z = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    logprobs, entropies = two_coins(z)
    index = torch.arange(2)
    step = scored(torch.tensor(advantages, dtype=torch.float64), entropies.detach(), index)
    credit = EntropyDrivenAdvantage(floor=None, ceiling=None, detach=detach)
    advantages_N = credit.weigh(credit.prepare(step), Forward(logprobs, entropies, index, index))
    tokens = pack([response((5,)), response((6,))], [0, 1])
    PolicyGradient()(Forward(logprobs, entropies, index, index), advantages_N, tokens, StepTotals(2, 2)).value.backward()
    return z.grad


def test_gradient_of_the_loss_with_undetached_entropy_by_hand():
    # heads have p = 3/4 and 4/5: z = ln 3, ln 4; H = -(p ln p + q ln q) = .5623351, .5004024; m = .5313688
    # dlog p/dz = q = .25, .2;  dH/dz = -p q z = -.2059899, -.2218071
    # loss = -1/2 sum rho A m / H, so d/dz = -1/2 A m (q / H - dH/dz / H^2)
    detached = loss_gradient([math.log(3), math.log(4)], [1.0, -1.0], detach=True)
    assert detached.tolist() == pytest.approx([-0.1181166, 0.1061883], abs=1e-6)
    through = loss_gradient([math.log(3), math.log(4)], [1.0, -1.0], detach=False)
    assert through.tolist() == pytest.approx([-0.1181166 - 0.1730698, 0.1061883 + 0.2353438], abs=1e-6)


def test_undetached_entropy_falls_where_praised_and_rises_where_blamed():
    z = torch.tensor([math.log(3), -math.log(4)], dtype=torch.float64)  # the second response said what it held unlikely
    term = loss_gradient(z.tolist(), [1.0, -1.0], detach=False) - loss_gradient(z.tolist(), [1.0, -1.0], detach=True)
    before, after = two_coins(z)[1], two_coins(z - 0.1 * term)[1]
    assert after[0] < before[0]
    assert after[1] > before[1]


def test_undetached_eda_equals_detached_in_value_also_in_a_micro_batch():
    step = scored([1.0, -1.0], [0.4, 0.6, 1.0, 1.5, 2.0])
    whole = weigh(EntropyDrivenAdvantage(), step)
    part = weigh(EntropyDrivenAdvantage(detach=False), step, tokens=[2, 3, 4])
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
    advantages_B = torch.tensor([0.0, -1.0])
    assert EntropyDrivenAdvantage().alive(advantages_B).tolist() == [False, True]
    assert NoCredit().alive(advantages_B).tolist() == [False, True]


def test_a_group_without_scores_leaves_the_other_groups_as_they_are():
    nan = float("nan")
    response_N, group = torch.arange(4), [0, 0, 1, 1]
    step = scored([1.0, -1.0, 1.0, -1.0], [0.5, 1.5, nan, nan], response=response_N, group=group)
    constants = EntropyDrivenAdvantage().prepare(step)
    assert constants.relative_entropy_B[:2].tolist() == [0.5, 1.5]
    assert constants.relative_entropy_B[2:].isnan().all()
    assert constants.clamped_B.tolist() == [False] * 4


def test_without_credit_every_token_has_its_responses_advantage():
    assert weigh(NoCredit(), scored([2.0, -1.0], [0.5] * 5)).tolist() == [2, 2, -1, -1, -1]


def test_relative_entropy_of_a_zero_mean_is_one():
    assert relative_entropy(torch.tensor([0.0, 0.5]), torch.tensor([0.0, 1.0])).tolist() == [1.0, 0.5]


def test_undetached_eda_finds_its_group_in_a_micro_batch():
    # means of the groups: 1 and 3; the second group alone, P = 2 and 4: A' = 3/2 and -3/4
    step = scored([1.0, -1.0, 1.0, -1.0], [0.5, 1.5, 2.0, 4.0], torch.arange(4), [0, 0, 1, 1])
    assert weigh(EntropyDrivenAdvantage(detach=False), step, tokens=[2, 3]).tolist() == pytest.approx([1.5, -0.75])

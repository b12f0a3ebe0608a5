"""PPO's clip, GSPO and CISPO, constant lengths and mismatch weights: numbers worked by hand."""

import math
from dataclasses import replace

import pytest
import torch

from edge_lightning.errors import UserError
from edge_lightning.objective.base import Aggregation, StepTotals
from edge_lightning.objective.mismatch import mismatch_weights
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.objective.surrogates import CappedWeight, SequenceClip, TokenClip
from edge_lightning.packing import pack
from edge_lightning.tokens import Forward
from tests.by_hand import response
from tests.ranks import on_ranks

RESPONSE_N = torch.tensor([0, 0, 1, 1, 1])


def worth(surrogate, ratios, advantages, *, logprob=-1.0):
    """Gains, gradients in the log-probabilities, and what was clipped, at these ratios to the policy that sampled."""
    logprobs = torch.full((5,), logprob, requires_grad=True)
    old = logprobs.detach() - torch.tensor(ratios).log()
    found = surrogate(logprobs, old, torch.tensor(advantages), RESPONSE_N)
    found.gain_N.sum().backward()
    torch.testing.assert_close(found.ratio_N.requires_grad, False)
    return found.gain_N.tolist(), logprobs.grad.tolist(), found.clipped_N.tolist()


def near(values):
    return pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize("surrogate", [TokenClip(), SequenceClip(), CappedWeight()])
def test_at_the_first_update_all_have_the_gradient_of_the_advantage(surrogate):
    _, gradient, clipped = worth(surrogate, [1.0] * 5, [2.0, 1.0, -1.0, 0.0, 3.0])
    assert gradient == near([2.0, 1.0, -1.0, 0.0, 3.0])
    assert clipped == [0.0] * 5


def test_clip_higher_by_hand():
    surrogate = TokenClip(clip_low=0.2, clip_high=0.28)
    gain, gradient, clipped = worth(surrogate, [1.25, 1.5, 1.5, 0.7, 0.7], [1.0, 1.0, -1.0, -1.0, 1.0])
    assert gain == near([1.25, 1.28, -1.5, -0.8, 0.7])
    assert gradient == near([1.25, 0.0, -1.5, 0.0, 0.7])
    assert clipped == [0, 1, 0, 1, 0]


def test_gspo_by_hand():
    # geometric means: sqrt(2 * 0.5) = 1, and (2 * 2 * 2)^(1/3) = 2, which 1.4 cuts where A > 0
    surrogate = SequenceClip(clip_low=0.3, clip_high=0.4)
    gain, gradient, clipped = worth(surrogate, [2.0, 0.5, 2.0, 2.0, 2.0], [1.0, -1.0, 1.0, 1.0, -1.0])
    assert gain == near([1.0, -1.0, 1.4, 1.4, -2.0])
    assert gradient == near([1.0, -1.0, 0.0, 0.0, -2.0])
    assert clipped == [0, 0, 1, 1, 0]


def test_gspo_of_equal_advantages_is_the_sequence_objective():
    """Value and gradient of min(s A, clip(s) A) with s = exp(mean log ratio), by autograd through the mean."""
    old = torch.tensor([-1.0, -2.0, -0.5, -1.5, -1.0])
    for shift, advantage in ((0.05, 1.0), (-0.05, 1.0), (0.05, -1.0), (-0.6, -1.0), (0.6, 1.0)):
        mine = (old + shift * torch.tensor([1.0, 0.5, 2.0, -1.0, 1.5])).requires_grad_()
        found = SequenceClip(clip_low=0.2, clip_high=0.2)(mine, old, torch.full((5,), advantage), RESPONSE_N)
        value = sum(found.gain_N[i == RESPONSE_N].mean() for i in (0, 1))
        (got,) = torch.autograd.grad(value, mine)
        theirs = mine.detach().requires_grad_()
        s = torch.stack([(theirs - old)[i == RESPONSE_N].mean().exp() for i in (0, 1)])
        expected = torch.minimum(s * advantage, s.clamp(0.8, 1.2) * advantage).sum()
        (wanted,) = torch.autograd.grad(expected, theirs)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(got, wanted)


def test_cispo_by_hand():
    # weights min(rho, 5) without gradient; the gain is weight * A * log p with log p = -1
    gain, gradient, clipped = worth(CappedWeight(), [7.0, 0.1, 2.0, 7.0, 1.0], [1.0, 1.0, -1.0, -1.0, 0.5])
    assert gain == near([-5.0, -0.1, 2.0, 5.0, -0.5])
    assert gradient == near([5.0, 0.1, -2.0, -5.0, 0.5])
    assert clipped == [1, 0, 0, 1, 0]
    _, gradient, clipped = worth(CappedWeight(cap=1.2, floor=0.8), [7.0, 0.1, 1.0, 1.0, 1.0], [1.0] * 5)
    assert gradient == near([1.2, 0.8, 1.0, 1.0, 1.0])
    assert clipped == [1, 1, 0, 0, 0]


def test_token_sum_divides_by_a_constant_length():
    # 4 responses of at most 8 tokens: each token 1 / 32, whatever its response's length
    weights = Aggregation("token_sum", 8)(RESPONSE_N, StepTotals(responses=4, tokens=10))
    assert weights.tolist() == [1 / 32] * 5


# four responses of 2, 3, 1 and 4 tokens; the first and the third are of one problem: groups of 3 and of 7 tokens
LENGTHS = torch.tensor([2, 3, 1, 4])
GROUP_B = torch.tensor([0, 1, 0, 1])
OF_ALL = torch.arange(4).repeat_interleave(LENGTHS)
BY_GROUP = [1 / 6] * 2 + [1 / 14] * 3 + [1 / 6] + [1 / 14] * 4  # 1 / (2 groups x 3 tokens), 1 / (2 x 7)


def test_group_token_mean_is_the_token_mean_of_each_group_then_the_mean_over_groups():
    totals = StepTotals.of(OF_ALL, GROUP_B, 2)
    assert (totals.responses, totals.tokens, totals.tokens_G.tolist()) == (4, 10, [3, 7])
    weights = Aggregation("group_token_mean")(OF_ALL, totals)
    assert weights.tolist() == near(BY_GROUP)
    assert weights.sum().item() == near(1.0)
    # gains of 1 in the first group and 0 in the second: half of the problems, though 3 tokens of 10 and 2 responses of 4
    assert (weights * (GROUP_B[OF_ALL] == 0)).sum().item() == near(0.5)


def test_group_token_mean_of_a_micro_batch_divides_by_the_whole_group():
    totals = StepTotals.of(OF_ALL, GROUP_B, 2)
    second_and_third = OF_ALL[2:6]
    assert Aggregation("group_token_mean")(second_and_third, totals).tolist() == near(BY_GROUP[2:6])


@pytest.mark.parametrize(
    "ranks", [[[0, 2], [1, 3]], [[0, 1], [2, 3]], [[3], [0, 1, 2]]]
)  # groups whole, and spread over ranks
def test_group_token_mean_does_not_depend_on_ranks(ranks):
    def work(rank, all_reduce):
        mine = torch.tensor(ranks[rank])
        response_N = torch.arange(len(mine)).repeat_interleave(LENGTHS[mine])
        totals = StepTotals.of(response_N, GROUP_B[mine], 2, all_reduce)
        assert (totals.responses, totals.tokens) == (4, 10)
        return Aggregation("group_token_mean")(response_N, totals).tolist()

    starts = [0, 2, 5, 6, 10]
    for members, found in zip(ranks, on_ranks(work, 2)):
        assert found == near([w for i in members for w in BY_GROUP[starts[i] : starts[i + 1]]])


def test_a_mean_over_groups_needs_groups():
    with pytest.raises(ValueError, match="group_token_mean needs the tokens of each group"):
        Aggregation("group_token_mean")(RESPONSE_N, StepTotals(responses=4, tokens=10))


def test_mismatch_weights_by_hand():
    # p_old / p_engine = 3, 1.5, 0.3, 1; the last token was put in
    engine = torch.tensor([-1.0, -1.0, -1.0, -1.0, math.nan])
    old = torch.tensor([3.0, 1.5, 0.3, 1.0, 9.0]).log() - 1
    tis = mismatch_weights(old, engine, kind="tis", low=0.5, high=2.0)
    assert tis.tolist() == near([2.0, 1.5, 0.3, 1.0, 1.0])
    mis = mismatch_weights(old, engine, kind="mis", low=0.5, high=2.0)
    assert mis.tolist() == near([0.0, 1.5, 0.0, 1.0, 1.0])


@pytest.mark.parametrize(("kind", "expected"), [("none", [1.0, 1.0]), ("tis", [2.0, 0.8]), ("mis", [0.0, 0.8])])
def test_mismatch_weighs_the_gradient_of_sampled_tokens(kind, expected):
    # p_old / p_engine = 4 and 0.8
    made = replace(response((5, 6)), engine_logprobs=(-1.0 - math.log(4), -1.0 + math.log(1.25)))
    tokens = pack([made], [0])
    logprobs = torch.full((2,), -1.0, requires_grad=True)
    objective = PolicyGradient(mismatch=kind)
    passed = Forward(logprobs, torch.zeros(2), tokens.response_N, tokens.place_N)
    objective(passed, torch.ones(2), tokens, StepTotals(1, 2)).value.backward()
    assert (-2 * logprobs.grad).tolist() == near(expected)


def test_mismatch_is_that_of_the_policy_that_sampled_also_at_later_updates():
    # old log p = -1 beside the engine's -1 - log 1.5: m = 1.5 whatever p has become; rho = 1.1, inside the clip
    made = replace(response((5, 6)), engine_logprobs=(-1.0 - math.log(1.5),) * 2)
    tokens = pack([made], [0])
    now = torch.full((2,), -1.0 + math.log(1.1), requires_grad=True)
    passed = Forward(now, torch.zeros(2), tokens.response_N, tokens.place_N)
    objective = PolicyGradient(mismatch="tis", kl_coefficient=0.5)
    loss = objective(
        passed,
        torch.ones(2),
        tokens,
        StepTotals(1, 2),
        old_logprobs_N=torch.full((2,), -1.0),
        reference_logprobs_N=torch.full((2,), -1.0),
    )
    # d(-m rho A + beta (1 / rho - 1 + log rho)) / d log p = -1.65 + 0.5 (1 - 1 / 1.1); the KL term is not weighed by m
    loss.value.backward()
    assert (2 * now.grad).tolist() == near([-1.65 + 0.5 / 11] * 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenClip(clip_low=1.0), "objective.surrogate.clip_low=1.0, clip_high=0.2: 0 <= clip_low < 1"),
        (lambda: SequenceClip(clip_high=-1.0), "clip_high=-1.0"),
        (lambda: CappedWeight(cap=0.5), "objective.surrogate.floor=0.0, cap=0.5: 0 <= floor <= 1 <= cap expected"),
        (lambda: PolicyGradient(mismatch="other"), "objective.mismatch=other: one of none, tis, mis expected"),
        (lambda: PolicyGradient(mismatch="tis", mismatch_high=0.5), "mismatch_high=0.5: 0 <= low <= 1 <= high"),
        (lambda: PolicyGradient(aggregation="token_sum"), "objective.constant_length=None: at least 1 expected"),
        (
            lambda: PolicyGradient(aggregation="sum"),
            "one of response_mean, token_mean, group_token_mean, .* expected",
        ),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()

"""EAPO, the entropy bonus, the 80/20 rule and RL-ZVP: numbers worked by hand."""

import math

import pytest
import torch

from edge_lightning.credit.eapo import EAPO, entropy_level
from edge_lightning.credit.entropy_adv import EntropyAdv
from edge_lightning.credit.rl_zvp import RLZVP
from edge_lightning.credit.top_entropy import TopEntropy
from edge_lightning.errors import UserError
from tests.credit_steps import scored, weigh

ENTROPIES = [0.4, 0.6, 1.0, 1.5, 2.0]  # of a response of two tokens and one of three


def near(values):
    return pytest.approx(values, abs=1e-5)


def test_eapo_by_hand():
    # of 0.4 0.6 1 1.5 2: Q10 at position 0.4 is 0.48, Q90 at 3.6 is 1.8, so h = 0, 0.09091, 0.39394, 0.77273, 1
    # right: u = 4^h = 1, 1.13431, mean 1.06716; wrong: u = 4^-h = 0.579194, 0.342588, 0.25, mean 0.390594
    found = weigh(EAPO(), scored([1.0, -1.0], ENTROPIES))
    assert found.tolist() == near([0.93707, 1.06293, -1.48286, -0.87709, -0.64005])


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        ((0, 0), [2.0, 2.0, -1.0, -1.0, -1.0]),  # GRPO
        ((-1, 1), [2.12586, 1.87414, -0.59911, -1.01288, -1.38801]),
        ((1, 0), [1.87414, 2.12586, -1.0, -1.0, -1.0]),
    ],
)
def test_eapo_signs_by_hand(signs, expected):
    # (-1, 1): u = 4^-h = 1, 0.881589, mean 0.940795; u = 4^h = 1.726538, 2.918958, 4, mean 2.881832
    found = weigh(EAPO(positive=signs[0], negative=signs[1]), scored([2.0, -1.0], ENTROPIES))
    assert found.tolist() == near(expected)


def test_eapo_keeps_the_mean_of_a_response_and_bounds_its_weights():
    generator = torch.Generator().manual_seed(0)
    response_N = torch.arange(6).repeat_interleave(torch.tensor([1, 4, 30, 7, 2, 50]))
    step = scored(torch.randn(6, generator=generator), torch.rand(94, generator=generator) ** 3, response_N)
    for kappa in (math.log(4), math.log(16)):
        found = weigh(EAPO(kappa=kappa), step)
        for i, advantage in enumerate(step.advantages_B):
            mine = found[response_N == i]
            assert mine.mean().item() == near(advantage.item())
            assert (mine.abs().max() / mine.abs().min()).item() <= math.exp(kappa) * 1.00001
        assert (found[response_N == 2] / step.advantages_B[2]).std() > 0.1  # or it would be GRPO


def test_eapo_of_a_tied_group_is_zero():
    assert weigh(EAPO(), scored([0.0, 0.0], ENTROPIES)).tolist() == [0.0] * 5


def test_eapo_without_differences_in_entropy_is_grpo():
    assert weigh(EAPO(), scored([1.0, -1.0], [0.7] * 5)).tolist() == near([1, 1, -1, -1, -1])
    assert weigh(EAPO(), scored([1.0], [0.7], torch.tensor([0]))).tolist() == near([1.0])


def test_eapo_level_ends_at_the_quantiles():
    # of 0 1 ... 10: Q10 = 1, Q90 = 9
    level = entropy_level(torch.arange(11.0), lambda values, operation: values)
    assert level.tolist() == near([0, 0, 1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8, 6 / 8, 7 / 8, 1, 1])


def test_kappa_falls_to_0_over_its_decay():
    credit = EAPO(kappa=2.0, kappa_decay_steps=4)
    assert [credit.kappa_at(step) for step in (0, 1, 3, 4, 100)] == [2.0, 1.5, 0.5, 0.0, 0.0]
    assert EAPO(kappa=2.0).kappa_at(100) == 2.0
    late = weigh(credit, scored([1.0, -1.0], ENTROPIES, step=3))
    assert late.tolist() == near(weigh(EAPO(kappa=0.5), scored([1.0, -1.0], ENTROPIES)).tolist())


def test_the_largest_kappa_is_finite():
    found = weigh(EAPO(kappa=50.0), scored([1.0, -1.0], ENTROPIES))
    assert found.isfinite().all()
    assert found.abs().max() > 1.9  # all on one token of two


def test_entropy_bonus_by_hand():
    # A = 1: min(0.4 H, 0.5) = 0.16, 0.24; A = -1: min(0.4, 0.5), min(0.6, 0.5), min(0.8, 0.5)
    assert weigh(EntropyAdv(), scored([1.0, -1.0], ENTROPIES)).tolist() == near([1.16, 1.24, -0.6, -0.5, -0.5])


def test_entropy_bonus_never_turns_a_sign_and_leaves_ties_alone():
    step = scored([0.3, -0.01, 0.0], [50.0, 0.0, 50.0, 1e-3, 9.0], torch.tensor([0, 0, 1, 1, 2]))
    found = weigh(EntropyAdv(kappa=1.01), step)
    assert found.sign().tolist() == [1, 1, -1, -1, 0]


def test_top_entropy_by_hand():
    # the 80 % quantile at position 3.2 is 1.5 + 0.2 * 0.5 = 1.6; the median is 1.0, which is kept
    assert weigh(TopEntropy(), scored([1.0, -1.0], ENTROPIES)).tolist() == [0, 0, 0, 0, -1]
    assert weigh(TopEntropy(share=0.5), scored([1.0, -1.0], ENTROPIES)).tolist() == [0, 0, -1, -1, -1]
    assert weigh(TopEntropy(share=1.0), scored([1.0, -1.0], ENTROPIES)).tolist() == [1, 1, -1, -1, -1]


def test_top_entropy_keeps_equal_entropies_all():
    assert weigh(TopEntropy(), scored([1.0, -1.0], [0.7] * 5)).tolist() == [1, 1, -1, -1, -1]


def test_rl_zvp_by_hand():
    right = weigh(RLZVP(), scored([0.0, 0.0], ENTROPIES, rewards=[1.0, 1.0]))
    assert right.tolist() == near([0.04, 0.06, 0.1, 0.15, 0.2])
    wrong = weigh(RLZVP(), scored([0.0, 0.0], ENTROPIES, rewards=[0.0, 0.0]))
    assert wrong.tolist() == near([-0.02, 0.0, -0.1, -0.05, 0.0])  # -0.1 (0.6 - H), -0.1 (2 - H)
    mixed = weigh(RLZVP(), scored([1.0, -1.0], ENTROPIES))
    assert mixed.tolist() == [1, 1, -1, -1, -1]


def test_rl_zvp_goes_by_right_and_by_ties_and_not_by_the_sum_of_rewards():
    # a tied group of wrong responses that a format reward praises: max H - H = 0.2, 0 and 1, 0.5, 0
    wrong = weigh(RLZVP(), scored([0.0, 0.0], ENTROPIES, rewards=[1.0, 1.0], right=[False, False]))
    assert wrong.tolist() == near([-0.02, 0, -0.1, -0.05, 0])
    # in a group that is not tied a response at the mean has an advantage of 0, which stays
    at_mean = weigh(RLZVP(), scored([0.0, 0.0], ENTROPIES, right=[True, True], tied=[False, False]))
    assert at_mean.tolist() == [0.0] * 5


def test_rl_zvp_of_a_response_of_one_token():
    step = scored([0.0, 0.0], [0.8, 0.3], torch.arange(2), rewards=[0.0, 0.0])
    assert weigh(RLZVP(), step).tolist() == [0.0, 0.0]


def test_only_rl_zvp_wants_tied_groups():
    advantages_B = torch.tensor([0.0, -1.0])
    for credit in (EAPO(), EntropyAdv(), TopEntropy(), RLZVP(alpha=0.0)):
        assert credit.alive(advantages_B).tolist() == [False, True]
    assert RLZVP().alive(advantages_B).tolist() == [True, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EAPO(kappa=-1.0), "credit.kappa=-1.0: 0 to 50 expected"),
        (lambda: EAPO(positive=2), "credit.positive=2, credit.negative=-1: -1, 0 or 1 expected"),
        (lambda: EAPO(kappa_decay_steps=-1), "credit.kappa_decay_steps=-1: at least 0 expected"),
        (lambda: EntropyAdv(kappa=1.0), "credit.kappa=1.0: above 1 expected"),
        (lambda: EntropyAdv(alpha=math.nan), "credit.alpha=nan: at least 0 expected"),
        (lambda: TopEntropy(share=0.0), "credit.share=0.0: above 0 and at most 1 expected"),
        (lambda: RLZVP(alpha=-0.1), "credit.alpha=-0.1: at least 0 expected"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()

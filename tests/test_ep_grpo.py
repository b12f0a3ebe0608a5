"""EP-GRPO's three parts: numbers worked by hand."""

import math
from dataclasses import replace

import pytest
import torch

from edge_lightning.credit.ep_grpo import EPGRPO, progress_of
from edge_lightning.errors import UserError
from tests.credit_steps import scored, weigh

TWO_AND_TWO = torch.tensor([0, 0, 1, 1])


def step(advantages=(1.0, -1.0), *, drift=(0.3, 0.5, 0.2, 0.1), entropies=(1.0, 3.0, 2.0, 2.0), **more):
    """Two responses of two tokens; tau is 1/4, 1 and 1/2, 1."""
    reference = [-1.0] * 4
    logprobs = [r + d for r, d in zip(reference, drift)]
    return scored(list(advantages), list(entropies), TWO_AND_TWO, logprobs=logprobs, reference=reference, **more)


def near(values):
    return pytest.approx(values, abs=1e-5)


def test_the_gate_by_hand():
    # H = 1, 3: mean 2, sigma 1; sigmoid(5 * -1) = 0.0066929, sigmoid(5) = 0.9933071
    credit = EPGRPO(progress=False)
    found = weigh(credit, scored([1.0, -1.0], [1.0, 3.0], torch.arange(2)))
    assert found.tolist() == near([0.0066929, -0.9933071])
    # H = 1 3 2 2: mean 2, sigma sqrt(1/2); sigmoid(-+ 7.0710678), sigmoid(0)
    assert weigh(credit, step()).tolist() == near([0.0008485, 0.9991515, -0.5, -0.5])


def test_progress_is_the_share_of_the_entropy_used_up():
    found = progress_of(torch.tensor([1.0, 3.0, 2.0, 2.0, 0.0, 0.0]), torch.tensor([0, 0, 1, 1, 2, 2]))
    assert found.tolist() == near([0.25, 1.0, 0.5, 1.0, 1.0, 1.0])


def test_the_progress_signal_by_hand():
    # buckets of a tenth: tau 1/4 and 1/2 stand alone; in the last 0.5 and -0.1: mean 0.2, sigma 0.3, z = 1 and -1
    credit = EPGRPO(entropy_gate=False)
    assert weigh(credit, step()).tolist() == near([1.0, 1.2, -1.0, -1.2])
    # one bucket: 0.3, 0.5, -0.2, -0.1; mean 0.125, sigma sqrt(0.081875) = 0.286138
    one = weigh(EPGRPO(entropy_gate=False, buckets=1, eta=1.0), step())
    assert one.tolist() == near([1 + 0.611593, 1 + 1.310556, -1 - 1.135816, -1 - 0.786334])


def test_all_parts_together_are_the_sum_of_gate_and_signal():
    assert weigh(EPGRPO(), step()).tolist() == near([0.0008485, 0.9991515 + 0.2, -0.5, -0.5 - 0.2])


@pytest.mark.parametrize(("reward", "sign"), [(0.0, -1), (1.0, 1)])
def test_a_tied_group_is_anchored_at_its_reward(reward, sign):
    # drifts of the last bucket 0.5 and 0.1: mean 0.3, sigma 0.2; praised as they are, blamed the other way round
    tied = step((0.0, 0.0), rewards=[reward] * 2)
    assert weigh(EPGRPO(), tied).tolist() == near([0.0, 0.2 * sign, 0.0, -0.2 * sign])
    assert weigh(EPGRPO(zero_variance=False), tied).tolist() == [0.0] * 4
    assert weigh(EPGRPO(progress=False), tied).tolist() == [0.0] * 4


def test_a_tied_group_is_anchored_by_right_and_wrong_whatever_the_reward_pays_for():
    # wrong responses that a format reward praises; right ones that a length reward takes a point from
    wrong = step((0.0, 0.0), rewards=[1.0, 1.0], right=[False, False])
    assert weigh(EPGRPO(), wrong).tolist() == near([0.0, -0.2, 0.0, 0.2])
    right = step((0.0, 0.0), rewards=[0.0, 0.0], right=[True, True])
    assert weigh(EPGRPO(), right).tolist() == near([0.0, 0.2, 0.0, -0.2])


def test_a_response_at_the_mean_of_a_mixed_group_has_no_signal():
    mixed = step((0.0, 0.0), right=[True, True], tied=[False, False])
    assert weigh(EPGRPO(), mixed).tolist() == [0.0] * 4


def test_a_small_drift_is_a_signal():
    # the last bucket's drifts of 0.001 and 0.003: mean 0.002, sigma 0.001
    small = step((0.0, 0.0), rewards=[1.0, 1.0], drift=(0.0, 0.001, 0.0, 0.003))
    assert weigh(EPGRPO(), small).tolist() == pytest.approx([0.0, -0.2, 0.0, 0.2], abs=1e-3)


def test_nothing_has_drifted_yet_and_rounding_is_no_signal():
    assert weigh(EPGRPO(entropy_gate=False), step(drift=(0.0, 0.0, 0.0, 0.0))).tolist() == [1, 1, -1, -1]
    assert weigh(EPGRPO(entropy_gate=False), step(drift=(0.0, 3e-6, 0.0, -2e-6))).tolist() == [1, 1, -1, -1]


def test_equal_entropies_leave_the_gate_half_open():
    found = weigh(EPGRPO(progress=False), step(entropies=(0.7, 0.7, 0.7, 0.7)))
    assert found.tolist() == near([0.5, 0.5, -0.5, -0.5])


def test_z_scores_of_a_bucket_have_mean_0_and_the_gate_keeps_signs():
    generator = torch.Generator().manual_seed(0)
    response_N = torch.arange(8).repeat_interleave(40)
    made = scored(
        [1.0, -0.5, 0.2, -0.7] * 2, torch.rand(320, generator=generator), response_N, [0] * 4 + [1] * 4,
        logprobs=-torch.rand(320, generator=generator), reference=-torch.rand(320, generator=generator),
    )  # fmt: skip
    credit = EPGRPO()
    z = credit.progress(made)
    bucket = (progress_of(made.entropies_N, response_N) * 10).long().clamp(max=9) + 10 * made.group_B[response_N]
    for b in range(20):
        assert z[bucket == b].mean().item() == pytest.approx(0, abs=1e-5)
        assert z[bucket == b].std(correction=0).item() == pytest.approx(1, abs=1e-5)
    gated = weigh(EPGRPO(progress=False), made)
    assert (gated.sign() == made.advantages_B[response_N].sign()).all()
    assert (gated.abs() < made.advantages_B[response_N].abs()).all()


def test_who_is_alive():
    advantages_B = torch.tensor([0.0, -1.0])
    assert EPGRPO().alive(advantages_B).tolist() == [True, True]
    for less in ({"progress": False}, {"zero_variance": False}, {"eta": 0.0}):
        assert EPGRPO(**less).alive(advantages_B).tolist() == [False, True]


def test_only_the_progress_signal_needs_a_reference():
    assert EPGRPO().needs_reference
    assert not EPGRPO(progress=False).needs_reference
    with pytest.raises(ValueError, match="log-probabilities under a reference policy expected, None came"):
        EPGRPO().prepare(replace(step(), reference_logprobs_N=None))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buckets": 0}, "credit.buckets=0: at least 1 expected"),
        ({"gamma": -1.0}, "credit.gamma=-1.0, eta=0.2: both at least 0 expected"),
        ({"eta": math.nan}, "both at least 0 expected"),
    ],
)
def test_values_out_of_range_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        EPGRPO(**settings)

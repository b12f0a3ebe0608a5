"""The clipped surrogate and the supervised loss, worked by hand."""

import math

import pytest
import torch

from edge_lightning.errors import UserError
from edge_lightning.objective.base import StepTotals
from edge_lightning.objective.ppo_clip import PPOClip
from edge_lightning.objective.supervised import Supervised
from edge_lightning.packing import pack
from edge_lightning.tokens import Forward
from tests.by_hand import response

# two responses of the step's four: the first has 2 tokens, the second 3, of which the last two are injected
RESPONSES = [response((5, 6)), response((7, 8, 9), sampled_mask=(True, False, False))]
TOKENS = pack(RESPONSES, [0, 1])
TOTALS = StepTotals(responses=4, tokens=10)


def forward(logprobs):
    return Forward(torch.tensor(logprobs, requires_grad=True), torch.zeros(5), TOKENS.response_N)


def gradient(objective, advantages, *, old=None, logprobs=(-1.0, -1.0, -1.0, -1.0, -1.0)):
    passed = forward(list(logprobs))
    loss = objective(passed, torch.tensor(advantages), TOKENS, TOTALS, old_logprobs_N=old)
    loss.value.backward()
    return passed.logprobs_N.grad.tolist(), loss


def test_first_update_has_ratio_one_and_policy_gradient():
    # d/dlogp of -w rho A at rho = 1 is -w A; w = 1 / (4 * 2) for the first response, 1 / (4 * 3) for the second
    found, loss = gradient(PPOClip(), [2.0, 2.0, -1.0, -1.0, -1.0])
    assert found == pytest.approx([-0.25, -0.25, 1 / 12, 1 / 12, 1 / 12])
    assert loss.value.item() == pytest.approx(-(2.0 / 4 - 1.0 / 4))
    assert loss.ratio_N.tolist() == [1.0] * 5
    assert not loss.clipped_N.any()


def test_token_mean_divides_by_all_tokens_of_the_step():
    found, _ = gradient(PPOClip(aggregation="token_mean"), [1.0] * 5)
    assert found == pytest.approx([-0.1] * 5)


def test_ratio_beyond_the_bound_in_the_advantages_direction_has_no_gradient():
    old = torch.tensor([-1.0 - math.log(1.5), -1.0 - math.log(0.5), -1.0 - math.log(1.5), -1.0 - math.log(0.5), -1.0])
    found, loss = gradient(PPOClip(), [1.0, 1.0, -1.0, -1.0, 1.0], old=old)
    # rho = 1.5 with A > 0 and rho = 0.5 with A < 0 are clipped; the others keep gradient -w rho A
    assert found == pytest.approx([0.0, -0.5 / 8, 1.5 / 12, 0.0, -1 / 12], abs=1e-6)
    assert loss.clipped_N.tolist() == [True, False, False, True, False]
    surrogates = [1.2 / 8, 0.5 / 8, -1.5 / 12, -0.8 / 12, 1 / 12]
    assert loss.value.item() == pytest.approx(-sum(surrogates), abs=1e-6)


def test_masked_injected_tokens_have_no_gradient_but_stay_in_the_denominator():
    found, _ = gradient(PPOClip(injected_tokens="masked"), [1.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, -1 / 12, 0.0, 0.0])


def test_wrong_prefix_can_be_left_out_while_injected_tokens_are_trained():
    found, _ = gradient(PPOClip(train_wrong_prefix=False), [1.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, 0.0, -1 / 12, -1 / 12])


def test_supervised_is_the_mean_negative_log_likelihood():
    found, loss = gradient(Supervised(), [0.0] * 5, logprobs=(-1.0, -2.0, -3.0, -4.0, -5.0))
    assert loss.value.item() == pytest.approx(15 / 10)
    assert found == pytest.approx([-0.1] * 5)
    found, _ = gradient(Supervised(aggregation="response_mean"), [0.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, -1 / 12, -1 / 12, -1 / 12])


def test_the_two_bounds_are_their_own():
    old = torch.tensor([-1.0 - math.log(1.25), -1.0 - math.log(0.75), -1.0, -1.0, -1.0])
    _, loss = gradient(PPOClip(clip_low=0.3, clip_high=0.2), [1.0, -1.0, 0.0, 0.0, 0.0], old=old)
    assert loss.clipped_N.tolist() == [True, False, False, False, False]  # 1.25 > 1.2, and 0.75 > 0.7
    assert loss.value.item() == pytest.approx(-(1.2 - 0.75) / 8, abs=1e-6)


def test_a_wrong_prefix_is_found_in_a_micro_batch_that_begins_later():
    tokens = pack([RESPONSES[0], RESPONSES[0], RESPONSES[1]], [2])
    passed = Forward(torch.full((3,), -1.0, requires_grad=True), torch.zeros(3), tokens.response_N)
    PPOClip(train_wrong_prefix=False)(passed, torch.ones(3), tokens, TOTALS).value.backward()
    assert passed.logprobs_N.grad.tolist() == pytest.approx([0.0, -1 / 12, -1 / 12])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"injected_tokens": "dropped"}, "as_sampled, masked expected"),
        ({"aggregation": "sum"}, "response_mean or token_mean expected"),
        ({"clip_low": 1.0}, "0 <= low < 1"),
    ],
)
def test_unknown_settings_are_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        PPOClip(**wrong)

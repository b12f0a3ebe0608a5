"""The clipped surrogate, the treatments of injected tokens and the supervised loss, worked by hand."""

import math
from itertools import product

import pytest
import torch

from edge_lightning.errors import UserError
from edge_lightning.objective.base import StepTotals
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.objective.supervised import Supervised
from edge_lightning.objective.surrogates import TokenClip
from edge_lightning.packing import pack
from edge_lightning.tokens import Forward
from edge_lightning.types import Provenance
from tests.by_hand import response

# two responses of the step's four: the first has 2 tokens, the second 3, of which the last two are injected
SAMPLED = response((5, 6))
ANSWERED = response((7, 8, 9), sampled_mask=(True, False, False), provenance=Provenance.ANSWER_INJECTED)
REFLECTED = response((7, 8, 9), sampled_mask=(True, False, True), provenance=Provenance.REFLECTED)
REFERENCE = response((7, 8, 9), sampled_mask=(False, False, False), provenance=Provenance.REFERENCE)
RESPONSES = [SAMPLED, ANSWERED]
TOKENS = pack(RESPONSES, [0, 1])
TOTALS = StepTotals(responses=4, tokens=10)


def forward(logprobs):
    return Forward(torch.tensor(logprobs, requires_grad=True), torch.zeros(5), TOKENS.response_N, TOKENS.place_N)


def gradient(objective, advantages, *, old=None, logprobs=(-1.0, -1.0, -1.0, -1.0, -1.0)):
    passed = forward(list(logprobs))
    loss = objective(passed, torch.tensor(advantages), TOKENS, TOTALS, old_logprobs_N=old)
    loss.value.backward()
    return passed.logprobs_N.grad.tolist(), loss


def test_first_update_has_ratio_one_and_policy_gradient():
    # d/dlogp of -w rho A at rho = 1 is -w A; w = 1 / (4 * 2) for the first response, 1 / (4 * 3) for the second
    found, loss = gradient(PolicyGradient(), [2.0, 2.0, -1.0, -1.0, -1.0])
    assert found == pytest.approx([-0.25, -0.25, 1 / 12, 1 / 12, 1 / 12])
    assert loss.value.item() == pytest.approx(-(2.0 / 4 - 1.0 / 4))
    assert loss.ratio_N.tolist() == [1.0] * 5
    assert not loss.clipped_N.any()


def test_token_mean_divides_by_all_tokens_of_the_step():
    found, _ = gradient(PolicyGradient(aggregation="token_mean"), [1.0] * 5)
    assert found == pytest.approx([-0.1] * 5)


def test_ratio_beyond_the_bound_in_the_advantages_direction_has_no_gradient():
    old = torch.tensor([-1.0 - math.log(1.5), -1.0 - math.log(0.5), -1.0 - math.log(1.5), -1.0 - math.log(0.5), -1.0])
    found, loss = gradient(PolicyGradient(), [1.0, 1.0, -1.0, -1.0, 1.0], old=old)
    # rho = 1.5 with A > 0 and rho = 0.5 with A < 0 are clipped; the others keep gradient -w rho A
    assert found == pytest.approx([0.0, -0.5 / 8, 1.5 / 12, 0.0, -1 / 12], abs=1e-6)
    assert loss.clipped_N.tolist() == [True, False, False, True, False]
    surrogates = [1.2 / 8, 0.5 / 8, -1.5 / 12, -0.8 / 12, 1 / 12]
    assert loss.value.item() == pytest.approx(-sum(surrogates), abs=1e-6)


def test_masked_injected_tokens_have_no_gradient_but_stay_in_the_denominator():
    found, _ = gradient(PolicyGradient(injected_tokens="masked"), [1.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, -1 / 12, 0.0, 0.0])


def test_wrong_prefix_can_be_left_out_while_injected_tokens_are_trained():
    found, _ = gradient(PolicyGradient(train_wrong_prefix=False), [1.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, 0.0, -1 / 12, -1 / 12])


def test_supervised_injected_tokens_are_imitated_whatever_the_advantage():
    # w = 1/12; the sampled token of the second response keeps -w A = 1/12, the injected two have -w 2
    objective = PolicyGradient(injected_tokens="supervised", supervised_weight=2.0)
    found, loss = gradient(objective, [1.0, 1.0, -1.0, -1.0, -1.0], logprobs=(-1.0, -1.0, -1.0, -2.0, -3.0))
    assert found == pytest.approx([-1 / 8, -1 / 8, 1 / 12, -2 / 12, -2 / 12])
    assert loss.terms_N.tolist() == pytest.approx([-1 / 8, -1 / 8, 1 / 12, 4 / 12, 6 / 12])
    found, _ = gradient(objective, [0.0] * 5)
    assert found == pytest.approx([0.0, 0.0, 0.0, -2 / 12, -2 / 12])


def test_supervised_injected_tokens_know_no_ratio_and_no_clip():
    # rho would be 1.5 and 0.5, both clipped for these advantages
    old = torch.tensor([-1.0, -1.0, -1.0, -1.0 - math.log(1.5), -1.0 - math.log(0.5)])
    found, loss = gradient(PolicyGradient(injected_tokens="supervised"), [0.0, 0.0, 0.0, 1.0, -1.0], old=old)
    assert found == pytest.approx([0.0, 0.0, 0.0, -1 / 12, -1 / 12])
    assert loss.ratio_N[:3].tolist() == [1.0] * 3
    assert loss.ratio_N[3:].isnan().all()
    assert loss.clipped_N[:3].tolist() == [0.0] * 3
    assert loss.clipped_N[3:].isnan().all()


def test_shaped_injected_tokens_have_the_gradient_of_p_over_p_plus_gamma():
    # p = .3 and .1, gamma = .1: f = .75 and .5, df/dlogp = gamma p / (p + gamma)^2 = .03/.16 = .1875 and .01/.04 = .25
    logprobs = (-1.0, -1.0, -1.0, math.log(0.3), math.log(0.1))
    found, loss = gradient(PolicyGradient(injected_tokens="shaped"), [1.0, 1.0, 2.0, 2.0, -1.0], logprobs=logprobs)
    assert loss.terms_N.tolist() == pytest.approx([-1 / 8, -1 / 8, -2 / 12, -1.5 / 12, 0.5 / 12])
    assert found == pytest.approx([-1 / 8, -1 / 8, -2 / 12, -0.375 / 12, 0.25 / 12])
    assert loss.ratio_N[:3].tolist() == [1.0] * 3
    assert loss.ratio_N[3:].isnan().all()


def test_shaping_does_not_look_at_the_policy_that_sampled():
    old = torch.tensor([-1.0, -1.0, -1.0, -9.0, -9.0])
    objective = PolicyGradient(injected_tokens="shaped", shaping_gamma=0.2)
    first, _ = gradient(objective, [1.0] * 5)
    later, _ = gradient(objective, [1.0] * 5, old=old)
    assert later == first
    p = math.exp(-1.0)
    assert first[3] == pytest.approx(-0.2 * p / (p + 0.2) ** 2 / 12)


def test_responses_that_correction_changed_can_have_no_gradient_but_stay_in_the_denominators():
    found, _ = gradient(PolicyGradient(train_corrected=False), [1.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, 0.0, 0.0, 0.0])
    found, _ = gradient(PolicyGradient(train_corrected=False, aggregation="token_mean"), [1.0] * 5)
    assert found == pytest.approx([-0.1, -0.1, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("options", "wanted", "wanted_without_advantage"),  # of SAMPLED, ANSWERED, REFLECTED, REFERENCE
    [
        ({}, "1111", "0000"),
        ({"injected_tokens": "shaped"}, "1111", "0000"),
        ({"injected_tokens": "masked"}, "1110", "0000"),
        ({"injected_tokens": "masked", "train_wrong_prefix": False}, "1010", "0000"),
        ({"injected_tokens": "supervised"}, "1111", "0111"),
        ({"train_corrected": False}, "1000", "0000"),
        ({"train_corrected": False, "injected_tokens": "supervised"}, "1000", "0000"),
        ({"kl_coefficient": 0.1}, "1111", "1111"),
        ({"kl_coefficient": 0.1, "injected_tokens": "masked"}, "1110", "1110"),
        ({"kl_coefficient": 0.1, "train_corrected": False}, "1000", "1000"),
    ],
)
def test_what_is_wanted(options, wanted, wanted_without_advantage):
    objective = PolicyGradient(**options)
    four = [SAMPLED, ANSWERED, REFLECTED, REFERENCE]
    assert "".join(str(int(objective.wants(r, True))) for r in four) == wanted
    assert "".join(str(int(objective.wants(r, False))) for r in four) == wanted_without_advantage


@pytest.mark.parametrize("injected", ["as_sampled", "masked", "supervised", "shaped"])
def test_what_is_wanted_is_what_has_a_gradient(injected):
    """A response that is left out of the forward pass would have added nothing, and one that is not adds something."""
    switches = product((True, False), (True, False), (0.0, 0.1), (1.0, 0.0), (SAMPLED, ANSWERED, REFLECTED, REFERENCE))
    for wrong_prefix, corrected, beta, advantage, one in switches:
        objective = PolicyGradient(
            injected_tokens=injected, train_wrong_prefix=wrong_prefix, train_corrected=corrected, kl_coefficient=beta
        )
        tokens = pack([one], [0])
        n = len(one.completion_ids)
        passed = Forward(torch.full((n,), -1.0, requires_grad=True), torch.zeros(n), tokens.response_N, tokens.place_N)
        reference = torch.full((n,), -2.0)
        objective(passed, torch.full((n,), advantage), tokens, TOTALS, reference_logprobs_N=reference).value.backward()
        assert bool((passed.logprobs_N.grad != 0).any()) == objective.wants(one, advantage != 0)


def test_supervised_is_the_mean_negative_log_likelihood():
    found, loss = gradient(Supervised(), [0.0] * 5, logprobs=(-1.0, -2.0, -3.0, -4.0, -5.0))
    assert loss.value.item() == pytest.approx(15 / 10)
    assert found == pytest.approx([-0.1] * 5)
    found, _ = gradient(Supervised(aggregation="response_mean"), [0.0] * 5)
    assert found == pytest.approx([-1 / 8, -1 / 8, -1 / 12, -1 / 12, -1 / 12])


def test_the_two_bounds_are_their_own():
    old = torch.tensor([-1.0 - math.log(1.25), -1.0 - math.log(0.75), -1.0, -1.0, -1.0])
    _, loss = gradient(PolicyGradient(surrogate=TokenClip(clip_low=0.3, clip_high=0.2)), [1.0, -1.0, 0.0, 0.0, 0.0], old=old)
    assert loss.clipped_N.tolist() == [True, False, False, False, False]  # 1.25 > 1.2, and 0.75 > 0.7
    assert loss.value.item() == pytest.approx(-(1.2 - 0.75) / 8, abs=1e-6)


def test_a_wrong_prefix_is_found_in_a_micro_batch_that_begins_later():
    tokens = pack([RESPONSES[0], RESPONSES[0], RESPONSES[1]], [2])
    passed = Forward(torch.full((3,), -1.0, requires_grad=True), torch.zeros(3), tokens.response_N, tokens.place_N)
    PolicyGradient(train_wrong_prefix=False)(passed, torch.ones(3), tokens, TOTALS).value.backward()
    assert passed.logprobs_N.grad.tolist() == pytest.approx([0.0, -1 / 12, -1 / 12])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"injected_tokens": "dropped"}, "as_sampled, masked, supervised, shaped expected"),
        ({"aggregation": "sum"}, "one of response_mean, token_mean, group_token_mean, token_sum expected"),
        ({"supervised_weight": 0.0}, "set objective.injected_tokens=masked for no gradient"),
        ({"supervised_weight": math.nan}, "supervised_weight=nan: above 0 expected"),
        ({"shaping_gamma": 0.0}, "above 0 expected, 0.1 is usual"),
        ({"kl_coefficient": -0.1}, "at least 0 expected"),
    ],
)
def test_unknown_settings_are_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        PolicyGradient(**wrong)


def test_tokens_without_gradient_have_no_ratio_and_no_clip():
    options = ({"injected_tokens": "masked"}, {"train_wrong_prefix": False}, {"train_corrected": False})
    for option, known in zip(options, ([1, 1, 1, 0, 0], [1, 1, 0, 1, 1], [1, 1, 0, 0, 0])):
        _, loss = gradient(PolicyGradient(**option), [1.0] * 5)
        for values_N in (loss.ratio_N, loss.clipped_N):
            assert (~values_N.isnan()).int().tolist() == known

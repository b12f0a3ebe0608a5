"""The divergence from a reference policy and its term in the loss, worked by hand."""

import math

import pytest
import torch

from edge_lightning.objective.base import StepTotals
from edge_lightning.objective.kl import kl_divergence
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.packing import pack
from edge_lightning.tokens import Forward
from edge_lightning.types import Provenance
from tests.by_hand import response

# two responses of the step's four: the first has 2 tokens, the second 3, of which the middle one is injected
REFLECTED = response((7, 8, 9), sampled_mask=(True, False, True), provenance=Provenance.REFLECTED)
TOKENS = pack([response((5, 6)), REFLECTED], [0, 1])
TOTALS = StepTotals(responses=4, tokens=10)
HALF_OF = math.log(2)  # p_ref = p / 2: KL = 1/2 + ln 2 - 1 = .1931472, slope 1 - 1/2
TWICE = -math.log(2)  # p_ref = 2 p:   KL = 2 - ln 2 - 1 = .3068528, slope 1 - 2


def gradient(objective, advantages, below):
    """d loss / d log p of each token, and the loss; `below`: log p - log p_ref."""
    logprobs = torch.full((5,), -1.0, requires_grad=True)
    passed = Forward(logprobs, torch.zeros(5), TOKENS.response_N, TOKENS.place_N)
    reference = logprobs.detach() - torch.tensor(below)
    loss = objective(passed, torch.tensor(advantages), TOKENS, TOTALS, reference_logprobs_N=reference)
    loss.value.backward()
    return logprobs.grad.tolist(), loss


@pytest.mark.parametrize(
    ("p", "reference", "value", "slope"),
    [(0.5, 0.25, 0.1931472, 0.5), (0.25, 0.5, 0.3068528, -1.0), (0.3, 0.3, 0.0, 0.0)],
)
def test_estimate_and_its_slope(p, reference, value, slope):
    logprob = torch.tensor([math.log(p)], requires_grad=True)
    found = kl_divergence(logprob, torch.tensor([math.log(reference)]))
    assert found.item() == pytest.approx(value, abs=1e-6)
    found.sum().backward()
    assert logprob.grad.item() == pytest.approx(slope, abs=1e-6)


def test_mean_over_what_the_policy_samples_is_the_divergence():
    # sum p (p_ref/p - log(p_ref/p) - 1) = 1 - 1 + sum p log(p/p_ref)
    p, reference = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    estimate = (p * kl_divergence(p.log(), reference.log())).sum()
    exact = 0.7 * math.log(7 / 3) + 0.2 * math.log(2 / 3) + 0.1 * math.log(1 / 4)
    assert estimate.item() == pytest.approx(exact, abs=1e-6)


def test_term_is_the_coefficient_times_the_mean_divergence():
    # response means: (.1931472 + .3068528) / 2 = .25 and .1931472, over four responses; all advantages 0
    found, loss = gradient(PolicyGradient(kl_coefficient=0.1), [0.0] * 5, [HALF_OF, TWICE, HALF_OF, HALF_OF, HALF_OF])
    assert loss.value.item() == pytest.approx(0.1 * (0.25 + 0.1931472) / 4, abs=1e-6)
    slope = 0.1 * 0.5 / 12
    assert found == pytest.approx([0.1 * 0.5 / 8, 0.1 * -1.0 / 8, slope, slope, slope], abs=1e-6)
    assert loss.kl_N.tolist() == pytest.approx([0.1931472, 0.3068528, 0.1931472, 0.1931472, 0.1931472], abs=1e-6)
    assert not loss.kl_N.requires_grad


def test_term_pulls_back_to_the_reference():
    """The policy says the first token twice as often as the reference, the second half as often."""
    found, _ = gradient(PolicyGradient(kl_coefficient=0.1), [0.0] * 5, [HALF_OF, TWICE, 0.0, 0.0, 0.0])
    assert found[0] > 0 > found[1]  # a step against the gradient makes the first rarer, the second more frequent
    assert found[2:] == pytest.approx([0.0] * 3, abs=1e-6)


def test_term_is_added_to_the_surrogate():
    below = [HALF_OF, TWICE, HALF_OF, TWICE, 0.0]
    advantages = [1.0, -1.0, 2.0, 1.0, -1.0]
    both, loss = gradient(PolicyGradient(kl_coefficient=0.1), advantages, below)
    surrogate, without = gradient(PolicyGradient(), advantages, below)
    divergence, term = gradient(PolicyGradient(kl_coefficient=0.1), [0.0] * 5, below)
    assert both == pytest.approx([a + b for a, b in zip(surrogate, divergence)])
    assert loss.value.item() == pytest.approx(without.value.item() + term.value.item())
    assert without.kl_N is None


def test_token_mean_divides_the_term_by_all_tokens_of_the_step():
    found, loss = gradient(PolicyGradient(kl_coefficient=0.1, aggregation="token_mean"), [0.0] * 5, [HALF_OF] * 5)
    assert loss.value.item() == pytest.approx(0.1 * 5 * 0.1931472 / 10, abs=1e-6)
    assert found == pytest.approx([0.1 * 0.5 / 10] * 5, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "trained"),
    [
        ({"injected_tokens": "masked"}, [1, 1, 1, 0, 1]),
        ({"train_wrong_prefix": False}, [1, 1, 0, 1, 1]),
        ({"train_corrected": False}, [1, 1, 0, 0, 0]),
        ({"injected_tokens": "shaped"}, [1, 1, 1, 1, 1]),
    ],
)
def test_tokens_that_are_not_trained_on_have_no_term_but_stay_in_the_denominators(options, trained):
    found, loss = gradient(PolicyGradient(kl_coefficient=0.1, **options), [0.0] * 5, [HALF_OF] * 5)
    assert (~loss.kl_N.isnan()).int().tolist() == trained
    slopes = [0.05 / 8, 0.05 / 8, 0.05 / 12, 0.05 / 12, 0.05 / 12]
    assert found == pytest.approx([s * t for s, t in zip(slopes, trained)], abs=1e-6)


def test_supervised_tokens_have_a_term_too():
    found, _ = gradient(PolicyGradient(kl_coefficient=0.1, injected_tokens="supervised"), [0.0] * 5, [HALF_OF] * 5)
    assert found[3] == pytest.approx((-1 + 0.05) / 12, abs=1e-6)


def test_only_a_coefficient_above_zero_needs_a_reference():
    assert not PolicyGradient().needs_reference
    assert PolicyGradient(kl_coefficient=0.001).needs_reference

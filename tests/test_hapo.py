"""HAPO: numbers worked by hand."""

import math

import pytest
import torch

from edge_lightning.cli.checks import check_clip_scaling
from edge_lightning.credit.eapo import EAPO
from edge_lightning.credit.hapo import HAPO
from edge_lightning.errors import UserError
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.objective.supervised import Supervised
from edge_lightning.objective.surrogates import CappedWeight, TokenClip
from tests.credit_steps import scored, weigh
from tests.test_surrogates import RESPONSE_N

ENTROPIES = [0.4, 0.6, 1.0, 1.5, 2.0]
# log H = -0.91629 -0.51083 0 0.40547 0.69315; Q80 at position 3.2 is 0.46300; distances to both ends 1.37929 and 0.23015
LEVELS = [-1.0, -0.70603, -0.33568, -0.04172, 1.0]


def near(values):
    return pytest.approx(values, abs=1e-5)


def moved(*ratios):
    """Log-probabilities at these ratios to those that were scored, which are 0."""
    return torch.tensor(ratios).log()


def test_levels_by_hand():
    level, above = HAPO().level(torch.tensor(ENTROPIES))
    assert level.tolist() == near(LEVELS)
    assert above.tolist() == [False] * 4 + [True]


def test_a_certain_token_counts_as_the_least_entropy_that_counts():
    level, _ = HAPO(tiny=0.01).level(torch.tensor([0.0, 0.01, 0.5, 1.0, 2.0]))
    assert level[:2].tolist() == near([-1.0, -1.0])


def test_equal_entropies_have_the_level_0():
    assert HAPO().level(torch.full((5,), 0.7))[0].tolist() == near([0.0] * 5)


def test_at_the_first_update_uncertain_tokens_keep_their_advantage():
    # 1 + h for the first four, all inside; the last is above the quantile
    found = weigh(HAPO(), scored([1.0, -1.0], ENTROPIES))
    assert found.tolist() == near([0.0, 0.29397, -0.66432, -0.95828, -1.0])


def test_tokens_that_have_moved_by_hand():
    # certain tokens outside (0.9, 1.1) get A, uncertain ones A (1 + h)
    found = weigh(HAPO(), scored([1.0, -1.0], ENTROPIES), logprobs_N=moved(1.2, 1.05, 0.8, 1.0, 1.2))
    assert found.tolist() == near([1.0, 0.29397, -1.0, -0.95828, -2.0])


def test_bounds_by_hand():
    constants = HAPO().prepare(scored([1.0, -1.0], ENTROPIES))
    assert constants.clip_low_factor_N.tolist() == near([2.0, 1.70603, 1.33568, 1.04172, 1.0])
    assert constants.clip_high_factor_N.tolist() == near([1.0, 1.0, 1.0, 1.0, 2.0])


def test_the_sign_slip_turns_the_certain_tokens():
    credit, step = HAPO(sign_slip=True), scored([1.0, -1.0], ENTROPIES)
    assert weigh(credit, step).tolist() == near([2.0, 1.70603, -1.33568, -1.04172, -1.0])
    assert credit.prepare(step).clip_low_factor_N.tolist() == near([0.0, 0.29397, 0.66432, 0.95828, 1.0])


def test_factors_move_the_bounds_of_the_clip():
    # 1 + 0.2 * 2 = 1.4 for the first two, 1 - 0.2 * 1.5 = 0.7 for the others
    factors = torch.tensor([1.0, 1.0, 1.5, 1.5, 1.5]), torch.tensor([2.0, 2.0, 1.0, 1.0, 1.0])
    ratios, advantages = torch.tensor([1.35, 1.5, 0.75, 0.6, 1.25]), torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0])
    found = TokenClip()(ratios.log(), torch.zeros(5), advantages, RESPONSE_N, factors)
    assert found.gain_N.tolist() == near([1.35, 1.4, -0.75, -0.7, 1.2])
    assert found.clipped_N.tolist() == [0, 1, 0, 1, 1]


def test_what_has_no_bounds_can_t_be_scaled():
    check_clip_scaling(HAPO(), PolicyGradient())
    check_clip_scaling(EAPO(), PolicyGradient(surrogate=CappedWeight()))
    for objective in (PolicyGradient(surrogate=CappedWeight()), Supervised()):
        with pytest.raises(UserError, match="HAPO scales the bounds of a clip by tokens, which this objective has none of"):
            check_clip_scaling(HAPO(), objective)


@pytest.mark.parametrize("settings", [{"margin": 0.0}, {"tiny": 0.0}, {"margin": math.nan}])
def test_values_out_of_range_are_refused(settings):
    with pytest.raises(UserError, match="both above 0 and below 1 expected"):
        HAPO(**settings)

"""HAPO: numbers worked by hand."""

import math

import pytest
import torch

from edge_lightning.credit.hapo import HAPO
from edge_lightning.errors import UserError
from edge_lightning.objective.surrogates import TokenClip
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
    assert HAPO().level(torch.tensor(ENTROPIES)).tolist() == near(LEVELS)


def test_a_certain_token_counts_as_the_least_entropy_that_counts():
    level = HAPO(tiny=0.01).level(torch.tensor([0.0, 0.01, 0.5, 1.0, 2.0]))
    assert level[:2].tolist() == near([-1.0, -1.0])


def test_equal_entropies_have_the_level_0():
    assert HAPO().level(torch.full((5,), 0.7)).tolist() == near([0.0] * 5)


def test_at_the_first_update_uncertain_tokens_keep_their_advantage():
    # 1 + h for the first four, all inside; the last is above the quantile
    found = weigh(HAPO(), scored([1.0, -1.0], ENTROPIES))
    assert found.tolist() == near([0.0, 0.29397, -0.66432, -0.95828, -1.0])


def test_tokens_that_have_moved_by_hand():
    # zones: certain tokens (1 - .1 (1 - h), 1.1), so .8, .82940, .86643, .89583; the uncertain one (.9, 1.2)
    # certain tokens outside get A, uncertain ones A (1 + h)
    found = weigh(HAPO(), scored([1.0, -1.0], ENTROPIES), logprobs_N=moved(1.2, 1.05, 0.8, 1.0, 1.25))
    assert found.tolist() == near([1.0, 0.29397, -1.0, -0.95828, -2.0])


def test_the_zone_goes_half_way_to_the_bounds_of_each_token():
    inside = weigh(HAPO(), scored([1.0, -1.0], ENTROPIES), logprobs_N=moved(0.81, 0.84, 0.88, 0.90, 1.19))
    assert inside.tolist() == near([0.0, 0.29397, -0.66432, -0.95828, -1.0])
    outside = weigh(HAPO(), scored([1.0, -1.0], ENTROPIES), logprobs_N=moved(0.79, 0.82, 0.86, 0.89, 1.21))
    assert outside.tolist() == near([1.0, 1.0, -1.0, -1.0, -2.0])


def test_bounds_by_hand():
    constants = HAPO().prepare(scored([1.0, -1.0], ENTROPIES))
    assert constants.clip_low_factor_N.tolist() == near([2.0, 1.70603, 1.33568, 1.04172, 1.0])
    assert constants.clip_high_factor_N.tolist() == near([1.0, 1.0, 1.0, 1.0, 2.0])


def test_the_sign_slip_makes_certain_tokens_uncertain_ones():
    # h = 1, .70603, .33568, .04172, 1: all above 0, so all stay as they are inside and have upper bounds alone
    credit, step = HAPO(sign_slip=True), scored([1.0, -1.0], ENTROPIES)
    assert weigh(credit, step).tolist() == near([1.0, 1.0, -1.0, -1.0, -1.0])
    constants = credit.prepare(step)
    assert constants.clip_low_factor_N.tolist() == near([1.0] * 5)
    assert constants.clip_high_factor_N.tolist() == near([2.0, 1.70603, 1.33568, 1.04172, 2.0])
    outside = weigh(credit, step, logprobs_N=moved(1.21, 1.18, 1.14, 1.11, 1.21))
    assert outside.tolist() == near([2.0, 1.70603, -1.33568, -1.04172, -2.0])


def test_factors_move_the_bounds_of_the_clip():
    # 1 + 0.2 * 2 = 1.4 for the first two, 1 - 0.2 * 1.5 = 0.7 for the others
    factors = torch.tensor([1.0, 1.0, 1.5, 1.5, 1.5]), torch.tensor([2.0, 2.0, 1.0, 1.0, 1.0])
    ratios, advantages = torch.tensor([1.35, 1.5, 0.75, 0.6, 1.25]), torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0])
    found = TokenClip()(ratios.log(), torch.zeros(5), advantages, RESPONSE_N, factors)
    assert found.gain_N.tolist() == near([1.35, 1.4, -0.75, -0.7, 1.2])
    assert found.clipped_N.tolist() == [0, 1, 0, 1, 1]


@pytest.mark.parametrize("settings", [{"margin": 0.0}, {"tiny": 0.0}, {"margin": math.nan}])
def test_values_out_of_range_are_refused(settings):
    with pytest.raises(UserError, match="both above 0 and below 1 expected"):
        HAPO(**settings)

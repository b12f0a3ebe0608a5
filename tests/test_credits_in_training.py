"""Every credit through the module: how a step is cut up, scored and thinned out changes no gradient and no advantage."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.cli.checks import check_credit
from edge_lightning.credit.eapo import EAPO
from edge_lightning.credit.ep_grpo import EPGRPO
from edge_lightning.credit.hapo import HAPO
from edge_lightning.credit.none import NoCredit
from edge_lightning.credit.rl_zvp import RLZVP
from edge_lightning.errors import UserError
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.objective.supervised import Supervised
from edge_lightning.objective.surrogates import CappedWeight
from edge_lightning.policy import Policy
from tests.engine_fixtures import perturb
from tests.test_credit_layout import CREDITS
from tests.test_module import relative, rollout
from tests.test_updates import Counted, flat

MIXED = (1, 0, 0, 0, 1, 0)
HALF_TIED = (1, 0, 0, 0, 0, 0)


@pytest.fixture(params=[*CREDITS, HAPO(sign_slip=True)], ids=lambda credit: type(credit).__name__)
def credit(request):
    return request.param


class Slow(Counted):
    lr = 2e-3


def trained(asset, credit, rights, module_class=Counted, **settings):
    """How the weights moved in a step, and the module; the policy has drifted from its reference."""
    policy = Policy.load(asset)
    module = module_class(policy, credit=credit, **settings)
    perturb(policy, scale=0.01)
    start = flat(policy)
    module.training_step(rollout(rights), 0)
    return flat(policy) - start, module


@pytest.mark.parametrize("rights", [MIXED, HALF_TIED])
@pytest.mark.parametrize("updates", [1, 2])
def test_micro_batches_and_scoring_passes_change_no_gradient(asset, credit, rights, updates):
    settings = {"updates_per_rollout": updates}
    whole, module = trained(asset, credit, rights, **settings, leave_out_zero_advantage=False)
    cut, other = trained(asset, credit, rights, **settings, micro_batch_tokens=1, entropy_every_n_steps=None)
    assert whole.norm() > 1e-3
    assert relative(cut, whole) < 1e-3  # of float32 weights that moved by a hundredth
    alive_N = module.update.token_advantages_N != 0
    torch.testing.assert_close(
        other.update.token_advantages_N[alive_N], module.update.token_advantages_N[alive_N], rtol=1e-3, atol=1e-4
    )


def test_mini_batches_have_the_advantages_of_the_whole_rollout(asset, credit):
    _, whole = trained(asset, credit, MIXED)
    _, parts = trained(asset, credit, MIXED, updates_per_rollout=2, mini_batches=2, entropy_every_n_steps=None)
    compared_N = torch.ones_like(whole.update.response_N, dtype=torch.bool)
    if isinstance(credit, HAPO):  # it looks at the ratio, which has moved when the second part is trained
        compared_N = whole.update.response_N < 3
    torch.testing.assert_close(
        parts.update.token_advantages_N[compared_N], whole.update.token_advantages_N[compared_N], rtol=1e-3, atol=1e-4
    )


def test_a_step_without_signal_moves_nothing_unless_the_credit_learns_from_ties(asset, credit):
    moved, module = trained(asset, credit, (0, 0, 0, 0, 0, 0), entropy_every_n_steps=None)
    alive = bool(credit.alive(torch.zeros(1)))
    assert (moved.norm() > 1e-3) if alive else (moved == 0).all()
    assert module.update.trained_responses == (6 if alive else 1)


def test_clip_factors_reach_the_tokens_that_they_belong_to(asset):
    """The second update's clip, token by token, in rows of other orders than the step's."""
    _, module = trained(asset, HAPO(), MIXED, Slow, updates_per_rollout=2, micro_batch_tokens=1)
    update, constants = module.update, module.update.constants
    ratio_N, advantage_N = update.ratio_N, update.token_advantages_N
    high_N = 1 + 0.2 * constants.clip_high_factor_N
    low_N = 1 - 0.2 * constants.clip_low_factor_N
    expected_N = ((advantage_N > 0) & (ratio_N > high_N)) | ((advantage_N < 0) & (ratio_N < low_N))
    assert expected_N.any()
    assert (update.clipped_N == expected_N.float()).all()
    swapped_N = ((advantage_N > 0) & (ratio_N > 1 + 0.2 * constants.clip_low_factor_N)) | (
        (advantage_N < 0) & (ratio_N < 1 - 0.2 * constants.clip_high_factor_N)
    )
    assert (swapped_N != expected_N).any()  # so that swapped factors would be seen


def test_right_is_the_grade_and_not_the_sum_of_rewards(asset):
    """Wrong responses of a tied group are blamed, also where their format has a reward of 1."""
    found = []
    for reward in (0.0, 1.0):
        policy = Policy.load(asset)
        module = Counted(policy, credit=EPGRPO(entropy_gate=False))
        perturb(policy, scale=0.01)
        step = rollout((0, 0, 0, 0, 0, 0))
        step.responses = [replace(r, grade=replace(r.grade, reward=reward)) for r in step.responses]
        module.training_step(step, 0)
        found.append(module.update.token_advantages_N)
    assert found[0].abs().max() > 0.1
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize(
    ("credit", "objective", "refill_rounds", "message"),
    [
        (HAPO(), PolicyGradient(), 3, None),
        (EAPO(), PolicyGradient(surrogate=CappedWeight()), 3, None),
        (NoCredit(), Supervised(), 0, None),
        (EPGRPO(zero_variance=False), PolicyGradient(), 3, None),
        (HAPO(), PolicyGradient(surrogate=CappedWeight()), 0, "HAPO scales the bounds of a clip by tokens, which this"),
        (EPGRPO(), Supervised(), 0, "Supervised weighs no response, so EPGRPO would do nothing; set credit=none"),
        (EPGRPO(), PolicyGradient(), 3, "refill_rounds=3: EPGRPO learns from groups that are all right or all wrong"),
        (RLZVP(), PolicyGradient(), 1, "refill_rounds=1: RLZVP learns from groups"),
    ],
)
def test_pairs_that_undo_each_other_are_refused(credit, objective, refill_rounds, message):
    if message is None:
        check_credit(credit, objective, refill_rounds)
    else:
        with pytest.raises(UserError, match=message):
            check_credit(credit, objective, refill_rounds)

"""Which responses get a scoring pass of their own, and that leaving it out changes nothing."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from edge_lightning.credit.base import Scope
from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.credit.none import NoCredit
from edge_lightning.policy import Policy
from edge_lightning.training.passes import alive_with_others, scored_first, trained_of
from tests.ranks import together
from tests.test_module import gradients, relative, rollout
from tests.test_updates import Counted

ALIVE_B = torch.tensor([True, True, False, False, False, True])
GROUP_B = torch.tensor([0, 0, 0, 1, 1, 2])


@pytest.fixture
def policy(asset):
    return Policy.load(asset)


@pytest.mark.parametrize(
    ("scope", "micro_batches", "everyone", "expected"),
    [
        (None, [[0, 1, 5]], False, []),
        (None, [[0, 1, 5]], True, [2, 3, 4]),
        (Scope.RESPONSE, [[0], [1], [5]], False, []),
        (Scope.GROUP, [[0, 1, 5]], False, [2]),  # of group 0; group 1 is tied, group 2 is whole
        (Scope.GROUP, [[0, 1, 5]], True, [2, 3, 4]),
        (Scope.GROUP, [[0, 5], [1]], False, [0, 1, 2]),  # group 0 is split
        (Scope.GROUP, [[0, 1, 2, 3, 4, 5]], True, []),
        (Scope.GROUP, [[0, 1, 2], [3, 4], [5]], True, []),
        (Scope.STEP, [[0, 1, 5]], False, [2, 3, 4]),
        (Scope.STEP, [[0, 1], [5]], False, [0, 1, 2, 3, 4, 5]),
        (Scope.STEP, [[0, 1, 2, 3, 4, 5]], False, []),
    ],
)
def test_scored_first_by_hand(scope, micro_batches, everyone, expected):
    found = scored_first(scope, micro_batches, alive_B=ALIVE_B, group_B=GROUP_B, everyone=everyone)
    assert found == expected


@pytest.mark.parametrize("scope", [None, *Scope])
def test_a_step_without_signal_needs_no_scores(scope):
    nobody_B = torch.zeros(6, dtype=torch.bool)
    assert scored_first(scope, [[4]], alive_B=nobody_B, group_B=GROUP_B) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (([False, False], [False], []), [[1], [], []]),  # the first of the two shortest of all ranks
        (([False, False], [True], []), [[], [0], []]),
        (([True, True], [False], []), [[0, 1], [], []]),
    ],
)
def test_ranks_train_what_one_rank_would(wanted, expected):
    lengths = ([5, 3], [3], [])

    def work(ranks):
        own = [SimpleNamespace(completion_ids=(7,) * length) for length in lengths[ranks.rank]]
        return list(trained_of(range(len(own)), wanted[ranks.rank], own, ranks))

    assert together(work, 3) == expected


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (None, [[True, False], [False, False]]),
        (Scope.RESPONSE, [[True, False], [False, False]]),
        (Scope.GROUP, [[True, True], [True, False]]),  # group 0 is on both ranks, group 1 on the second alone
        (Scope.STEP, [[True, True], [True, True]]),
    ],
)
def test_a_unit_is_alive_where_any_rank_has_a_living_response_of_it(scope, expected):
    alive, groups = ([True, False], [False, False]), ([0, 0], [0, 1])

    def work(ranks):
        alive_B, group_B = torch.tensor(alive[ranks.rank]), torch.tensor(groups[ranks.rank])
        return alive_with_others(scope, alive_B, group_B, 2, ranks.all_reduce).tolist()

    assert together(work, 2) == expected


def two_alive(tied=False):
    """Two groups of three, both with a right response; the last has no prompt of its own."""
    return rollout(rights=(1, 0, 0, 0, 0, 0) if tied else (1, 0, 0, 0, 1, 0))


@pytest.mark.parametrize("mean_over", ["group", "step"])
@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_scores_of_the_training_pass_are_as_good_as_those_of_a_pass_before_it(policy, mean_over, detach, tied):
    credit = EntropyDrivenAdvantage(mean_over=mean_over, detach=detach)
    together, module = gradients(policy, two_alive(tied), credit=credit, entropy_every_n_steps=None)
    split, other = gradients(policy, two_alive(tied), credit=credit, entropy_every_n_steps=None, micro_batch_tokens=1)
    assert together.norm() > 1e-3
    assert relative(together, split) < 1e-5
    trained = 3 if tied else 6
    left_out = tied and mean_over == "step"  # the mean of the step counts them, so they are scored
    assert module.forwards == 1 + left_out
    assert other.forwards == 2 * trained + 3 * left_out
    for name in ("relative_entropy_B", "clamped_B"):
        torch.testing.assert_close(
            getattr(module.update.constants, name), getattr(other.update.constants, name), equal_nan=True
        )
    torch.testing.assert_close(module.update.entropies_N, other.update.entropies_N, equal_nan=True)
    torch.testing.assert_close(module.update.token_advantages_N, other.update.token_advantages_N)


def test_a_group_that_fits_is_not_scored_where_another_is_split(policy):
    step = two_alive()
    shapes = [((1, 2, 3), 3)] * 3 + [((4, 5), 4)] * 3  # rows of 3 + 9 = 12 and 2 + 12 = 14 tokens
    step.responses = [
        replace(r, prompt_ids=prompt, completion_ids=(30 + i, 40, 50, 60)[:n], sampled_mask=(True,) * n)
        for i, (r, (prompt, n)) in enumerate(zip(step.responses, shapes))
    ]
    whole, _ = gradients(policy, step, entropy_every_n_steps=None)
    found, module = gradients(policy, step, entropy_every_n_steps=None, micro_batch_tokens=12)
    assert module.forwards == 3 + 2  # trained in three batches, the second group scored in two
    assert relative(found, whole) < 1e-5


def test_later_updates_weigh_with_the_constants_of_the_first(policy):
    module = Counted(policy, updates_per_rollout=3, entropy_every_n_steps=None)
    module.sgd.param_groups[0]["lr"] = 0.0  # so that every update has the gradient of the first
    module.training_step(two_alive(), 0)
    assert module.forwards == 3
    assert module.update.losses == pytest.approx([module.update.losses[0]] * 3, abs=1e-6)
    assert module.update.gradient_norms == pytest.approx([module.update.gradient_norms[0]] * 3, rel=1e-4)


def test_a_response_that_is_trained_and_not_scored_gets_its_metrics_from_training(policy):
    _, module = gradients(policy, two_alive(), credit=NoCredit(), entropy_every_n_steps=None)
    assert (module.forwards, module.update.complete) == (1, True)
    _, scored = gradients(policy, two_alive(), credit=NoCredit(), entropy_every_n_steps=None, micro_batch_tokens=1)
    torch.testing.assert_close(module.update.logprobs_N, scored.update.logprobs_N, atol=1e-5, rtol=1e-5)

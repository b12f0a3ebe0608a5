"""A rollout in mini-batches: an update over each, ratios to the policy that sampled the rollout."""

import pytest
import torch

from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.credit.none import NoCredit
from edge_lightning.errors import UserError
from edge_lightning.experience import Rollout
from edge_lightning.objective.base import Aggregation, StepTotals
from edge_lightning.policy import Policy
from edge_lightning.scoring import response_index
from tests.test_module import Stand, relative, rollout
from tests.test_updates import Counted, flat, logprobs


@pytest.fixture
def policy(asset):
    return Policy.load(asset)


def two_alive():
    """Two groups of three with a right response each."""
    return rollout(rights=(1, 0, 0, 0, 1, 0))


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ((2, 2), 1, [[0, 1, 2, 3]]),
        ((2, 2), 2, [[0, 1], [2, 3]]),
        ((2, 2, 2, 2, 2), 2, [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]),
        ((1, 3, 2), 3, [[0], [1, 2, 3], [4, 5]]),
        ((1, 1, 1, 1, 1, 1, 1), 3, [[0, 1], [2, 3], [4, 5, 6]]),
    ],
)
def test_mini_batches_are_whole_groups_in_their_order(sizes, count, expected):
    group_B = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    assert Rollout([None] * len(sizes), 0, group_B=group_B).mini_batches(count) == expected


@pytest.mark.parametrize("entropy_every_n_steps", [None, 1])
@pytest.mark.parametrize("updates", [2, 4])
def test_each_update_is_over_its_part_and_weighs_by_the_ratio_to_the_policy_that_sampled(
    policy, updates, entropy_every_n_steps
):
    step, start = two_alive(), flat(policy)
    by_hand = Policy.load(policy.model.name_or_path)
    old = [value.detach() for value in logprobs(by_hand, step)]
    for update in range(updates):
        part = range(3) if update % 2 == 0 else range(3, 6)
        now, advantages = logprobs(by_hand, step), step.advantages_B.tolist()
        bounded = {i: torch.clamp((now[i] - old[i]).exp() * advantages[i], *bounds(advantages[i])) for i in part}
        loss = -sum(terms.mean() for terms in bounded.values()) / 3  # a mean over the three of the part
        by_hand.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in by_hand.parameters():
                parameter -= Counted.lr * parameter.grad
    module = Counted(
        policy,
        credit=NoCredit(),
        updates_per_rollout=updates,
        mini_batches=2,
        entropy_every_n_steps=entropy_every_n_steps,
    )
    module.training_step(step, 0)
    assert module.counted == 1  # a step is a rollout
    assert len(module.update.gradient_norms) == updates
    assert relative(flat(policy) - start, flat(by_hand) - start) < 1e-3
    first_N = response_index(step.responses) < 3
    assert (module.update.ratio_N[~first_N] - 1).abs().max() > 0.01  # the weights had changed before its first update
    assert ((module.update.ratio_N[first_N] == 1).all()) == (updates == 2)


def bounds(advantage):
    """min(rho A, clip(rho, .8, 1.2) A): above 0 rho A is at most 1.2 A, below 0 at most .8 A."""
    return (None, 1.2 * advantage if advantage > 0 else 0.8 * advantage)


@pytest.mark.parametrize("mean_over", ["group", "step"])
@pytest.mark.parametrize("micro_batch_tokens", [10_000, 1])
def test_credit_is_that_of_the_whole_rollout_under_the_policy_that_sampled(asset, mean_over, micro_batch_tokens):
    def advantages(**settings):
        module = Counted(Policy.load(asset), credit=EntropyDrivenAdvantage(mean_over=mean_over), **settings)
        module.training_step(two_alive(), 0)
        return module.update

    whole = advantages()
    parts = advantages(
        updates_per_rollout=2, mini_batches=2, entropy_every_n_steps=None, micro_batch_tokens=micro_batch_tokens
    )
    assert whole.token_advantages_N.abs().min() > 0
    torch.testing.assert_close(parts.token_advantages_N, whole.token_advantages_N, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.logprobs_N, whole.logprobs_N, rtol=1e-4, atol=1e-5)


def test_a_part_without_signal_takes_its_turn_with_a_gradient_of_0(policy):
    module = Counted(policy, credit=NoCredit(), updates_per_rollout=2, mini_batches=2)
    module.training_step(rollout(), 0)  # the second group is tied
    assert module.update.gradient_norms[0] > 1e-3
    assert module.update.gradient_norms[1] == 0
    assert module.update.trained_responses == 4  # three, and one that stands for the tied group


def test_totals_of_a_part_count_its_groups_alone():
    response_N = torch.tensor([0, 0, 1, 2, 2, 2, 3])  # 2, 1, 3 and 1 tokens
    totals = StepTotals.of(response_N, torch.tensor([0, 0, 1, 1]), 2, counted=[2, 3])
    assert (totals.responses, totals.tokens, totals.tokens_G.tolist()) == (2, 4, [0, 4])
    here_N = response_N[3:]
    # one group of four tokens; four tokens; two responses of three tokens and of one
    assert Aggregation("group_token_mean")(here_N, totals).tolist() == [0.25] * 4
    assert Aggregation("token_mean")(here_N, totals).tolist() == [0.25] * 4
    assert Aggregation("response_mean")(here_N, totals).tolist() == pytest.approx([1 / 6] * 3 + [1 / 2])


def test_every_part_gets_as_many_updates(policy):
    with pytest.raises(UserError, match="updates_per_rollout=3 rollout.mini_batches=2.*set rollout.updates_per_rollout=2"):
        Stand(policy, updates_per_rollout=3, mini_batches=2)
    with pytest.raises(UserError, match="rollout.mini_batches=0: at least 1 expected"):
        Stand(policy, mini_batches=0)

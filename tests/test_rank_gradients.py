"""A step's gradient does not depend on how many ranks share it: to 1e-5, whatever the credit, the rows and the shares."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from edge_lightning.advantage.grpo import GroupRelative
from edge_lightning.collective import share_of
from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.credit.ep_grpo import EPGRPO
from edge_lightning.credit.none import NoCredit
from edge_lightning.experience import Rollout
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.policy import Policy
from edge_lightning.training.whole_step import whole_step
from edge_lightning.types import Grade
from tests.ranks import together
from tests.test_module import Stand, relative
from tests.test_policy import responses
from tests.test_updates import Counted


@pytest.fixture(scope="module")
def policy(asset):
    return Policy.load(asset)


def step(rights, sizes):
    """Groups of these sizes, of which the responses to one prompt stand in one row."""
    group_B = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    made = responses(len(rights))
    prompts = [made[(group_B == group).nonzero()[0]].prompt_ids for group in range(len(sizes))]
    made = [
        replace(r, prompt_ids=prompts[group], grade=Grade(float(right), bool(right)), index=i)
        for i, (r, right, group) in enumerate(zip(made, rights, group_B.tolist()))
    ]
    rewards_B = torch.tensor(rights, dtype=torch.float64)
    return Rollout([made[0].problem] * len(sizes), 0, 0, made, GroupRelative()(rewards_B, group_B, len(sizes)), group_B)


def share(whole, ranks):
    mine = share_of(len(whole.responses), ranks)
    cut = slice(mine.start, mine.stop)
    parts = {"responses": whole.responses[cut], "advantages_B": whole.advantages_B[cut], "group_B": whole.group_B[cut]}
    return replace(whole, **parts)


def gradient(policy, whole, count, **settings):
    """What DDP and FSDP make of the ranks' gradients, their average; how many responses each trained; its norm."""

    def work(ranks):
        mine = copy.deepcopy(policy)
        module = Stand(mine, **settings)
        module.ranks = ranks
        module.training_step(share(whole, ranks), 0)
        return torch.cat([p.grad.flatten() for p in mine.parameters()]), module

    grads, modules = zip(*together(work, count))
    assert len({module.forwards for module in modules}) == 1  # none waits for another
    assert len({module.update.loss for module in modules}) == 1  # that of the step
    return torch.stack(grads).mean(0), modules


EIGHT = [1, 0, 0, 1, 0, 0, 0, 0]
STEPS = {
    "a group of eight": (EIGHT, (8,), (2, 4, 8)),
    "groups of five and two": ([1, 0, 0, 1, 0, 1, 0], (5, 2), (2, 3, 4)),  # shares of one and two, of three and four
    "one that is tied": ([1, 0, 0, 0, 0, 0], (3, 3), (2, 3)),  # the last rank has nothing to train
}
CREDITS = {
    "none": NoCredit(),
    "group": EntropyDrivenAdvantage(),
    "step": EntropyDrivenAdvantage(mean_over="step"),
    "undetached": EntropyDrivenAdvantage(detach=False),
    "ep_grpo": EPGRPO(),
}


@pytest.mark.parametrize("rows", [10_000, 60], ids=["one row", "rows"])
@pytest.mark.parametrize("credit", CREDITS)
@pytest.mark.parametrize("kind", STEPS)
def test_the_gradient_of_a_step_does_not_depend_on_its_ranks(policy, kind, credit, rows):
    rights, sizes, layouts = STEPS[kind]
    settings = {"credit": CREDITS[credit], "micro_batch_tokens": rows, "objective": PolicyGradient()}
    expected, (alone,) = gradient(policy, step(rights, sizes), 1, **settings)
    assert expected.norm() > 1e-2
    for count in layouts:
        found, modules = gradient(policy, step(rights, sizes), count, **settings)
        assert relative(found, expected) < 1e-5, count
        assert modules[0].update.loss == pytest.approx(alone.update.loss, rel=1e-5, abs=1e-6)
        if kind == "one that is tied" and credit == "none":
            assert not modules[-1].update.token_advantages_N.any()


@pytest.mark.parametrize("aggregation", ["response_mean", "token_mean", "group_token_mean"])
def test_every_denominator_is_of_all_ranks(policy, aggregation):
    rights, sizes, _ = STEPS["groups of five and two"]
    settings = {"credit": NoCredit(), "objective": PolicyGradient(aggregation=aggregation)}
    expected, _ = gradient(policy, step(rights, sizes), 1, **settings)
    found, _ = gradient(policy, step(rights, sizes), 3, **settings)
    assert relative(found, expected) < 1e-5


def test_mini_batches_are_shared_each_by_itself_and_put_together_in_the_order_of_one_rank(policy):
    """Two updates, each over a group: of both groups every rank has a share, so their parts in a row are out of order."""
    rights, sizes = [1, 0, 0, 1, 0, 1, 0, 0], (4, 4)

    def work(ranks):
        mine, whole = copy.deepcopy(policy), step(rights, sizes)
        places = [start + place for start in (0, 4) for place in share_of(4, ranks)]
        whole.responses = [replace(whole.responses[i], index=i % 4) for i in places]
        whole.advantages_B, whole.group_B = whole.advantages_B[places], whole.group_B[places]
        whole.sampled_advantages_B = whole.advantages_B
        whole.seconds = {"generate": 1.0 + ranks.rank}
        module = Counted(mine, updates_per_rollout=2, mini_batches=2)
        module.ranks, module.sgd.param_groups[0]["lr"] = ranks, 0.0  # nothing averages the ranks' gradients here
        module.training_step(whole, 0)
        grad = torch.cat([p.grad.flatten() for p in mine.parameters()])  # of the second update
        return grad, whole_step(whole, module.update, ranks)

    [(expected, (rollout, update))] = together(work, 1)
    (one, (found, others)), (two, nothing) = together(work, 2)
    assert nothing is None  # of the second rank
    assert relative((one + two) / 2, expected) < 1e-5
    assert found.responses == rollout.responses
    assert found.seconds["generate"] == 2.0  # of the slowest
    for name in ("advantages_B", "group_B", "sampled_advantages_B"):
        assert torch.equal(getattr(found, name), getattr(rollout, name)), name
    for name in ("response_N", "logprobs_N", "entropies_N", "token_advantages_N", "ratio_N", "clipped_N"):
        torch.testing.assert_close(getattr(others, name), getattr(update, name), equal_nan=True, msg=name)
    assert update.token_advantages_N.unique().numel() > 4
    torch.testing.assert_close(others.constants.relative_entropy_B, update.constants.relative_entropy_B)
    assert (others.trained_responses, others.losses) == (update.trained_responses, pytest.approx(update.losses, abs=1e-6))

"""What one training step does to the weights: gradients, what is left out, what stays the same."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from edge_lightning.advantage.grpo import GroupRelative
from edge_lightning.advantage.none import NoAdvantage
from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.credit.none import NoCredit
from edge_lightning.experience import Rollout
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.objective.supervised import Supervised
from edge_lightning.policy import Policy
from edge_lightning.training.datamodule import ProblemDataModule
from edge_lightning.training.module import PolicyModule
from edge_lightning.types import Grade, Provenance
from tests.test_policy import responses


class Stand(PolicyModule):
    """The module outside a trainer: one plain SGD step, gradients kept."""

    def __init__(self, policy, *, micro_batch_tokens=10_000, **stages):
        stages = {"credit": EntropyDrivenAdvantage(), "objective": PolicyGradient(), "gradient_clip_norm": None} | stages
        super().__init__(policy=policy, optimizer=None, schedule=None, **stages)
        data = SimpleNamespace(micro_batch_tokens=micro_batch_tokens)

        def packer(group, chosen):
            return ProblemDataModule.micro_batches(data, group, list(chosen))

        self._trainer = SimpleNamespace(datamodule=SimpleNamespace(micro_batches=packer))
        self.sgd = torch.optim.SGD(policy.parameters(), lr=0.0)
        self.forwards = 0
        self.counting = policy.register_forward_hook(lambda *_: setattr(self, "forwards", self.forwards + 1))

    trainer = property(lambda self: self._trainer)

    def optimizers(self):
        return self.sgd

    def lr_schedulers(self):
        return SimpleNamespace(step=lambda: None)

    def manual_backward(self, loss):
        loss.backward()


@pytest.fixture
def policy(asset):
    return Policy.load(asset)


def rollout(rights=(1, 0, 0, 0, 0, 0), sizes=(3, 3), advantage=None):
    """Two groups of three; the first has a right response, the second none."""
    group = responses(len(rights))
    group = [replace(r, grade=Grade(float(x), bool(x)), index=i) for i, (r, x) in enumerate(zip(group, rights))]
    group_B = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    rewards = torch.tensor([r.grade.reward for r in group], dtype=torch.float64)
    advantages = (advantage or GroupRelative())(rewards, group_B, len(sizes))
    return Rollout([r.problem for r in group[: len(sizes)]], 0, 0, group, advantages, group_B)


def gradients(policy, step, **settings):
    policy.zero_grad()
    module = Stand(policy, **settings)
    module.to(next(policy.parameters()).device)
    module.training_step(step, 0)
    module.counting.remove()
    return torch.cat([p.grad.flatten() for p in policy.parameters()]), module


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize(
    "credit",
    [
        EntropyDrivenAdvantage(),
        EntropyDrivenAdvantage(detach=False),
        EntropyDrivenAdvantage(detach=False, entropy_over_padding=True),
        NoCredit(),
    ],
)
def test_gradient_does_not_depend_on_micro_batches(policy, credit):
    whole, module = gradients(policy, rollout(), credit=credit)
    split, other = gradients(policy, rollout(), credit=credit, micro_batch_tokens=1)
    assert other.forwards > module.forwards
    assert whole.norm() > 1e-3
    assert relative(split, whole) < 1e-5
    assert other.update.loss == pytest.approx(module.update.loss, abs=1e-6)


def test_gradient_does_not_depend_on_the_order_of_responses(policy):
    straight = rollout()
    order = [4, 1, 5, 0, 2, 3]
    shuffled = replace(
        straight,
        responses=[straight.responses[i] for i in order],
        advantages_B=straight.advantages_B[order],
        group_B=straight.group_B[order],
    )
    assert relative(gradients(policy, shuffled)[0], gradients(policy, straight)[0]) < 1e-5


def test_gradient_is_the_policy_gradient_written_out(policy):
    """-1/B sum_i A_i / Phat_i mean_t grad log pi, with transformers' own forward pass."""
    step = rollout()
    found, module = gradients(policy, step)
    policy.zero_grad()
    loss, entropy = 0.0, []
    terms = []
    for r in step.responses:
        ids = torch.tensor([r.prompt_ids + r.completion_ids])
        log_p = policy.model(input_ids=ids).logits[0, len(r.prompt_ids) - 1 : -1].log_softmax(-1)
        entropy.append(-(log_p.exp() * log_p).sum(-1).mean().detach())
        terms.append(log_p.gather(-1, torch.tensor(r.completion_ids)[:, None]).mean())
    entropy = torch.stack(entropy)
    phat = (entropy.view(2, 3) / entropy.view(2, 3).mean(1, keepdim=True)).flatten().clamp(0.1, 10)
    for term, advantage, p in zip(terms, step.advantages_B, phat):
        loss = loss - advantage / p * term / 6
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in policy.parameters()])
    assert relative(found, expected) < 1e-4
    assert module.update.trained_responses == 3


def test_groups_without_variance_get_no_forward_pass_and_change_nothing(policy):
    pruned, module = gradients(policy, rollout(), credit=NoCredit(), entropy_every_n_steps=None)
    assert module.update.trained_responses == 3
    settings = {"entropy_every_n_steps": None, "leave_out_zero_advantage": False}
    full, module = gradients(policy, rollout(), credit=NoCredit(), **settings)
    assert module.update.trained_responses == 6
    assert relative(pruned, full) < 1e-5


def test_left_out_tokens_stay_in_the_denominator_of_a_token_mean(policy):
    step = rollout()
    found, _ = gradients(policy, step, credit=NoCredit(), objective=PolicyGradient(aggregation="token_mean"))
    tokens = [len(r.completion_ids) for r in step.responses]
    alone = replace(
        step,
        problems=step.problems[:1],
        responses=step.responses[:3],
        advantages_B=step.advantages_B[:3],
        group_B=step.group_B[:3],
    )
    without, _ = gradients(policy, alone, credit=NoCredit(), objective=PolicyGradient(aggregation="token_mean"))
    assert relative(found, without * sum(tokens[:3]) / sum(tokens)) < 1e-5


def test_a_mean_over_groups_weighs_each_problem_alike_and_does_not_depend_on_micro_batches(policy):
    """Groups of three and of one response: 1/2 of the loss each, whatever their tokens, written out and in pieces."""
    step = rollout(rights=(1, 0, 0, 1), sizes=(3, 1), advantage=NoAdvantage())
    step.advantages_B = torch.ones(4)
    by_group = {"credit": NoCredit(), "objective": PolicyGradient(aggregation="group_token_mean")}
    whole, module = gradients(policy, step, **by_group)
    split, other = gradients(policy, step, **by_group, micro_batch_tokens=1)
    assert other.forwards > module.forwards
    assert relative(split, whole) < 1e-5
    assert other.update.loss == pytest.approx(module.update.loss, abs=1e-6)
    policy.zero_grad()
    loss = 0.0
    tokens = [len(r.completion_ids) for r in step.responses]
    for r, of_group in zip(step.responses, [sum(tokens[:3])] * 3 + [tokens[3]]):
        ids = torch.tensor([r.prompt_ids + r.completion_ids])
        log_p = policy.model(input_ids=ids).logits[0, len(r.prompt_ids) - 1 : -1].log_softmax(-1)
        loss = loss - log_p.gather(-1, torch.tensor(r.completion_ids)[:, None]).sum() / (2 * of_group)
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in policy.parameters()])
    assert relative(whole, expected) < 1e-4
    assert relative(gradients(policy, step, credit=NoCredit())[0], expected) > 0.05  # the mean over responses is another


@pytest.mark.parametrize(("step", "scored"), [(0, True), (1, False), (2, True)])
def test_entropies_are_scored_every_n_steps_from_the_first(policy, step, scored):
    _, module = gradients(policy, replace(rollout(), step=step), credit=NoCredit(), entropy_every_n_steps=2)
    assert module.update.complete is scored


def test_a_step_without_any_signal_has_a_gradient_of_zero_not_none(policy):
    found, module = gradients(policy, rollout(rights=(0,) * 6))
    assert module.update.trained_responses == 1
    assert found.abs().max() == 0


def test_no_scoring_pass_runs_where_nothing_needs_it(policy):
    _, module = gradients(policy, rollout(), credit=NoCredit(), entropy_every_n_steps=None)
    assert (module.forwards, module.update.complete) == (1, False)
    known = ~module.update.entropies_N.isnan()
    assert known.any()
    assert not known.all()  # only trained responses have entropies then
    _, module = gradients(policy, rollout(), credit=NoCredit(), entropy_every_n_steps=1)
    assert (module.forwards, module.update.complete) == (2, True)


def test_supervised_trains_on_every_response(policy):
    step = rollout(advantage=NoAdvantage())
    found, module = gradients(policy, step, credit=NoCredit(), objective=Supervised(), entropy_every_n_steps=None)
    policy.zero_grad()
    total = 0.0
    for r in step.responses:
        ids = torch.tensor([r.prompt_ids + r.completion_ids])
        log_p = policy.model(input_ids=ids).logits[0, len(r.prompt_ids) - 1 : -1].log_softmax(-1)
        total = total - log_p.gather(-1, torch.tensor(r.completion_ids)[:, None]).sum()
    (total / sum(len(r.completion_ids) for r in step.responses)).backward()
    expected = torch.cat([p.grad.flatten() for p in policy.parameters()])
    assert relative(found, expected) < 1e-4
    assert module.update.trained_responses == 6


def test_masking_injected_tokens_changes_the_gradient(policy):
    step = rollout()
    first = step.responses[0]
    half = len(first.completion_ids) // 2
    mask = (True,) * half + (False,) * (len(first.completion_ids) - half)
    step.responses[0] = replace(first, sampled_mask=mask, provenance=Provenance.ANSWER_INJECTED)
    plain, _ = gradients(policy, step, objective=PolicyGradient())
    masked, _ = gradients(policy, step, objective=PolicyGradient(injected_tokens="masked"))
    without_prefix, _ = gradients(policy, step, objective=PolicyGradient(train_wrong_prefix=False))
    assert relative(masked, plain) > 0.05
    assert relative(without_prefix, plain) > 0.05
    # what one leaves out is what the other keeps: the two parts of the first response, and the rest twice
    nothing, _ = gradients(policy, step, objective=PolicyGradient(injected_tokens="masked", train_wrong_prefix=False))
    assert relative(masked + without_prefix - nothing, plain) < 1e-5


def test_clipping_reports_the_norm_before_it(policy):
    free, module = gradients(policy, rollout())
    clipped, other = gradients(policy, rollout(), gradient_clip_norm=free.norm().item() / 4)
    assert other.update.gradient_norm == pytest.approx(free.norm().item(), rel=1e-4)
    assert clipped.norm().item() == pytest.approx(free.norm().item() / 4, rel=1e-3)
    assert module.update.gradient_norm == pytest.approx(free.norm().item(), rel=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gradient_on_cuda_is_that_of_the_cpu(policy):
    here, _ = gradients(policy, rollout())
    there, module = gradients(policy.cuda(), rollout())
    assert module.update.trained_responses == 3
    assert relative(there.cpu(), here) < 1e-3

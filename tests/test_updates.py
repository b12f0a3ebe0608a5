"""Several updates on one rollout, the reference policy, and whose the gradient is."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from edge_lightning.credit.none import NoCredit
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.policy import Policy
from edge_lightning.scoring import response_index
from edge_lightning.training.parts import by_origin, by_provenance
from edge_lightning.types import Provenance
from tests.test_module import Stand, gradients, relative, rollout


@pytest.fixture
def policy(asset):
    return Policy.load(asset)


class Counted(Stand):
    """Plain gradient descent; `counted` are the optimizer steps that Lightning would see."""

    lr = 1e-2

    def __init__(self, policy, **stages):
        super().__init__(policy, **stages)
        self.sgd = torch.optim.SGD(policy.parameters(), lr=self.lr)
        self.counted = 0

    def optimizers(self):
        def step():
            self.counted += 1
            self.sgd.step()

        return SimpleNamespace(
            zero_grad=self.sgd.zero_grad, step=step, optimizer=self.sgd, param_groups=self.sgd.param_groups
        )


def logprobs(policy, step):
    """Of every response token, by transformers' own forward pass."""
    found = []
    for r in step.responses:
        logits = policy.model(input_ids=torch.tensor([r.prompt_ids + r.completion_ids])).logits[0]
        log_p = logits[len(r.prompt_ids) - 1 : -1].log_softmax(-1)
        found.append(log_p.gather(-1, torch.tensor(r.completion_ids)[:, None])[:, 0])
    return found


def flat(policy):
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])


@pytest.mark.parametrize("entropy_every_n_steps", [None, 1])
def test_later_updates_weigh_by_the_ratio_to_the_policy_that_sampled(policy, entropy_every_n_steps):
    step, start = rollout(), flat(policy)
    by_hand = Policy.load(policy.model.name_or_path)
    old = None
    for _ in range(3):
        now = logprobs(by_hand, step)
        old = old or [value.detach() for value in now]
        loss = -sum(
            a * torch.minimum((n - o).exp() * a.sign(), (n - o).exp().clamp(0.8, 1.2) * a.sign()).mean() * a.sign() / 6
            for a, n, o in zip(step.advantages_B, now, old)
        )
        by_hand.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in by_hand.parameters():
                parameter -= Counted.lr * parameter.grad
    module = Counted(policy, credit=NoCredit(), updates_per_rollout=3, entropy_every_n_steps=entropy_every_n_steps)
    module.training_step(step, 0)
    assert module.counted == 1  # a step is a rollout
    assert len(module.update.gradient_norms) == 3
    assert relative(flat(policy) - start, flat(by_hand) - start) < 1e-3
    trained = module.update.ratio_N[response_index(step.responses) < 3]
    assert (trained - 1).abs().max() > 0.02  # the ratios of the last update


def test_one_update_has_a_ratio_of_exactly_one(policy):
    module = Counted(policy, credit=NoCredit())
    module.training_step(rollout(), 0)
    assert set(module.update.ratio_N[~module.update.ratio_N.isnan()].tolist()) == {1.0}


def test_the_reference_policy_stays_where_the_run_began(policy):
    beta = 0.5
    with_kl = PolicyGradient(kl_coefficient=beta)
    first, module = gradients(policy, rollout(), credit=NoCredit(), objective=with_kl)
    without, _ = gradients(policy, rollout(), credit=NoCredit())
    assert module.update.trained_responses == 6  # the group without variance is held back too
    assert relative(first, without) < 1e-5  # nothing to hold back yet
    assert module.update.kl_N.abs().max() < 1e-5

    step = rollout()
    reference = [value.detach() for value in logprobs(policy, step)]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter *= 1.02
    policy.zero_grad()
    module.training_step(step, 0)
    found = torch.cat([p.grad.flatten() for p in policy.parameters()])
    policy.zero_grad()
    now = logprobs(policy, step)
    kl = [(r - n).exp() - (r - n) - 1 for r, n in zip(reference, now)]
    assert module.update.kl_N.mean().item() == pytest.approx(torch.cat(kl).mean().item(), rel=1e-2)
    loss = sum((-a * (n - n.detach()).exp() + beta * k).mean() / 6 for a, n, k in zip(step.advantages_B, now, kl))
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in policy.parameters()])
    assert relative(found, expected) < 1e-3
    assert not any(name.startswith("reference") for name in module.state_dict())


def corrected():
    """The right response of the group was put in behind two sampled tokens, a wrong one is a cue and a reflection."""
    step = rollout()
    first, second, *rest = step.responses
    cut = [True, True] + [False] * (len(first.completion_ids) - 2)
    cued = [True, False] + [True] * (len(second.completion_ids) - 2)
    step.responses = [
        replace(first, sampled_mask=tuple(cut), provenance=Provenance.ANSWER_INJECTED),
        replace(second, sampled_mask=tuple(cued), provenance=Provenance.REFLECTED),
        *rest,
    ]
    return step


def test_tokens_fall_into_parts_by_origin_and_by_provenance():
    step = corrected()
    response_N = response_index(step.responses)
    origins, provenances = by_origin(step.responses, response_N), by_provenance(step.responses, response_N)
    for masks in (origins, provenances):
        assert torch.stack(list(masks.values())).sum(0).tolist() == [1] * len(response_N)
    assert set(provenances) == {"sampled", "reflected", "answer_injected"}
    first, second = len(step.responses[0].completion_ids), len(step.responses[1].completion_ids)
    assert origins["wrong_prefix_tokens"].nonzero().flatten().tolist() == [0, 1, first]
    assert int(origins["injected_tokens"].sum()) == first - 2 + 1
    assert origins["sampled_tokens"][first + 2 : first + second].all()


@pytest.mark.parametrize("micro_batch_tokens", [10_000, 1])
def test_the_gradient_of_each_part_is_that_of_its_own_terms(policy, micro_batch_tokens):
    step = corrected()
    settings = {"credit": NoCredit(), "gradient_clip_norm": 0.01, "micro_batch_tokens": micro_batch_tokens}
    plain, _ = gradients(policy, step, **settings)
    found, module = gradients(policy, step, **settings, gradient_shares_every_n_steps=1)
    assert torch.equal(plain, found)  # looking changes nothing
    shares, norms = module.update.gradient_shares, {}
    response_N = response_index(step.responses)
    masks = by_origin(step.responses, response_N) | by_provenance(step.responses, response_N)
    parts = {}
    for name, mask_N in masks.items():
        policy.zero_grad()
        lengths = [len(r.completion_ids) for r in step.responses]
        loss = 0.0
        for a, log_p, mask in zip(step.advantages_B, logprobs(policy, step), mask_N.split(lengths)):
            loss = loss - a * (log_p * mask).sum() / len(log_p) / 6
        loss.backward()
        parts[name] = torch.cat([p.grad.flatten() for p in policy.parameters()])
        norms[name] = parts[name].norm().item()
    whole = sum(parts[p] for p in ("sampled", "reflected", "answer_injected"))
    for name, part in parts.items():
        assert shares[f"gradient/norm/{name}"] == pytest.approx(norms[name], rel=1e-3)
        assert shares[f"gradient/share/{name}"] == pytest.approx((part @ whole / (whole @ whole)).item(), abs=1e-3)
    for kind in (("sampled", "reflected", "answer_injected"), ("sampled_tokens", "wrong_prefix_tokens", "injected_tokens")):
        assert sum(shares[f"gradient/share/{name}"] for name in kind) == pytest.approx(1.0, abs=1e-5)
    assert len({round(norm, 6) for norm in norms.values()}) == 6  # parts that differ, so that a swapped mask fails


def test_gradient_shares_are_those_of_the_first_update(asset):
    found = []
    for updates in (1, 3):
        module = Counted(Policy.load(asset), credit=NoCredit(), updates_per_rollout=updates, gradient_shares_every_n_steps=1)
        module.training_step(corrected(), 0)
        found.append(module.update.gradient_shares)
    assert found[0] == found[1]


def test_gradient_shares_are_looked_for_in_their_steps_alone(policy):
    step = corrected()
    step.step = 7
    _, module = gradients(policy, step, gradient_shares_every_n_steps=5)
    assert module.update.gradient_shares == {}
    assert "gradient_shares" not in module.update.seconds


def test_the_reference_policy_is_made_before_a_checkpoint_can_be_loaded(policy):
    """Weights that change between building the module and its first step, as those of a resumed run do."""
    module = Counted(policy, credit=NoCredit(), objective=PolicyGradient(kl_coefficient=0.5))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter *= 1.02
    module.training_step(rollout(), 0)
    assert module.update.kl_N.max() > 1e-4


def test_the_reference_policy_has_the_temperature_of_the_policy(policy):
    policy.temperature = 0.5
    module = Counted(policy, credit=NoCredit(), objective=PolicyGradient(kl_coefficient=0.5))
    module.training_step(rollout(), 0)
    assert module.update.kl_N.abs().max() < 1e-5


def test_each_update_is_clipped_and_the_schedule_goes_on_once_a_rollout(policy):
    start, scheduled = flat(policy), []
    module = Counted(policy, credit=NoCredit(), updates_per_rollout=3, gradient_clip_norm=0.01)
    module.lr_schedulers = lambda: SimpleNamespace(step=lambda: scheduled.append(1))
    module.training_step(rollout(), 0)
    assert min(module.update.gradient_norms) > 0.01
    assert module.update.gradient_norm == sum(module.update.gradient_norms) / 3
    assert (flat(policy) - start).norm() <= 3 * 0.01 * Counted.lr * 1.001
    assert scheduled == [1]

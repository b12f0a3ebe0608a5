"""Values that are no numbers never reach the weights, and the problems they came from are named."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.credit.none import NoCredit
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
from edge_lightning.training.guards import UnusableStepError
from edge_lightning.training.signal_watch import SignalWatch
from edge_lightning.types import Grade, Problem
from tests.test_module import Stand, rollout

WRONG, RIGHT = Grade(0.0, False), Grade(1.0, True)


@pytest.fixture
def policy(asset):
    return Policy.load(asset)


def named():
    """Two groups, of problems 'first' and 'second'; the first has one right response of three, the second two."""
    step = rollout(rights=(1, 0, 0, 1, 1, 0))
    names = ["first"] * 3 + ["second"] * 3
    step.responses = [replace(r, problem=Problem(name, "t", ("1",))) for r, name in zip(step.responses, names)]
    step.problems = [step.responses[0].problem, step.responses[3].problem]
    return step


class Counting(Stand):
    """Steps with AdamW, and counts them."""

    def __init__(self, policy, **settings):
        super().__init__(policy, **settings)
        self.sgd = torch.optim.AdamW(policy.parameters(), lr=0.1, fused=True)
        self.steps = 0
        self.sgd.register_step_post_hook(lambda *_: setattr(self, "steps", self.steps + 1))


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


class Spoiling:
    """Credit that gives the tokens of some responses a value that is no number."""

    def __init__(self, responses, value):
        self.plain, self.responses, self.value = NoCredit(), responses, value

    def __getattr__(self, name):
        return getattr(self.plain, name)

    def weigh(self, constants, forward):
        found_N = self.plain.weigh(constants, forward)
        bad_N = torch.isin(forward.response_N, torch.tensor(self.responses))
        return torch.where(bad_N, torch.tensor(self.value), found_N)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("what", ["reward", "advantage"])
def test_rewards_and_advantages_that_are_no_numbers_stop_before_a_gradient(policy, what, value):
    step = named()
    if what == "advantage":
        step.advantages_B[4] = value
    else:
        step.responses[4] = replace(step.responses[4], grade=Grade(value, True))
    module = Counting(policy, credit=NoCredit())
    with pytest.raises(UnusableStepError, match=f"step 0: {what} {value:g} for problem 'second', a finite one expected"):
        module.training_step(step, 0)
    assert (module.steps, module.forwards) == (0, 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_token_advantages_that_are_no_numbers_stop_the_update_and_name_the_problem(policy, value):
    before = weights(policy)
    module = Counting(policy, credit=Spoiling([1, 2], value))
    with pytest.raises(UserError) as stopped:
        module.training_step(named(), 0)
    assert str(stopped.value).startswith(
        "step 0, update 1: advantage that is no finite number for problem 'first'; this update was not made; "
    )
    assert module.steps == 0
    assert torch.equal(weights(policy), before)


@pytest.mark.parametrize("micro_batch_tokens", [1, 10_000])
@pytest.mark.parametrize(("field", "what"), [("entropies_N", "entropy"), ("logprobs_N", "log-probability")])
def test_what_a_pass_finds_and_is_no_number_names_the_problem(policy, field, what, micro_batch_tokens, monkeypatch):
    plain = type(policy).forward

    def spoiled(self, batch, **settings):
        forward = plain(self, batch, **settings)
        bad_N = forward.response_N == 5
        return replace(forward, **{field: getattr(forward, field).masked_fill(bad_N, torch.nan)})

    monkeypatch.setattr(type(policy), "forward", spoiled)
    module = Counting(policy, credit=NoCredit(), micro_batch_tokens=micro_batch_tokens)
    with pytest.raises(UserError, match=f"{what} that is no finite number for problem 'second'; this update was not made"):
        module.training_step(named(), 0)


class Objective:
    """A loss to which a function of a response's log-probabilities is added."""

    def __init__(self, plain, response, spoil):
        self.plain, self.response, self.spoil = plain, response, spoil

    def __getattr__(self, name):
        return getattr(self.plain, name)

    def __call__(self, forward, advantages_N, tokens, totals, **given):
        loss = self.plain(forward, advantages_N, tokens, totals, **given)
        if self.response in tokens.responses:
            here_N = tokens.response_N == self.response
            loss = replace(loss, terms_N=torch.where(here_N, loss.terms_N + self.spoil(forward.logprobs_N), loss.terms_N))
        return loss


def test_a_loss_that_is_no_number_names_the_problem(policy):
    module = Counting(policy, credit=NoCredit())
    module.objective = Objective(module.objective, 1, lambda logprobs_N: logprobs_N * torch.inf)
    with pytest.raises(UserError, match="loss that is no finite number for problem 'first'; this update was not made"):
        module.training_step(named(), 0)


def test_a_gradient_that_is_no_number_is_traced_to_the_response_it_comes_from(policy):
    """The loss is a number, its gradient for response 4 is not: sqrt at 0."""
    module = Counting(policy, credit=NoCredit())
    module.objective = Objective(module.objective, 4, lambda logprobs_N: (logprobs_N * 0.0).abs().sqrt())
    before = weights(policy)
    with pytest.raises(UserError, match=r"gradient norm nan, from problem 'second'; this update was not made"):
        module.training_step(named(), 0)
    assert torch.equal(weights(policy), before)


def test_a_skipped_update_leaves_weights_and_moments_and_is_counted(policy, capsys):
    module = Counting(policy, credit=NoCredit(), on_unusable_update="skip")
    module.training_step(named(), 0)
    after_one, moments = weights(policy), [s["exp_avg"].clone() for s in module.sgd.state.values()]
    module.credit = Spoiling([3], float("nan"))
    module.training_step(replace(named(), step=1), 1)
    assert (module.steps, module.update.skipped) == (2, 1)  # the optimizer's step is what Lightning counts
    assert torch.equal(weights(policy), after_one)
    assert all(torch.equal(a, s["exp_avg"]) for a, s in zip(moments, module.sgd.state.values(), strict=True))
    assert "step 1, update 1: advantage that is no finite number for problem 'second'" in capsys.readouterr().err
    module.credit = NoCredit()
    module.training_step(replace(named(), step=2), 2)
    assert module.update.skipped == 0
    assert not torch.equal(weights(policy), after_one)


def test_a_gradient_beyond_its_bound_is_not_followed(policy):
    module = Counting(policy, credit=NoCredit(), gradient_clip_norm=1e-6)
    module.training_step(named(), 0)
    norm = module.update.gradient_norm
    assert norm > 1e-3  # before clipping
    for bound, stops in ((norm * 0.5, True), (norm * 2, False)):
        bounded = Counting(policy, credit=NoCredit(), largest_gradient_norm=bound)
        bounded.sgd.param_groups[0]["lr"] = 0.0
        if stops:
            with pytest.raises(UserError, match=r"gradient norm .*, at most module.largest_gradient_norm=.* expected"):
                bounded.training_step(named(), 0)
        else:
            bounded.training_step(named(), 0)


class Display:
    def __init__(self):
        self.lines = []

    def line(self, text):
        self.lines.append(text)


def test_a_run_that_learns_nothing_says_so_once_each_n_steps_and_why():
    from types import SimpleNamespace

    tied, told = rollout(rights=(1, 1, 1, 0, 0, 0)), rollout(rights=(1, 0, 0, 0, 0, 0))
    wrong, right = rollout(rights=(0,) * 6), rollout(rights=(1,) * 6)
    watch = SignalWatch(display=Display(), after_n_steps=3)

    def see(step, number, advantage=0.0):
        update = SimpleNamespace(token_advantages_N=torch.tensor([0.0, advantage]))
        module = SimpleNamespace(update=update)
        watch.on_train_batch_end(SimpleNamespace(is_global_zero=True), module, None, replace(step, step=number), number)

    for number, step in enumerate((tied, tied)):
        see(step, number)
    see(told, 2, 0.5)
    for number, step in enumerate((tied, wrong, tied, right, right), start=3):
        see(step, number)
    assert watch.display.lines == [
        "steps 3 to 5: nothing was learned, since in none of 6 groups did rewards differ (4 all wrong, 2 all right); take "
        "easier problems, raise rollout.group_size or rollout.temperature, or set correction=gec"
    ]
    resumed = SignalWatch(display=Display(), after_n_steps=3)
    resumed.load_state_dict(watch.state_dict())
    watch = resumed
    see(right, 8)
    assert [line.split("; ")[1][:11] for line in resumed.display.lines] == ["take harder"]
    assert "steps 3 to 8: nothing was learned, since in none of 12 groups did" in resumed.display.lines[0]
    assert "(4 all wrong, 8 all right)" in resumed.display.lines[0]

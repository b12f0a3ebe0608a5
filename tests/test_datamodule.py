"""Order, state and limits of the problems of a run."""

import pytest

from edge_lightning.errors import UserError
from edge_lightning.training.datamodule import ProblemDataModule, ProblemLoader
from edge_lightning.types import Problem

PROBLEMS = [Problem(str(i), f"problem {i}", (str(i),)) for i in range(10)]


def loader(**settings):
    return ProblemLoader(PROBLEMS, **({"problems_per_step": 3, "steps": 7, "seed": 0} | settings))


def ids(rollouts):
    return [[problem.id for problem in rollout.problems] for rollout in rollouts]


def test_a_pass_shows_each_problem_once_and_drops_what_fills_no_step():
    first = ids(loader(steps=3))
    shown = [i for step in first for i in step]
    assert len(shown) == len(set(shown)) == 9


def test_passes_have_orders_of_their_own_and_no_step_holds_a_problem_twice():
    steps = ids(loader(steps=60))
    assert all(len(set(step)) == 3 for step in steps)
    assert steps[:3] != steps[3:6]


def test_order_depends_on_the_seed_alone():
    assert ids(loader()) == ids(loader())
    assert ids(loader()) != ids(loader(seed=1))


def test_a_restored_loader_goes_on_where_it_stood():
    unbroken = ids(loader())
    broken = loader()
    steps = iter(broken)
    begun = [next(steps) for _ in range(4)]
    restored = loader()
    restored.load_state_dict(broken.state_dict())
    rest = list(restored)
    assert ids(begun) + ids(rest) == unbroken
    assert [r.step for r in rest] == [4, 5, 6]


def datamodule(**settings):
    usual = {"problems_per_step": 3, "steps": None, "micro_batch_tokens": 10, "seed": 0}
    return ProblemDataModule(train_problems=PROBLEMS, held_out_problems=[], **(usual | settings))


def test_steps_that_are_null_are_one_pass_and_0_are_none():
    assert len(datamodule().train_dataloader()) == 3
    assert list(datamodule(steps=0).train_dataloader()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"problems_per_step": 11}, "rollout.problems_per_step=11: the data hold 10 training problems"),
        ({"problems_per_step": 0}, "rollout.problems_per_step=0: at least 1 expected"),
        ({"steps": -1}, "steps=-1: at least 1 expected, 0 for an evaluation alone, null for one pass"),
        ({"micro_batch_tokens": 0}, "micro_batch_tokens=0: at least 1 expected"),
    ],
)
def test_counts_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        datamodule(**wrong)

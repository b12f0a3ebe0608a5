"""Problems of Reasoning Gym and their own scorers, on what the package really generates."""

from dataclasses import replace

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from edge_lightning.cli.build import build_benchmarks
from edge_lightning.cli.hydra_app import CONF
from edge_lightning.data.reasoning_gym import ReasoningGym
from edge_lightning.errors import UserError
from edge_lightning.prompts import ChatPrompt
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.reasoning_gym import answer_of
from edge_lightning.types import Problem
from tests.by_hand import response

pytest.importorskip("reasoning_gym", reason="needs the extra gym")

TASKS = (
    "simple_equations",
    "base_conversion",
    "leg_counting",
    "number_sequence",
    "maze",
    "simple_geometry",
    "shortest_path",
    "knights_knaves",
)


@pytest.fixture(scope="module")
def accuracy():
    part = BoxedAccuracy(timeout_s=10.0, workers=1)
    yield part
    part.close()


def said(problem, text):
    return replace(response((5, 6)), problem=problem, text=text)


@pytest.mark.parametrize("task", TASKS)
def test_the_packages_answer_is_right_and_that_of_another_problem_is_wrong(task, accuracy):
    problems = ReasoningGym(task=task, size=8, seed=3).held_out()
    answers = [problem.answers[0] for problem in problems]
    other = {p.id: next(a for a in answers if a != p.answers[0]) for p in problems}
    right = [said(p, rf"First this. So \boxed{{{p.answers[0]}}}") for p in problems]
    wrong = [said(p, rf"First \boxed{{{p.answers[0]}}}, no: \boxed{{{other[p.id]}}}") for p in problems]
    bare = [said(p, p.answers[0]) for p in problems]
    assert accuracy([*right, *wrong, *bare]) == [1.0] * 8 + [0.0] * 16


@pytest.mark.parametrize("task", TASKS)
def test_a_problem_is_what_its_id_says_however_long_the_set(task):
    few, many = (ReasoningGym(task=task, size=size, seed=3).held_out() for size in (2, 5))
    assert few == many[:2]
    assert [problem.id for problem in few] == [f"reasoning_gym/{task}/3/{i}" for i in (0, 1)]
    assert ReasoningGym(task=task, size=2, seed=900).held_out()[0].text != few[0].text


def test_a_right_answer_that_is_not_the_packages_own_is_right(accuracy):
    """Names in another order; the package's own answer to the first reads the other way round."""
    (problem,) = ReasoningGym(task="knights_knaves", size=1, seed=3).held_out()
    first, _, second = problem.answers[0].rstrip(".").partition(", and ")
    turned = f"{second}, and {first}"
    assert turned != problem.answers[0]
    flipped = turned.replace(first, first[: first.rindex(" ")] + " zebra")
    texts = [rf"\boxed{{{turned}}}", rf"\boxed{{{flipped}}}"]
    assert accuracy([said(problem, text) for text in texts]) == [1.0, 0.0]


def test_partial_credit_is_not_right(accuracy):
    (problem,) = ReasoningGym(task="leg_counting", size=1, seed=3).held_out()
    assert accuracy([said(problem, rf"\boxed{{{problem.answers[0]} legs}}")]) == [0.0]  # the scorer gives it .3


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{7}, no, \boxed{8}", "8"),
        (r"\boxed{\text{ infeasible }}", "infeasible"),
        (r"\boxed{$12$}", "12"),
        ("<answer>7</answer> so <answer> right down </answer>", "right down"),
        (r"<answer>7</answer> \boxed{8}", "8"),
        ("the answer is 7", ""),
        ("<answer>7", ""),
        (r"\boxed{}", ""),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    ],
)
def test_what_is_scored_stands_in_the_last_box_or_the_last_tag(text, answer):
    assert answer_of(text) == answer


def test_other_problems_are_compared_by_their_box_in_one_call(accuracy):
    ours = Problem("p", "What is 1/2?", ("0.5",))
    (gym,) = ReasoningGym(task="leg_counting", size=1, seed=3).held_out()
    mixed = [said(ours, r"\boxed{\frac12}"), said(gym, rf"\boxed{{{gym.answers[0]}}}"), said(ours, r"\boxed{2}")]
    assert accuracy(mixed) == [1.0, 1.0, 0.0]
    assert accuracy([]) == []


def test_an_answer_that_is_code_or_never_ends_is_wrong_and_counted():
    part = BoxedAccuracy(timeout_s=2.0, workers=1)
    problem = Problem("reasoning_gym/countdown/3/0", "q", ("1",))
    (own,) = ReasoningGym(task="countdown", size=1, seed=3).held_out()
    codes = (r"\boxed{().__class__}", r"\boxed{9**9**9**9}", rf"\boxed{{{own.answers[0]}}}")
    assert part([said(problem, text) for text in codes]) == [0.0, 0.0, 1.0]
    assert part.timeouts <= 1  # out of time, or out of memory before it
    part.close()


def test_an_unknown_task_is_one_line():
    with pytest.raises(UserError, match="task=leg_count: Reasoning Gym has no such task; did you mean leg_counting"):
        ReasoningGym(task="leg_count", size=1)
    with pytest.raises(UserError, match="task=zzzz: Reasoning Gym has no such task; one of its [0-9]+ expected"):
        ReasoningGym(task="zzzz", size=1)
    with pytest.raises(UserError, match="size=0: at least 1 expected"):
        ReasoningGym(task="leg_counting", size=0)


def composed(command, *overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        return compose(command, ["ckpt=x", *overrides] if command == "validate" else list(overrides))


@pytest.mark.parametrize("command", ["fit", "validate"])
def test_the_evaluation_has_eight_tasks(command):
    benchmarks = build_benchmarks(composed(command, "evaluation=reasoning_gym", "evaluation.size=2"))
    assert tuple(benchmark.name for benchmark in benchmarks) == TASKS
    for benchmark in benchmarks:
        assert (benchmark.samples, benchmark.sampling.top_k, tuple(benchmark.ks)) == (16, 20, (1, 16))
        exam = benchmark.exam([], ChatPrompt())
        assert [p.id for p in exam.problems] == [f"reasoning_gym/{benchmark.name}/0/{i}" for i in (0, 1)]


def test_a_task_can_be_swapped_or_left_out():
    line = ("evaluation.benchmarks.maze.name=spell_backward", "evaluation.benchmarks.leg_counting=null", "evaluation.size=1")
    names = [b.name for b in build_benchmarks(composed("validate", "evaluation=reasoning_gym", *line))]
    assert names == ["simple_equations", "base_conversion", "number_sequence", "spell_backward", *TASKS[5:]]


@pytest.mark.parametrize("reward", ["boxed", "boxed_and_format", "boxed_and_overlong"])
def test_every_reward_has_the_scorers(reward):
    graded = instantiate(composed("validate", f"reward={reward}").reward)
    problems = ReasoningGym(task="knights_knaves", size=1, seed=3).held_out()
    first, _, second = problems[0].answers[0].rstrip(".").partition(", and ")
    assert graded([said(problems[0], rf"\boxed{{{second}, and {first}}}")])[0].right
    graded.close()

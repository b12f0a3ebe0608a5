"""Scores by hand, and an evaluation that gives back what the engine said."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edge_lightning.errors import UserError
from edge_lightning.evaluation import benchmark as module
from edge_lightning.evaluation.benchmark import Benchmark, evaluate, summarize, write_evaluation
from edge_lightning.evaluation.scores import mean_with_interval, pass_at_k
from edge_lightning.prompts import ChatPrompt
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.format import BoxedFormat
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.seeds import counter_seed
from edge_lightning.types import Generation, Problem, Provenance

PROBLEMS = [
    Problem(f"held_out-{n}", f"Start with {n}. Add 1. What is the result?", (str(n + 1),), "no use") for n in range(5)
]
BENCHMARK = Benchmark(name="smoke", problems=None, samples=4, temperature=0.7, top_p=0.9, response_limit=20, k=(1, 2))


@pytest.mark.parametrize(
    ("samples", "right", "k", "expected"),
    [
        (4, 1, 2, 0.5),  # 1 - C(3, 2) / C(4, 2) = 1 - 3 / 6
        (4, 2, 2, 5 / 6),  # 1 - C(2, 2) / 6
        (4, 3, 2, 1.0),  # one wrong among four cannot fill both places
        (4, 1, 1, 0.25),
        (8, 3, 4, 1 - 5 / 70),
        (4, 0, 4, 0.0),
        (4, 1, 4, 1.0),
    ],
)
def test_pass_at_k_is_the_chance_of_one_right_among_k(samples, right, k, expected):
    assert pass_at_k(samples, right, k) == pytest.approx(expected)


@pytest.mark.parametrize(("samples", "right", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_cannot_be(samples, right, k):
    with pytest.raises(ValueError, match=f"k={k}, n={samples}, c={right} came"):
        pass_at_k(samples, right, k)


@pytest.mark.parametrize("values", [[0.5], [0.0] * 40, [1.0, 1.0]])
def test_equal_values_have_an_interval_without_width(values):
    assert mean_with_interval(values) == (values[0], values[0], values[0])


def test_interval_of_many_problems_is_that_of_the_normal_approximation():
    values = [1.0] * 100 + [0.0] * 300
    mean, low, high = mean_with_interval(values)
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)  # 0.0424
    assert mean == 0.25
    assert low == pytest.approx(0.25 - half, abs=0.004)
    assert high == pytest.approx(0.25 + half, abs=0.004)
    assert mean_with_interval(values) == (mean, low, high)


def test_a_higher_confidence_has_a_wider_interval():
    values = [0.0, 0.0, 0.5, 1.0] * 10
    _, low, high = mean_with_interval(values)
    _, lower, higher = mean_with_interval(values, confidence=0.99)
    assert lower < low < 0.375 < high < higher


class Sayer:
    """An engine that says what it is told, and keeps what it was asked."""

    provenance = Provenance.SAMPLED
    max_model_len = 500

    def __init__(self, policy, say):
        self.policy, self.say, self.asked = policy, say, []

    def generate(self, requests, sampling, *, weights_version):
        self.asked += [(request, sampling, weights_version) for request in requests]
        said = [(*self.policy.encode(self.say(request)), self.policy.eos_ids[0]) for request in requests]
        return [Generation(ids, (-0.1,) * len(ids), "stop") for ids in said]


@pytest.fixture
def reward():
    grader = WeightedSum({"accuracy": BoxedAccuracy()})
    yield grader
    grader.close()


def evaluated(policy, reward, say, *, benchmark=BENCHMARK, provenance=Provenance.SAMPLED, **settings):
    engine = Sayer(policy, say)
    engine.provenance = provenance
    found = evaluate(
        benchmark,
        PROBLEMS,
        policy=policy,
        engine=engine,
        prompt=ChatPrompt(),
        reward=reward,
        **({"step": 9, "weights_version": 8} | settings),
    )
    return found, engine


def one_in_four(request):
    """Right for the second sample of each problem, wrong for the others, no box for the fourth."""
    index = [asked_seed(request.problem, i) for i in range(4)].index(request.seed)
    return [r"\boxed{0}", rf"\boxed{{{request.problem.answers[0]}}}", r"\boxed{-3}", "none"][index]


def asked_seed(problem, index):
    return counter_seed(0, "smoke", problem.id, index)


def test_copied_solutions_are_no_evaluation(tiny_policy, reward):
    with pytest.raises(UserError, match="an engine that samples from the policy expected"):
        evaluated(tiny_policy, reward, one_in_four, provenance=Provenance.REFERENCE)


@pytest.mark.parametrize("at_a_time", [1, 2, 64])
def test_every_problem_is_asked_once_for_each_sample(tiny_policy, reward, at_a_time):
    progress = []
    found, engine = evaluated(
        tiny_policy, reward, one_in_four, responses_at_a_time=at_a_time, on_progress=lambda done: progress.append(done)
    )
    expected = [(problem.id, index) for problem in PROBLEMS for index in range(4)]
    assert [(row["problem_id"], row["response_index"]) for row in found.rows] == expected
    assert len(engine.asked) == 20
    assert len({request.seed for request, _, _ in engine.asked}) == 20
    assert progress[-1] == 5


def test_what_was_asked_is_what_the_benchmark_says(tiny_policy, reward):
    _, engine = evaluated(tiny_policy, reward, one_in_four)
    for request, sampling, version in engine.asked:
        assert (sampling.temperature, sampling.top_p, version, request.max_tokens) == (0.7, 0.9, 8, 20)
        assert request.prompt_ids == ChatPrompt()(request.problem, tiny_policy.tokenizer)


def test_seeds_are_the_same_at_every_step_and_differ_between_benchmarks(tiny_policy, reward):
    first, _ = evaluated(tiny_policy, reward, one_in_four)
    later, _ = evaluated(tiny_policy, reward, one_in_four, step=500, weights_version=500)
    assert [r["seed"] for r in first.rows] == [r["seed"] for r in later.rows]
    other, _ = evaluated(tiny_policy, reward, lambda _: "", benchmark=replace(BENCHMARK, name="other"))
    assert not {r["seed"] for r in first.rows} & {r["seed"] for r in other.rows}


def test_metrics_follow_from_the_rows(tiny_policy, reward):
    found, _ = evaluated(tiny_policy, reward, one_in_four)
    tokens = [row["tokens"] for row in found.rows]
    assert found.metrics == {
        "accuracy": 0.25,
        "accuracy_low": 0.25,  # every problem is right once in four: no spread between problems
        "accuracy_high": 0.25,
        "pass@1": 0.25,
        "pass@2": 0.5,
        "formatted": 0.75,
        "truncated": 0.0,
        "tokens": sum(tokens) / 20,
        "problems": 5,
        "samples": 4,
    }


def test_accuracy_weighs_problems_and_its_interval_is_over_them():
    rows = [
        {"problem_id": p, "correct": right, "formatted": True, "finish_reason": end, "tokens": 3}
        for p, right, end in (("a", True, "stop"), ("a", True, "stop"), ("b", False, "length"), ("b", False, "stop"))
    ]
    found = summarize(rows, replace(BENCHMARK, samples=2, k=(2,)))
    assert found["accuracy"] == found["pass@2"] == 0.5
    assert (found["accuracy_low"], found["accuracy_high"]) == (0.0, 1.0)
    assert found["truncated"] == 0.25


# The contract of an evaluation file: other tools read it.
COLUMNS = {
    "step": "int64",
    "weights_version": "int64",
    "benchmark": "string",
    "problem_id": "string",
    "response_index": "int32",
    "text": "string",
    "answer": "string",
    "gold": "list<element: string>",
    "correct": "bool",
    "formatted": "bool",
    "finish_reason": "string",
    "tokens": "int32",
    "entropy": "float",
    "seed": "int64",
}


def test_an_evaluation_file_has_the_columns_of_the_contract(tiny_policy, reward, tmp_path):
    found, _ = evaluated(tiny_policy, reward, one_in_four)
    write_evaluation(tmp_path, found)
    path = tmp_path / "step_000009" / "smoke.parquet"
    assert {field.name: str(field.type) for field in pq.read_schema(path)} == COLUMNS
    right, _, bare = pq.read_table(path).to_pylist()[1:4]
    text = r"\boxed{1}"
    assert right == {
        "step": 9,
        "weights_version": 8,
        "benchmark": "smoke",
        "problem_id": "held_out-0",
        "response_index": 1,
        "text": text,
        "answer": "1",
        "gold": ["1"],
        "correct": True,
        "formatted": True,
        "finish_reason": "stop",
        "tokens": len(tiny_policy.encode(text)) + 1,
        "entropy": None,
        "seed": asked_seed(PROBLEMS[0], 1),
    }
    assert (bare["text"], bare["answer"], bare["correct"], bare["formatted"]) == ("none", None, False, False)
    assert [p.name for p in path.parent.iterdir()] == ["smoke.parquet"]


def test_wrong_responses_stay_as_the_engine_gave_them(tiny_policy, reward):
    """Correction would put an answer or a solution into each of them."""
    found, engine = evaluated(tiny_policy, reward, lambda _: r"It is \boxed{-1}.")
    assert {row["text"] for row in found.rows} == {r"It is \boxed{-1}."}
    assert found.metrics["accuracy"] == 0.0
    assert len(engine.asked) == 20  # nothing was asked to go on


def test_evaluation_imports_nothing_that_corrects():
    for path in Path(module.__file__).parent.glob("*.py"):
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        }
        assert not [name for name in names if "correct" in name or "experience" in name], path


def test_a_benchmark_takes_the_first_problems_and_refuses_more_than_there_are():
    assert replace(BENCHMARK, problems=3).choose(PROBLEMS) == PROBLEMS[:3]
    assert BENCHMARK.choose(PROBLEMS) == PROBLEMS
    with pytest.raises(UserError, match="evaluation smoke: 6 problems asked for, the data hold 5 held-out ones"):
        replace(BENCHMARK, problems=6).choose(PROBLEMS)
    with pytest.raises(UserError, match="evaluation smoke: 0 problems asked for"):
        BENCHMARK.choose([])


@pytest.mark.parametrize(
    ("wrong", "message"), [({"k": (5,)}, "k=.5., each between 1 and samples=4"), ({"k": (0,)}, "k=.0.")]
)
def test_a_k_beyond_the_samples_is_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        replace(BENCHMARK, **wrong)


def test_two_right_of_four_count_as_two(tiny_policy, reward):
    # pass@2 = 1 - C(2, 2) / C(4, 2) = 5/6; with one right it would be 1/2
    def two_in_four(request):
        index = [asked_seed(request.problem, i) for i in range(4)].index(request.seed)
        return rf"\boxed{{{request.problem.answers[0]}}}" if index < 2 else "none"

    found, _ = evaluated(tiny_policy, reward, two_in_four)
    assert found.metrics["accuracy"] == 0.5
    assert found.metrics["pass@2"] == pytest.approx(5 / 6)


def test_a_reward_for_the_format_makes_no_answer_correct(tiny_policy):
    both = WeightedSum({"accuracy": BoxedAccuracy(), "format": BoxedFormat(weight=1.0)})
    found, _ = evaluated(tiny_policy, both, lambda request: r"\boxed{-3}")
    both.close()
    assert found.metrics["formatted"] == 1.0
    assert found.metrics["accuracy"] == 0.0

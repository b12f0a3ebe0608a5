"""An evaluation asks for what its benchmark says, and gives back what the engine said, each response once."""

import ast
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from edge_lightning.errors import UserError
from edge_lightning.evaluation import suite as module
from edge_lightning.evaluation.benchmark import Exam
from edge_lightning.evaluation.record import EvaluationFile
from edge_lightning.evaluation.sampling import graded_rows
from edge_lightning.evaluation.suite import evaluate
from edge_lightning.prompts import ChatPrompt, PlainPrompt
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.format import BoxedFormat
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.seeds import counter_seed
from edge_lightning.types import Provenance
from tests.evaluation_fakes import BENCHMARK, EXAM, PROBLEMS, Sayer, TextReward, asked_seed, evaluated, figures, one_in_four


@pytest.fixture
def reward():
    grader = WeightedSum({"accuracy": BoxedAccuracy()})
    yield grader
    grader.close()


def test_copied_solutions_are_no_evaluation(tiny_policy, reward, tmp_path):
    with pytest.raises(UserError, match="an engine that samples from the policy expected"):
        evaluated(tiny_policy, reward, one_in_four, tmp_path, provenance=Provenance.REFERENCE)


@pytest.mark.parametrize("at_a_time", [1, 2, 8, 64])
def test_every_problem_is_asked_once_for_each_sample(tiny_policy, reward, at_a_time, tmp_path):
    progress = []
    exam = replace(EXAM, benchmark=replace(BENCHMARK, responses_at_a_time=at_a_time))
    rows, engine = evaluated(tiny_policy, reward, one_in_four, tmp_path, exam=exam, advance=progress.append)
    expected = [(problem.id, index) for problem in PROBLEMS for index in range(4)]
    assert [(row["problem_id"], row["response_index"]) for row in rows] == expected
    assert len(engine.asked) == 20
    assert len({request.seed for request, _, _ in engine.asked}) == 20
    assert progress[0] == 0
    assert progress[-1] == 5


def test_a_problem_text_that_stands_twice_is_two_problems(tiny_policy, reward, tmp_path):
    twice = [PROBLEMS[0], replace(PROBLEMS[0], id="again")]
    rows, engine = evaluated(
        tiny_policy, reward, lambda request: r"\boxed{1}", tmp_path, exam=Exam(BENCHMARK, twice, ChatPrompt())
    )
    assert len(engine.asked) == len({request.seed for request, _, _ in engine.asked}) == len(rows) == 8
    assert figures(rows)["problems"] == 2


def test_chunks_hold_whole_problems(tiny_policy):
    chunks = graded_rows(
        PROBLEMS,
        policy=tiny_policy,
        engine=Sayer(tiny_policy, one_in_four),
        prompt=ChatPrompt(),
        reward=TextReward(),
        sampling=BENCHMARK.sampling,
        samples=4,
        response_limit=20,
        seed_name="smoke",
        responses_at_a_time=11,  # 2 problems of 4
    )
    assert [len(chunk) for chunk in chunks] == [8, 8, 4]


def test_what_was_asked_is_what_the_benchmark_says(tiny_policy, reward, tmp_path):
    exam = replace(EXAM, prompt=PlainPrompt("{problem} Think.\n"))
    _, engine = evaluated(tiny_policy, reward, one_in_four, tmp_path, exam=exam)
    for request, sampling, version in engine.asked:
        assert (sampling.temperature, sampling.top_p, version, request.max_tokens) == (0.7, 0.9, 8, 20)
        assert request.prompt_ids == exam.prompt(request.problem, tiny_policy.tokenizer)


def test_seeds_are_the_same_at_every_step_and_differ_between_benchmarks(tiny_policy, reward, tmp_path):
    first, _ = evaluated(tiny_policy, reward, one_in_four, tmp_path)
    later, _ = evaluated(tiny_policy, reward, one_in_four, tmp_path, step=500, weights_version=500)
    assert [r["seed"] for r in first] == [r["seed"] for r in later]
    exam = replace(EXAM, benchmark=replace(BENCHMARK, name="other"))
    other, _ = evaluated(tiny_policy, reward, lambda _: "", tmp_path, exam=exam)
    assert not {r["seed"] for r in first} & {r["seed"] for r in other}


def test_another_seed_of_the_benchmark_draws_other_responses(tiny_policy, reward, tmp_path):
    exam = replace(EXAM, benchmark=replace(BENCHMARK, seed=1))
    rows, engine = evaluated(tiny_policy, reward, lambda _: "", tmp_path, exam=exam)
    seeds = [counter_seed(1, "smoke", problem.id, index) for problem in PROBLEMS for index in range(4)]
    assert [request.seed for request, _, _ in engine.asked] == [row["seed"] for row in rows] == seeds


def test_metrics_follow_from_the_rows(tiny_policy, reward, tmp_path):
    rows, _ = evaluated(tiny_policy, reward, one_in_four, tmp_path)
    tokens = [row["tokens"] for row in rows]
    assert figures(rows) == pytest.approx(
        {
            "accuracy": 0.25,
            "accuracy_low": 0.25,  # every problem is right once in four: no spread between problems
            "accuracy_high": 0.25,
            "avg@4": 0.25,
            "pass@1": 0.25,
            "pass@2": 0.5,
            "formatted": 0.75,
            "truncated": 0.0,
            "tokens": sum(tokens) / 20,
            "answer_entropy": 1.0,  # 0, the answer, -3 and none: four answers
            "collision_rate": 0.0,
            "problems": 5,
            "samples": 4,
        }
    )


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
    rows, _ = evaluated(tiny_policy, reward, one_in_four, tmp_path)
    path = tmp_path / "evaluation" / "step_000009" / "smoke.parquet"
    assert {field.name: str(field.type) for field in pq.read_schema(path)} == COLUMNS
    assert pq.read_table(path).to_pylist() == rows
    right, _, bare = rows[1:4]
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


class Cut(Sayer):
    def generate(self, requests, sampling, **more):
        said = super().generate(requests, sampling, **more)
        return [replace(each, finish_reason="length") if n % 4 == 0 else each for n, each in enumerate(said)]


def test_a_response_that_was_cut_off_counts_as_truncated(tiny_policy, tmp_path):
    settings = {"policy": tiny_policy, "reward": TextReward(), "folder": tmp_path, "step": 0, "weights_version": 0}
    rows = evaluate(EXAM, engine=Cut(tiny_policy, lambda _: "7"), **settings)
    assert [row["finish_reason"] for row in rows] == ["length", "stop", "stop", "stop"] * 5
    assert figures(rows)["truncated"] == 0.25


def test_a_row_has_every_gold_and_an_empty_box_is_a_box(tiny_policy, tmp_path):
    exam = replace(EXAM, problems=[replace(PROBLEMS[0], answers=("1", "one"))])
    rows, _ = evaluated(tiny_policy, TextReward(), lambda _: r"\boxed{}", tmp_path, exam=exam)
    assert [(row["gold"], row["answer"], row["formatted"]) for row in rows] == [(["1", "one"], "", True)] * 4


def test_wrong_responses_stay_as_the_engine_gave_them(tiny_policy, reward, tmp_path):
    """Correction would put an answer or a solution into each of them."""
    rows, engine = evaluated(tiny_policy, reward, lambda _: r"It is \boxed{-1}.", tmp_path)
    assert {row["text"] for row in rows} == {r"It is \boxed{-1}."}
    assert figures(rows)["accuracy"] == 0.0
    assert len(engine.asked) == 20  # nothing was asked to go on


def test_evaluation_imports_nothing_that_corrects():
    files = [*Path(module.__file__).parent.glob("*.py")]
    assert len(files) > 8
    for path in files:
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        }
        assert not [name for name in names if "correct" in name or "experience" in name or "cli" in name], path


def test_two_right_of_four_count_as_two(tiny_policy, reward, tmp_path):
    # pass@2 = 1 - C(2, 2) / C(4, 2) = 5/6; with one right it would be 1/2
    def two_in_four(request):
        index = [asked_seed(request.problem, i) for i in range(4)].index(request.seed)
        return rf"\boxed{{{request.problem.answers[0]}}}" if index < 2 else "none"

    rows, _ = evaluated(tiny_policy, reward, two_in_four, tmp_path)
    assert figures(rows)["accuracy"] == 0.5
    assert figures(rows)["pass@2"] == pytest.approx(5 / 6)


def test_a_reward_for_the_format_makes_no_answer_correct(tiny_policy, tmp_path):
    both = WeightedSum({"accuracy": BoxedAccuracy(), "format": BoxedFormat(weight=1.0)})
    rows, _ = evaluated(tiny_policy, both, lambda request: r"\boxed{-3}", tmp_path)
    both.close()
    assert figures(rows)["formatted"] == 1.0
    assert figures(rows)["accuracy"] == 0.0


# Stopped and gone on with


@pytest.mark.parametrize("keep", [0, 3, 200, -9])
def test_a_damaged_record_is_one_line_that_names_it(tmp_path, keep):
    file = EvaluationFile(tmp_path, "smoke", "mark")
    file.finish([{"problem_id": "a", "gold": ["1"]}])
    assert [row["problem_id"] for row in file.finished()] == ["a"]
    file.path.write_bytes(file.path.read_bytes()[:keep])
    with pytest.raises(UserError) as caught:
        file.finished()
    assert str(caught.value).startswith(f"{file.path}: the record of an evaluation expected, it is damaged (")
    assert str(caught.value).endswith("; remove it, and what it held is evaluated again")
    assert "\n" not in str(caught.value)


def test_a_record_whose_text_is_damaged_is_refused_too(tmp_path):
    file = EvaluationFile(tmp_path, "smoke", "mark")
    file.write_chunk([{"problem_id": "a", "gold": ["1"], "text": "some text"}], 0)
    (path,) = file.chunks_folder.iterdir()
    path.write_bytes(path.read_bytes().replace(b"some text", b"some\xfftext"))
    with pytest.raises(UserError, match="it is damaged \\(.*utf-8"):
        file.chunks()

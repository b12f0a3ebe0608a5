"""An evaluation gives back what the engine said, each response once, and goes on where it was stopped."""

import ast
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_lightning.errors import UserError
from edge_lightning.evaluation import suite as module
from edge_lightning.evaluation.benchmark import Benchmark, Exam
from edge_lightning.evaluation.metrics import summarize
from edge_lightning.evaluation.sampling import graded_rows
from edge_lightning.evaluation.shares import merge, share
from edge_lightning.evaluation.suite import evaluate, evaluate_suite
from edge_lightning.policy import Policy
from edge_lightning.prompts import ChatPrompt, PlainPrompt
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.format import BoxedFormat
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.seeds import counter_seed
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.types import Generation, Grade, Problem, Provenance

PROBLEMS = [
    Problem(f"held_out-{n}", f"Start with {n}. Add 1. What is the result?", (str(n + 1),), "no use") for n in range(5)
]
BENCHMARK = Benchmark(
    name="smoke", problems=None, prompt_limit=90, samples=4, temperature=0.7, top_p=0.9, response_limit=20, k=(1, 2)
)
EXAM = Exam(BENCHMARK, PROBLEMS, ChatPrompt())


class Sayer:
    """An engine that says what it is told, and keeps what it was asked."""

    provenance = Provenance.SAMPLED
    max_model_len = 500

    def __init__(self, policy, say, *, at_most=None):
        self.policy, self.say, self.asked, self.at_most = policy, say, [], at_most

    def generate(self, requests, sampling, *, weights_version):
        if self.at_most is not None and len(self.asked) + len(requests) > self.at_most:
            raise KeyboardInterrupt
        self.asked += [(request, sampling, weights_version) for request in requests]
        said = [(*self.policy.encode(self.say(request)), self.policy.eos_ids[0]) for request in requests]
        return [Generation(ids, (-0.1,) * len(ids), "stop") for ids in said]


class TextReward:
    """Right is a response that holds a box with the answer."""

    timeouts = 0

    def __call__(self, responses):
        right = [rf"\boxed{{{response.problem.answers[0]}}}" in response.text for response in responses]
        return [Grade(float(flag), flag) for flag in right]


@pytest.fixture
def reward():
    grader = WeightedSum({"accuracy": BoxedAccuracy()})
    yield grader
    grader.close()


def evaluated(policy, reward, say, folder, *, exam=EXAM, at_most=None, provenance=Provenance.SAMPLED, **settings):
    engine = Sayer(policy, say, at_most=at_most)
    engine.provenance = provenance
    rows = evaluate(
        exam,
        policy=policy,
        engine=engine,
        reward=reward,
        folder=folder,
        **({"step": 9, "weights_version": 8} | settings),
    )
    return rows, engine


def figures(rows):
    return summarize(rows, samples=4, k=(1, 2))


def one_in_four(request):
    """Right for the second sample of each problem, wrong for the others, no box for the fourth."""
    index = [asked_seed(request.problem, i) for i in range(4)].index(request.seed)
    return [r"\boxed{0}", rf"\boxed{{{request.problem.answers[0]}}}", r"\boxed{-3}", "none"][index]


def asked_seed(problem, index):
    return counter_seed(0, "smoke", problem.id, index)


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

BY_TWO = replace(EXAM, benchmark=replace(BENCHMARK, responses_at_a_time=8))  # chunks of 2 problems


def test_a_stopped_evaluation_goes_on_with_the_first_chunk_that_is_not_on_disk(tiny_policy, tmp_path):
    whole, _ = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "whole", exam=BY_TWO)
    with pytest.raises(KeyboardInterrupt):
        evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "run", exam=BY_TWO, at_most=12)
    step = tmp_path / "run" / "evaluation" / "step_000009"
    assert [path.name for path in step.rglob("*.parquet")] == ["000000.parquet"]
    progress = []
    rows, engine = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "run", exam=BY_TWO, advance=progress.append)
    assert [request.problem.id for request, _, _ in engine.asked[::4]] == ["held_out-2", "held_out-3", "held_out-4"]
    assert progress == [2, 4, 5]
    assert rows == whole
    assert [path.name for path in step.iterdir()] == ["smoke.parquet"]


@pytest.mark.parametrize("writes", [1, 2, 4])  # the first and second chunk, the finished file
def test_a_file_that_was_half_written_is_none(tiny_policy, writes, tmp_path, monkeypatch):
    whole, _ = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "whole", exam=BY_TWO)
    write_table, begun = pq.write_table, []

    def dies(table, where, **more):
        begun.append(where)
        write_table(table, where, **more)
        if len(begun) == writes:
            where.write_bytes(where.read_bytes()[:100])
            raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", dies)
    with pytest.raises(KeyboardInterrupt):
        evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "run", exam=BY_TWO)
    rows, _ = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "run", exam=BY_TWO)
    assert rows == whole


def test_a_finished_benchmark_is_read_back_and_not_asked_again(tiny_policy, tmp_path):
    first, _ = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path)
    progress = []
    again, engine = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path, at_most=0, advance=progress.append)
    assert engine.asked == []
    assert again == first
    assert progress == [5]


def test_a_finished_benchmark_that_lost_a_row_is_refused(tiny_policy, tmp_path):
    evaluated(tiny_policy, TextReward(), one_in_four, tmp_path)
    path = tmp_path / "evaluation/step_000009/smoke.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(ValueError, match="19 rows came, and problem 'held_out-0', response 0 is there 0 times"):
        evaluated(tiny_policy, TextReward(), one_in_four, tmp_path, at_most=0)


CHANGES = {
    "temperature": replace(EXAM, benchmark=replace(BENCHMARK, temperature=0.8)),
    "top_p": replace(EXAM, benchmark=replace(BENCHMARK, top_p=0.8)),
    "top_k": replace(EXAM, benchmark=replace(BENCHMARK, top_k=20)),
    "samples": replace(EXAM, benchmark=replace(BENCHMARK, samples=3)),
    "response_limit": replace(EXAM, benchmark=replace(BENCHMARK, response_limit=21)),
    "seed": replace(EXAM, benchmark=replace(BENCHMARK, seed=1)),
    "problems": replace(EXAM, problems=PROBLEMS[:4]),
    "names": replace(EXAM, problems=[replace(PROBLEMS[0], id="renamed"), *PROBLEMS[1:]]),
    "answers": replace(EXAM, problems=[replace(PROBLEMS[0], answers=("8",)), *PROBLEMS[1:]]),
    "prompt": replace(EXAM, prompt=PlainPrompt()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_other_settings_are_sampled_anew(tiny_policy, change, tmp_path):
    evaluated(tiny_policy, TextReward(), lambda _: "old", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        evaluated(tiny_policy, TextReward(), lambda _: "old", tmp_path, exam=BY_TWO, weights_version=3, at_most=12)
    exam = CHANGES[change]
    rows, engine = evaluated(tiny_policy, TextReward(), lambda _: "new", tmp_path, exam=exam)
    assert len(engine.asked) == len(rows) == len(exam.problems) * exam.benchmark.samples
    assert {row["text"] for row in rows} == {"new"}


def test_rows_of_other_weights_are_sampled_anew(tiny_policy, asset, tmp_path):
    evaluated(tiny_policy, TextReward(), lambda _: "old", tmp_path)
    rows, _ = evaluated(tiny_policy, TextReward(), lambda _: "new", tmp_path, weights_version=7)
    assert {row["text"] for row in rows} == {"new"}
    other = Policy.load(asset)
    with torch.no_grad():
        other.model.lm_head.weight.mul_(1.0001)
    rows, _ = evaluated(other, TextReward(), lambda _: "newer", tmp_path, weights_version=7)
    assert {row["text"] for row in rows} == {"newer"}


OTHERS = {
    "another class": type("OtherSayer", (Sayer,), {}),
    "less room": type("Sayer", (Sayer,), {"max_model_len": 30}),  # of which a prompt takes about 20
}


@pytest.mark.parametrize("kind", OTHERS)
def test_rows_of_another_engine_or_of_one_with_less_room_are_sampled_anew(tiny_policy, kind, tmp_path):
    settings = {"policy": tiny_policy, "reward": TextReward(), "folder": tmp_path, "step": 9, "weights_version": 8}
    evaluated(tiny_policy, TextReward(), lambda _: "old", tmp_path)
    rows = evaluate(EXAM, engine=OTHERS[kind](tiny_policy, lambda _: "new"), **settings)
    assert {row["text"] for row in rows} == {"new"}


def test_a_suite_skips_what_is_finished_and_averages_all(tiny_policy, tmp_path):
    exams = [replace(EXAM, benchmark=replace(BENCHMARK, name=name)) for name in ("one", "two", "three")]
    settings = {"policy": tiny_policy, "reward": TextReward(), "step": 0, "weights_version": 0}
    answer = lambda request: rf"\boxed{{{request.problem.answers[0]}}}" if request.seed % 3 else "none"  # noqa: E731
    whole = evaluate_suite(exams, engine=Sayer(tiny_policy, answer), folder=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        evaluate_suite(exams, engine=Sayer(tiny_policy, answer, at_most=20), folder=tmp_path / "run", **settings)
    reported, clock = [], Stopwatch()
    engine = Sayer(tiny_policy, answer)
    found = evaluate_suite(
        exams,
        engine=engine,
        folder=tmp_path / "run",
        report=lambda name, _: reported.append(name),
        clock=clock,
        **settings,
    )
    assert len(engine.asked) == 40
    assert reported == list(clock.seconds) == ["one", "two", "three"]
    assert all({f"{name}/pass@1", f"{name}/pass@2"} <= set(found) for name in reported)
    assert found == whole
    assert found["average/problems"] == 15
    assert found["average/accuracy"] == pytest.approx(sum(found[f"{name}/accuracy"] for name in reported) / 3)


# Ranks


def test_shares_by_hand():
    assert [share("abcdefg", rank=rank, world_size=3) for rank in range(3)] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]
    for rank in (3, -1):
        with pytest.raises(ValueError, match=f"rank={rank}, world_size=3"):
            share("abc", rank=rank, world_size=3)


@given(count=st.integers(1, 20), samples=st.integers(1, 4), world_size=st.integers(1, 8), at_a_time=st.integers(1, 20))
def test_any_layout_gives_the_rows_and_metrics_of_one_process(tiny_policy, count, samples, world_size, at_a_time):
    problems = [Problem(f"p{n}", f"What is {n}?", (str(n),)) for n in range(count)]

    def rows(mine, at_a_time):
        chunks = graded_rows(
            mine,
            policy=tiny_policy,
            engine=Sayer(
                tiny_policy, lambda request: rf"\boxed{{{request.problem.answers[0]}}}" if request.seed % 2 else "-"
            ),
            prompt=PlainPrompt(),
            reward=TextReward(),
            sampling=BENCHMARK.sampling,
            samples=samples,
            response_limit=20,
            seed_name="ranks",
            responses_at_a_time=at_a_time,
        )
        return [row for chunk in chunks for row in chunk]

    alone = rows(problems, 1000)
    parts = [rows(share(problems, rank=rank, world_size=world_size), at_a_time) for rank in reversed(range(world_size))]
    merged = merge(parts, problems, samples)
    assert merged == alone
    assert summarize(merged, samples=samples, k=(1,)) == summarize(alone, samples=samples, k=(1,))


ROWS = [{"problem_id": p, "response_index": i} for p in "ab" for i in range(2)]
AB = [Problem("a", "?", ("1",)), Problem("b", "?", ("1",))]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([ROWS[:3]], "3 rows came, and problem 'b', response 1 is there 0 times"),
        ([ROWS, ROWS[:1]], "5 rows came, and problem 'a', response 0 is there 2 times"),
        ([ROWS[:2]], "2 rows came, and problem 'b', response 0 is there 0 times"),
        ([ROWS, [{"problem_id": "c", "response_index": 0}]], "5 rows came, and problem 'c', response 0 is there 1 times"),
        ([ROWS[1:], [{"problem_id": "a", "response_index": 2}]], "problem 'a', response 0 is there 0 times"),
        ([], "0 rows came"),
    ],
)
def test_rows_that_are_missing_or_there_twice_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        merge(parts, AB, 2)
    assert merge([ROWS[2:], ROWS[:2]], AB, 2) == ROWS


def test_two_problems_of_one_name_are_refused():
    with pytest.raises(ValueError, match="problem 'a', response 0 is there 2 times"):
        merge([[{"problem_id": "a", "response_index": 0}] * 2], [AB[0], AB[0]], 1)


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_that_share_a_folder_get_the_rows_of_one(tiny_policy, world_size, tmp_path):
    whole, _ = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):  # a layout of one left a chunk behind
        evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "run", exam=BY_TWO, at_most=12)
    meet, found, asked = threading.Barrier(world_size), {}, []

    def work(rank):
        found[rank], engine = evaluated(
            tiny_policy,
            TextReward(),
            one_in_four,
            tmp_path / "run",
            rank=rank,
            world_size=world_size,
            barrier=lambda: meet.wait(20),
        )
        asked.append(len(engine.asked))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == dict.fromkeys(range(world_size), whole)
    assert sum(asked) == 12  # 3 problems of 4
    assert [path.name for path in (tmp_path / "run").rglob("*.parquet")] == ["smoke.parquet"]

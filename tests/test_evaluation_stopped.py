"""An evaluation goes on where it was stopped, and takes no row of another one."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch

from edge_lightning.evaluation.suite import evaluate, evaluate_suite
from edge_lightning.policy import Policy
from edge_lightning.prompts import PlainPrompt
from edge_lightning.stopwatch import Stopwatch
from tests.evaluation_fakes import BENCHMARK, BY_TWO, EXAM, PROBLEMS, Sayer, TextReward, evaluated, one_in_four


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

"""Evaluations that are stopped in the middle, of a training and of a validation, and gone on with."""

import inspect
import json
import shutil
import time

import pytest

from edge_lightning.engine.hf import HfEngine
from tests.run_record import SMALL, assert_same_run, checkpoint, evaluations, finish, here, process, summary

pytestmark = pytest.mark.slow

BENCHMARK = (
    "{{_target_:edge_lightning.evaluation.benchmark.Benchmark,name:{name},problem_set:null,problems:{problems},prompt:null,"
    "prompt_limit:96,samples:2,temperature:{temperature},top_p:1.0,response_limit:48,k:[1,2],responses_at_a_time:4}}"
)
FIRST, SECOND, THIRD = (
    f"+evaluation.benchmarks.{name}={BENCHMARK.format(name=name, problems=problems, temperature=temperature)}"
    for name, problems, temperature in (("first", 3, 0.7), ("second", 4, 1.0), ("third", 5, 0.9))
)
TWO = ("evaluation.benchmarks.smoke=null", FIRST, SECOND, "evaluation.monitor=evaluation/average/accuracy")
LINE = (
    *SMALL,
    *TWO,
    "optimizer.lr=1e-3",
    "steps=3",
    "evaluation.every_n_steps=2",
    "callbacks.last_checkpoint.every_n_steps=9",
)


@pytest.fixture
def stop_after(monkeypatch):
    """stop_after(n): Ctrl-C in the n-th call for an evaluation; gives the list of what was asked before it."""
    generate = HfEngine.generate

    def arrange(calls):
        asked = []

        def counted(self, requests, sampling, *, weights_version):
            if any(frame.function == "evaluate_suite" for frame in inspect.stack(0)):
                if len(asked) == calls:
                    raise KeyboardInterrupt
                asked.append([request.problem.id for request in requests])
            return generate(self, requests, sampling, weights_version=weights_version)

        monkeypatch.setattr(HfEngine, "generate", counted)
        return asked

    return arrange


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert here("fit", folder, *LINE) == 0
    return folder


# Each evaluation asks 2 chunks of `first` (2 problems, 1) and 2 of `second` (2, 2); before, at step 2, at step 3.
@pytest.mark.parametrize(("stop", "step", "left"), [(4 + 1, 2, 3 + 4), (4 + 3, 2, 1 + 4), (8 + 2, 3, 2), (8 + 3, 3, 1)])
def test_a_training_that_is_stopped_inside_an_evaluation_asks_for_the_rest_of_it(
    unbroken, stop_after, stop, step, left, tmp_path
):
    folder = tmp_path / "run"
    stop_after(stop)
    assert here("fit", folder, *LINE) == 1
    assert checkpoint(folder)["global_step"] == step
    assert len(list((folder / "evaluation" / f"step_{step:06d}").rglob("*.parquet"))) > 0
    asked = stop_after(-1)
    assert here("fit", folder, f"resume={folder}") == 0
    assert len(asked) == left
    assert_same_run(unbroken, folder)
    assert not list(folder.rglob("*.chunks"))


def test_the_summary_has_the_benchmarks_and_their_averages_before_and_after(unbroken):
    for when in ("before", "after"):
        found = summary(unbroken)[when]
        assert (found["first/problems"], found["second/problems"], found["average/problems"]) == (3, 4, 7)
        pooled = (3 * found["first/accuracy"] + 4 * found["second/accuracy"]) / 7
        assert found["average/accuracy"] == pytest.approx(pooled)
        plain = (found["first/accuracy"] + found["second/accuracy"]) / 2
        assert found["average/accuracy_of_benchmarks"] == pytest.approx(plain)
    assert (unbroken / "checkpoints" / "best.ckpt").exists()  # by the average, in a run that has no `smoke`


THREE = (*TWO, THIRD)


@pytest.fixture(scope="module")
def validated(asset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("validated") / "run"
    assert here("validate", folder, f"ckpt={asset}", *THREE) == 0
    return folder


@pytest.fixture(scope="module")
def killed(asset, tmp_path_factory):
    """A validation in a process of its own, killed without warning once its first benchmark is on disk."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    line = ("engine=hf", f"ckpt={asset}", *THREE, f"hydra.run.dir={folder}")
    started = process("validate", *line)
    begun = time.monotonic()
    while not (folder / "evaluation" / "step_000000" / "first.parquet").exists():
        assert started.poll() is None, started.communicate()
        assert time.monotonic() - begun < 200
        time.sleep(0.001)
    started.kill()
    finish(started, status=-9)
    return folder


def assert_same_validation(one, other):
    assert evaluations(one).keys() == evaluations(other).keys()
    assert all(table.equals(evaluations(other)[name]) for name, table in evaluations(one).items())
    assert summary(one)["metrics"] == summary(other)["metrics"]


def test_a_killed_validation_goes_on_and_equals_the_unbroken_one(validated, killed, stop_after, tmp_path):
    assert not (killed / "summary.json").exists()
    folder = shutil.copytree(killed, tmp_path / "a=b, c")
    finished = folder / "evaluation" / "step_000000" / "first.parquet"
    written = finished.stat().st_mtime_ns
    asked = stop_after(-1)
    assert here("validate", folder, f"resume={folder}") == 0
    assert finished.stat().st_mtime_ns == written
    # `second` and `third` have 2 and 3 chunks, of which some may have been on disk already
    assert 1 <= len(asked) <= 5
    assert_same_validation(validated, folder)
    assert summary(folder)["status"] == "finished"


def test_an_interrupted_validation_says_how_to_go_on(asset, validated, stop_after, tmp_path, capfd):
    folder = tmp_path / "run"
    stop_after(3)
    assert here("validate", folder, f"ckpt={asset}", *THREE) == 1
    err = capfd.readouterr().err
    last = err.splitlines()[-1]
    assert last.endswith(f"interrupted after 1 of 3 benchmarks; go on with edge-lightning validate resume={folder}")
    asked = stop_after(-1)
    assert here("validate", folder, f"resume={folder}") == 0
    assert len(asked) == 1 + 3
    assert_same_validation(validated, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("evaluation.benchmarks.second.samples=4", "evaluation.benchmarks.second.samples was 2 in that run, 4 came"),
        ("data.problem_set.seed=1", "data.problem_set.seed was 0 in that run, 1 came"),
        ("reward.parts.accuracy.weight=2", "reward.parts.accuracy.weight was 1.0 in that run, 2 came"),
        ("ckpt=else/where", "ckpt was "),
    ],
)
def test_what_would_mix_two_evaluations_is_refused_by_name(killed, change, message, tmp_path, capfd):
    folder = shutil.copytree(killed, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert here("validate", folder, f"resume={folder}", change) == 1
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_what_only_decides_how_it_runs_may_change(validated, killed, tmp_path):
    folder = shutil.copytree(killed, tmp_path / "run")
    assert here("validate", folder, f"resume={folder}", "engine.max_batch=3", "cpu_threads=1") == 0
    assert summary(folder)["metrics"] == summary(validated)["metrics"]


def test_a_finished_validation_has_nothing_to_go_on_with(validated, capfd):
    assert here("validate", validated, f"resume={validated}") == 1
    err = capfd.readouterr().err
    assert f"resume={validated}: an unfinished run expected, that one has done all it had to do; start a new run" in err
    assert err.count("\n") == 1


def test_a_second_validation_in_the_same_folder_is_refused(asset, validated, capfd):
    before = json.dumps(summary(validated))
    assert here("validate", validated, f"ckpt={asset}", *THREE) == 1
    assert f"hydra.run.dir={validated}: the record of a run is there already" in capfd.readouterr().err
    assert json.dumps(summary(validated)) == before


def test_a_folder_is_gone_on_with_by_the_command_that_made_it(validated, unbroken, tmp_path, capfd):
    assert here("fit", tmp_path, f"resume={validated}") == 1
    assert "that folder is of edge-lightning validate; go on with it by that command" in capfd.readouterr().err
    assert here("validate", tmp_path, f"resume={unbroken}") == 1
    assert "that folder is of edge-lightning fit" in capfd.readouterr().err
    assert here("validate", tmp_path, f"resume={tmp_path}") == 1
    assert "the folder of a validate that has begun expected" in capfd.readouterr().err

"""Runs that are stopped and gone on with, in this process, with the engine that starts at once."""

import errno
import json
import os
import shutil
import signal
import tempfile

import pytest

from edge_lightning.cli.fit import fit
from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.resume import claimed, refuse_other_data
from edge_lightning.errors import UserError
from edge_lightning.experience import Pipeline
from edge_lightning.policy import Policy
from edge_lightning.training.evaluation_callback import EvaluationCallback
from tests.run_record import EVALUATION, SMALL, TINY, assert_same_run, checkpoint, here, metrics, rollouts, summary, weights

pytestmark = pytest.mark.slow

LINE = (*TINY, "steps=4", "schedule=linear", "evaluation.every_n_steps=2", "callbacks.last_checkpoint.every_n_steps=1")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert here("fit", folder, *LINE) == 0
    return folder


@pytest.fixture
def copy(unbroken, tmp_path):
    """The finished run in a folder that a test may change."""
    return shutil.copytree(unbroken, tmp_path / "copy")


@pytest.fixture
def stop_at(monkeypatch):
    """stop_at(step, act): do something in the middle of a step, before anything is sampled."""
    fill = Pipeline.fill

    def arrange(step, act):
        def interrupted(self, rollout, **settings):
            if rollout.step == step:
                act()
            fill(self, rollout, **settings)

        monkeypatch.setattr(Pipeline, "fill", interrupted)

    return arrange


@pytest.fixture(autouse=True)
def handler_of_interrupts():
    """Lightning ignores Ctrl-C once it has seen one."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def press_control_c():
    raise KeyboardInterrupt


def test_the_same_seed_gives_the_same_run_and_another_seed_another(unbroken, tmp_path):
    assert here("fit", tmp_path / "same", *LINE) == 0
    assert_same_run(unbroken, tmp_path / "same")
    assert here("fit", tmp_path / "other", *LINE, "seed=1") == 0
    assert weights(tmp_path / "other") != weights(unbroken)
    for column in ("problem_id", "seed", "completion_ids"):
        assert rollouts(tmp_path / "other")[column] != rollouts(unbroken)[column]


def test_a_run_that_is_interrupted_twice_ends_as_the_unbroken_one(unbroken, tmp_path, stop_at, capfd):
    folder = tmp_path / "run"
    stop_at(1, press_control_c)
    assert here("fit", folder, *LINE) == 1
    assert f"interrupted after 1 of 4 steps, 1 of them in {folder}/checkpoints/last.ckpt" in capfd.readouterr().err
    assert (summary(folder)["status"], summary(folder)["steps"]) == ("interrupted", 1)
    # as a run of two processes with other evaluations left it, and this one will not write it again
    shutil.copy(folder / "rollouts" / "step_000000_rank_0.parquet", folder / "rollouts" / "step_000002_rank_1.parquet")
    shutil.copytree(folder / "evaluation" / "step_000000", folder / "evaluation" / "step_000003")
    stop_at(3, press_control_c)
    before = summary(folder)["seconds"]
    assert here("fit", folder, f"resume={folder}") == 1
    for name in ("evaluate", "start", "whole_run"):  # of all of its processes, as the seconds of the stages are
        assert summary(folder)["seconds"][name] > before[name] > 0
    err = capfd.readouterr().err
    assert f"interrupted after 3 of 4 steps, 3 of them in {folder}/checkpoints/last.ckpt; go on with" in err
    assert err.count("\n") == 4  # what the data hold, the run's name, the evaluation of step 2, and this
    stop_at(-1, press_control_c)
    assert here("fit", folder, f"resume={folder}") == 0
    assert_same_run(unbroken, folder)
    assert sorted(place.name for place in (folder / "evaluation").iterdir()) == ["step_000000", "step_000002", "step_000004"]


def test_a_terminated_run_says_so_and_goes_on(unbroken, tmp_path, stop_at, capfd):
    folder = tmp_path / "run"
    stop_at(2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert here("fit", folder, *LINE) == 1
    assert "interrupted after 2 of 4 steps" in capfd.readouterr().err
    assert summary(folder)["status"] == "interrupted"
    stop_at(-1, press_control_c)
    assert here("fit", folder, f"resume={folder}") == 0
    assert_same_run(unbroken, folder)


def test_a_run_beside_one_at_work_spoils_no_record(unbroken, copy, capfd):
    for name in ("summary.json", "metrics.csv"):
        (copy / name).unlink()
    shutil.rmtree(copy / "evaluation")  # as it is before its first step
    with claimed(copy):
        assert here("fit", copy, *LINE, "seed=1") == 1
    assert "another process is at work in this folder" in capfd.readouterr().err
    assert (copy / ".hydra" / "overrides.yaml").read_text() == (unbroken / ".hydra" / "overrides.yaml").read_text()


def test_a_signal_behind_the_last_step_is_an_interruption(unbroken, tmp_path, monkeypatch, capfd):
    plain = Policy.save

    def save(self, folder, **settings):
        press_control_c()

    monkeypatch.setattr(Policy, "save", save)
    assert here("fit", tmp_path, *LINE) == 1
    assert f"interrupted after 4 of 4 steps, 4 of them in {tmp_path}/checkpoints/last.ckpt" in capfd.readouterr().err
    assert summary(tmp_path)["status"] == "interrupted"
    monkeypatch.setattr(Policy, "save", plain)
    assert here("fit", tmp_path, f"resume={tmp_path}") == 0
    assert_same_run(unbroken, tmp_path)


def test_a_run_that_was_killed_in_its_first_evaluation_is_no_dead_end(copy, capfd):
    for name in ("summary.json", "metrics.csv"):
        (copy / name).unlink()
    shutil.rmtree(copy / "checkpoints")
    assert here("fit", copy, *LINE) == 1
    assert "the record of a run is there already; move it away, or give another folder" in capfd.readouterr().err


def test_a_checkpoint_stands_in_front_of_each_evaluation(tmp_path, monkeypatch):
    plain, found = EvaluationCallback._evaluate, []

    def evaluate(self, trainer, pl_module):
        found.append((trainer.global_step, trainer.global_step and checkpoint(tmp_path)["global_step"]))
        plain(self, trainer, pl_module)

    monkeypatch.setattr(EvaluationCallback, "_evaluate", evaluate)
    assert here("fit", tmp_path, *LINE, "callbacks.last_checkpoint.every_n_steps=25") == 0
    assert found == [(0, 0), (2, 2), (4, 4)]


def test_a_run_that_fails_is_recorded_as_failed(tmp_path, stop_at):
    def fail():
        raise RuntimeError("the disk is full")

    stop_at(1, fail)
    with pytest.raises(RuntimeError, match="the disk is full"):
        here("fit", tmp_path, *LINE)
    assert (summary(tmp_path)["status"], summary(tmp_path)["steps"]) == ("failed", 1)
    assert not (tmp_path / "checkpoints" / "hf").exists()


def test_a_run_killed_behind_its_last_step_is_completed_without_another(unbroken, copy):
    (copy / "summary.json").unlink()
    shutil.rmtree(copy / "checkpoints" / "hf")
    assert here("fit", copy, f"resume={copy}") == 0
    assert_same_run(unbroken, copy)


def test_a_finished_run_has_nothing_to_go_on_with(unbroken, copy, capfd):
    assert here("fit", copy, f"resume={copy}") == 1
    err = capfd.readouterr().err
    assert err.startswith(
        f"edge-lightning fit: resume={copy}: an unfinished run expected, that one has done all it had to do"
    )
    assert err.count("\n") == 1
    assert_same_run(unbroken, copy)


def test_a_changed_key_is_refused_and_leaves_no_trace(unbroken, tmp_path, stop_at, capfd):
    folder = tmp_path / "run"
    stop_at(2, press_control_c)
    here("fit", folder, *LINE)
    stop_at(-1, press_control_c)
    capfd.readouterr()
    assert here("fit", folder, f"resume={folder}", "rollout.temperature=0.5") == 1
    err = capfd.readouterr().err
    assert "rollout.temperature was 1.0 in that run, 0.5 came; leave it as it was, or start a new run" in err
    assert err.count("\n") == 1
    assert here("fit", folder, f"resume={folder}") == 0
    assert_same_run(unbroken, folder)


def test_other_problems_behind_the_same_path_are_refused(tmp_path, stop_at, capfd):
    rows = [{"problem": f"Start with {n}. Add 1. What is the result?", "answer": n + 1} for n in range(20)]
    path = tmp_path / "set.json"
    path.write_text(json.dumps(rows))
    data = ("data=math_json", f"data.problem_set.path={path}", "data.problem_set.held_out_share=0", "evaluation=none")
    stop_at(2, press_control_c)
    small = ("steps=4", "callbacks.last_checkpoint.every_n_steps=1", *SMALL)
    assert here("fit", tmp_path / "run", *small, *data) == 1
    rows[7]["answer"] = 80
    path.write_text(json.dumps(rows))
    capfd.readouterr()
    assert run("fit", [f"resume={tmp_path / 'run'}"], fit) == 1
    assert f"the problems of {path} are not those that the run began with" in capfd.readouterr().err
    rows[7]["answer"] = 8
    path.write_text(json.dumps(rows))
    stop_at(9, press_control_c)
    assert run("fit", [f"resume={tmp_path / 'run'}"], fit) == 0
    assert len(metrics(tmp_path / "run")) == 4


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_damaged_findings_of_the_data_are_one_line(tmp_path, content):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(UserError, match=f"^{tmp_path}/data.json: what a run found in its data expected, it was damaged"):
        refuse_other_data({"fingerprint": "f", "source": "s"}, tmp_path)


def test_the_learning_rate_may_change_and_does(unbroken, tmp_path, stop_at):
    folder = tmp_path / "run"
    stop_at(2, press_control_c)
    here("fit", folder, *LINE)
    stop_at(-1, press_control_c)
    assert here("fit", folder, f"resume={folder}", "optimizer.lr=4e-3") == 0
    rates = [float(row["learning_rate"]) for row in metrics(folder)]
    assert rates == pytest.approx([1e-3, 0.75e-3, 2e-3, 1e-3])
    assert weights(folder) != weights(unbroken)


def test_the_last_checkpoint_is_that_of_the_last_step(tmp_path):
    assert here("fit", tmp_path, *SMALL, "steps=3", "evaluation=none", "callbacks.last_checkpoint.every_n_steps=2") == 0
    assert checkpoint(tmp_path)["global_step"] == 3
    assert [path.name for path in (tmp_path / "checkpoints").glob("last*")] == ["last.ckpt"]


def test_what_died_before_its_first_step_may_be_begun_again_with_other_data(copy):
    for name in ("checkpoints", "evaluation", "rollouts", "tensorboard", "policy"):
        shutil.rmtree(copy / name)
    for name in ("summary.json", "metrics.csv"):
        (copy / name).unlink()
    assert here("fit", copy, *LINE, "data=arithmetic_moderate") == 0
    assert json.loads((copy / "data.json").read_text())["fingerprint"]


def test_no_checkpoint_goes_through_the_folder_of_temporary_files(unbroken, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert here("fit", tmp_path / "run", *LINE) == 0
    assert_same_run(tmp_path / "run", unbroken)
    assert checkpoint(tmp_path / "run")["global_step"] == 4


def test_a_second_run_in_the_same_folder_is_refused_however_the_first_ended(unbroken, copy, capfd):
    for gone in ("nothing", "summary.json", "metrics.csv"):  # of a run that was killed, and killed in its first evaluation
        (copy / gone).unlink(missing_ok=True)
        assert here("fit", copy, *LINE, "seed=1") == 1
        assert f"hydra.run.dir={copy}: the record of a run is there already" in capfd.readouterr().err
    assert (copy / ".hydra" / "overrides.yaml").read_text() == (unbroken / ".hydra" / "overrides.yaml").read_text()
    assert weights(copy) == weights(unbroken)
    assert rollouts(copy).equals(rollouts(unbroken))


@pytest.mark.parametrize("place", ["", "checkpoints/hf"])
def test_validation_of_a_run_and_of_its_export_give_the_figures_of_its_last_evaluation(unbroken, place, tmp_path):
    assert here("validate", tmp_path, f"ckpt={unbroken / place}", *EVALUATION) == 0
    assert summary(tmp_path)["metrics"] == summary(unbroken)["after"]
    assert summary(tmp_path)["status"] == "finished"

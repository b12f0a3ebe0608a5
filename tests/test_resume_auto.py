"""resume=auto: the newest unfinished run of a line, or a new one; changed keys are listed, and allowed or refused."""

import json
import shutil

import pytest

from edge_lightning.cli.resume import claimed
from tests.run_record import SMALL, checkpoint, here, metrics, summary
from tests.test_resume import handler_of_interrupts, press_control_c, stop_at  # noqa: F401

pytestmark = pytest.mark.slow
LINE = (*SMALL, "optimizer.lr=1e-3", "steps=3", "evaluation=none", "schedule=linear")


@pytest.fixture
def stopped(tmp_path, stop_at):  # noqa: F811
    """A run that was interrupted in its second step."""
    folder = tmp_path / "runs" / "2026-01-02_00-00-00"
    stop_at(1, press_control_c)
    assert here("fit", folder, *LINE) == 1
    stop_at(-1, press_control_c)
    return folder


def auto(stopped, capfd, *overrides, at=None):
    """What resume=auto makes of a line whose run would go to `at`, or beside `stopped`."""
    from edge_lightning.cli.hydra_app import _composed
    from edge_lightning.cli.resume_auto import resume_auto

    def compose(given):
        cfg = _composed("fit", given)
        cfg.hydra.run.dir = str(at or stopped.parent / "2026-09-09_00-00-00")
        return cfg

    found = resume_auto(["engine=hf", *LINE, *overrides, "resume=auto"], compose)
    return found, capfd.readouterr().err


def test_the_newest_unfinished_run_of_the_line_is_gone_on_with(stopped, capfd):
    older = shutil.copytree(stopped, stopped.parent / "2026-01-01_00-00-00")
    newer = shutil.copytree(stopped, stopped.parent / "2026-01-03_00-00-00")
    found, said = auto(stopped, capfd)
    assert (found[-3:], said) == (
        [f"resume='{newer}'", f"hydra.run.dir='{newer}'", "hydra.output_subdir=null"],
        f"resume=auto: going on with {newer}\n",
    )
    (newer / "summary.json").write_text(json.dumps({**summary(newer), "status": "finished"}))
    assert auto(stopped, capfd)[0][-3] == f"resume='{stopped}'"
    assert auto(stopped, capfd, "engine.stall_s=9")[0][-3] == f"resume='{stopped}'"  # the same experiment
    others = ("seed=1", "model=tiny_untrained", "data=arithmetic_moderate", "rollout.temperature=0.5")
    for other in (*others, "optimizer.lr=1e-4", "steps=9", "evaluation=smoke"):
        found, said = auto(stopped, capfd, other)
        assert not any(o.startswith("resume=") for o in found)
        assert said.endswith("resume=auto: no unfinished run of this line; beginning one\n")
    with claimed(stopped):  # another process is at work in it
        assert auto(stopped, capfd)[0][-3] == f"resume='{older}'"
    assert auto(stopped, capfd)[0][-3] == f"resume='{stopped}'"
    shutil.rmtree(stopped / "checkpoints")
    assert auto(stopped, capfd)[0][-3] == f"resume='{older}'"


def test_a_line_with_a_folder_of_its_own_looks_at_that_alone(stopped, capfd):
    for folder, goes_on in ((stopped.parent / "another", False), (stopped, True)):
        found, said = auto(folder, capfd, f"hydra.run.dir={folder}", at=folder)
        assert (f"resume='{folder}'" in found) is goes_on
        assert ("no unfinished run of this line" in said) is not goes_on
    place = f"hydra.run.dir={stopped}"
    assert f"resume='{stopped}'" in auto(stopped, capfd, place, "optimizer.lr=1e-4", "steps=9", at=stopped)[0]


def test_what_a_line_of_auto_did_not_make_stays_where_it_is(stopped, tmp_path, capfd):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "thesis.tex").write_text("")
    assert "moved aside" not in auto(notes, capfd, f"hydra.run.dir={notes}", at=notes)[1]
    assert (notes / "thesis.tex").exists()
    assert here("fit", stopped, *LINE, "seed=1", "resume=auto") == 1
    said = capfd.readouterr().err
    assert "moved aside" not in said
    assert f"the record of a run is there already; go on with it by resume={stopped}, or give another folder" in said


def test_what_was_changed_on_resume_holds_for_the_next_one(stopped, stop_at, capfd):  # noqa: F811
    stop_at(2, press_control_c)
    assert here("fit", stopped, f"resume={stopped}", "optimizer.lr=4e-3", "steps=5") == 1
    assert f"interrupted after 2 of 5 steps, 2 of them in {stopped}/checkpoints/last.ckpt" in capfd.readouterr().err
    stop_at(-1, press_control_c)
    assert here("fit", stopped, f"resume={stopped}") == 0
    assert "steps was 3 in that run, 5 came" in capfd.readouterr().err
    rates = [float(row["learning_rate"]) for row in metrics(stopped)]
    assert rates == pytest.approx([1e-3, 4e-3 * 4 / 5, 4e-3 * 3 / 5, 4e-3 * 2 / 5, 4e-3 / 5])


def test_what_ended_before_its_first_checkpoint_is_moved_aside_and_begun_again(tmp_path, stop_at, capfd):  # noqa: F811
    folder = tmp_path / "run"
    stop_at(0, press_control_c)
    assert here("fit", folder, *LINE, "resume=auto") == 1
    assert "before the first checkpoint" in capfd.readouterr().err
    stop_at(-1, press_control_c)
    assert here("fit", folder, *LINE, "resume=auto") == 0
    assert f"moved aside what ended before its first checkpoint, to {folder}-1" in capfd.readouterr().err
    assert (summary(folder)["status"], summary(tmp_path / "run-1")["status"]) == ("finished", "interrupted")


def test_changed_keys_are_listed_and_all_that_may_not_change_are_refused(stopped, capfd):
    assert here("fit", stopped, f"resume={stopped}", "seed=1", "data=arithmetic_moderate", "model.dtype=bfloat16") == 1
    refused = capfd.readouterr().err
    assert "seed was 0 in that run, 1 came" in refused
    assert "model.dtype was 'float32' in that run, 'bfloat16' came" in refused
    assert "data.name was 'arithmetic_hard' in that run, 'arithmetic_moderate' came" in refused
    assert refused.count("\n") == 1
    capfd.readouterr()
    assert here("fit", stopped, f"resume={stopped}", "optimizer.lr=4e-3", "steps=5") == 0
    said = capfd.readouterr().err
    assert f"resume={stopped}: optimizer.lr was 0.001 in that run, 0.004 came" in said
    assert f"resume={stopped}: steps was 3 in that run, 5 came" in said
    assert "datamodule.steps" not in said  # which follows it
    rates = [float(row["learning_rate"]) for row in metrics(stopped)]
    assert rates == pytest.approx([1e-3, 4e-3 * 4 / 5, 4e-3 * 3 / 5, 4e-3 * 2 / 5, 4e-3 / 5])
    assert checkpoint(stopped)["global_step"] == 5


def test_steps_that_are_done_are_not_taken_back(stopped, capfd):
    assert here("fit", stopped, f"resume={stopped}", "steps=0") == 1
    assert "steps=0 came, that run has done 1, more than these expected" in capfd.readouterr().err


def test_a_damaged_checkpoint_is_refused_and_without_it_the_one_before_is_taken(tmp_path, stop_at, capfd):  # noqa: F811
    folder = tmp_path / "run"
    stop_at(2, press_control_c)
    here("fit", folder, *LINE, "callbacks.last_checkpoint.every_n_steps=1")
    stop_at(-1, press_control_c)
    last = folder / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:-1000])
    capfd.readouterr()
    assert here("fit", folder, f"resume={folder}") == 1
    said = capfd.readouterr().err
    assert f"{last}: a checkpoint of this program expected, no whole checkpoint came; remove it" in said
    assert said.count("\n") == 1
    last.unlink()
    assert here("fit", folder, f"resume={folder}") == 0
    assert [int(row["step"]) for row in metrics(folder)] == [0, 1, 2]


def test_other_commands_have_no_auto(tmp_path, capfd):
    assert here("validate", tmp_path, "ckpt=x", "resume=auto") == 1
    assert "resume=auto: edge-lightning validate goes on with resume=DIR alone" in capfd.readouterr().err

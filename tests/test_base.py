"""ablation=base: the untrained policy is evaluated, and nothing is trained."""

import pytest

from edge_lightning.cli.multirun import result
from tests.run_record import EVALUATION, SMALL, evaluations, here, summary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "run"
    assert here("fit", folder, "ablation=base", "steps=3", *SMALL, *EVALUATION) == 0
    return folder


def test_the_untrained_policy_is_evaluated_and_nothing_is_trained(base):
    found = summary(base)
    assert (found["ablation"], found["status"], found["steps"]) == ("base", "finished", 0)
    assert (found["evaluated_steps"], found["after"], found["tokens"]) == ([0], None, {})
    assert list(evaluations(base)) == ["step_000000/smoke.parquet"]
    assert found["seconds"]["start"] + found["seconds"]["evaluate"] < found["seconds"]["whole_run"]
    assert not (base / "checkpoints").exists()
    assert not (base / "rollouts").exists()
    assert (base / "data.json").exists()


def test_its_figures_are_those_that_every_run_has_before_its_first_step(base, tmp_path):
    assert here("fit", tmp_path, "ablation=grpo", "steps=1", *SMALL, *EVALUATION) == 0
    assert summary(base)["before"] == summary(tmp_path)["before"]
    mine, its = evaluations(base), evaluations(tmp_path)
    assert mine["step_000000/smoke.parquet"].equals(its["step_000000/smoke.parquet"])


def test_what_is_printed_has_one_column_and_no_step(tmp_path, capfd):
    assert here("fit", tmp_path, "steps=0", *SMALL, *EVALUATION) == 0
    out, err = capfd.readouterr()
    value = f"{summary(tmp_path)['before']['smoke/accuracy']:.3f}"
    assert f"│ pass@1, smoke (4 x 4) │ {value} [" in out
    assert "full-arithmetic_hard-tiny-seed0: 0 steps" in " ".join(out.split())
    assert "after" not in out
    assert "tokens    " not in out
    assert [line.split()[:2] for line in err.splitlines()[2:]] == [["step", "0"]]


def test_a_sweep_lists_it_by_its_one_figure(base):
    assert result(base).startswith(f"finished     smoke pass@1 {summary(base)['before']['smoke/accuracy']:.3f}  ")


def test_a_finished_one_is_not_done_twice(base, capfd):
    assert here("fit", base, "ablation=base", *SMALL, *EVALUATION) == 1
    assert "the record of a run is there already" in capfd.readouterr().err

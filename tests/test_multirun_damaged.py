"""Sweeps whose records are damaged: each is told in a line, and stops nothing else."""

import pytest

from edge_lightning.cli import hydra_app, multirun
from edge_lightning.cli.fit import fit
from edge_lightning.cli.multirun import Job, sweep_overrides
from edge_lightning.errors import UserError

DAMAGED = ["", "[1]", "{no", '{"steps": 3}']


@pytest.mark.parametrize("text", DAMAGED)
def test_a_job_with_a_damaged_summary_is_no_finished_one(text, tmp_path):
    folder = tmp_path / "seed=0"
    folder.mkdir()
    (folder / "summary.json").write_text(text)
    with pytest.raises(
        UserError, match=r"summary.json: the summary of a run expected, it was damaged .*; move the folder aside"
    ):
        Job("fit", goes_on=True).arguments(["seed=0"], folder, "job 0: ")
    assert multirun.result(folder).startswith("damaged ")


@pytest.mark.parametrize("text", ["", "[]", "command: fit\n", "command: fit\nhydra: {overrides: {task: [1], hydra: []}}\n"])
def test_a_damaged_record_of_a_sweep_is_one_line(text, tmp_path):
    (tmp_path / "multirun.yaml").write_text(text)
    with pytest.raises(
        UserError, match="multirun.yaml: the record of a sweep expected, it was damaged; give hydra.sweep.dir"
    ):
        sweep_overrides([f"resume={tmp_path}"], "fit")


@pytest.mark.parametrize("arguments", [["hydra.run.dir={0}"], ["-m", "seed=0", "hydra.sweep.dir={0}"]])
def test_a_file_in_place_of_a_folder_is_one_line(arguments, tmp_path, capfd):
    place = tmp_path / "taken"
    place.touch()
    assert hydra_app.run("fit", [word.format(place) for word in arguments], fit) == 1
    err = capfd.readouterr().err
    assert err.startswith(f"edge-lightning fit: {place}")
    assert ": a folder expected, a file is there; give another folder" in err
    assert err.count("\n") == 1

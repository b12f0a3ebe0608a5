"""What is kept of a study, and the script that runs it, with a stand-in for the command that trains."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hydra import compose, initialize_config_dir

from edge_lightning.cli.hydra_app import CONF
from edge_lightning.evaluation.record import EVALUATION_SCHEMA

ROOT = Path(__file__).resolve().parents[1]
KEEP = ROOT / "scripts" / "keep_records.py"


def keep(*arguments, status=0):
    done = subprocess.run([sys.executable, KEEP, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout


def write_run(folder, status="finished", steps=(0, 50, 150), metrics="step,loss,tokens\r\n0,0.123456789,1728.0\r\n"):
    folder.mkdir(parents=True)
    summary = {
        "status": status,
        "evaluated_steps": list(steps),
        "folder": str(folder),
        "overrides": ["model.path=/home/me/models/small", "seed=0"],
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "config.yaml").write_text(
        "seed: 0\nlr: 1.0e-06\nmodel:\n  path: /home/me/checkout/edge_lightning/assets/tiny_hard\nplace: /home/me/data\n"
        "data_folder: ../shared/data\nmonitor: evaluation/smoke/accuracy\n"
    )
    if metrics:
        (folder / "metrics.csv").write_text(metrics, newline="")
    for step in steps:
        place = folder / "evaluation" / f"step_{step:06d}"
        place.mkdir(parents=True)
        row = dict.fromkeys(EVALUATION_SCHEMA.names) | {"step": step, "problem_id": "p1", "correct": True, "text": "long"}
        pq.write_table(pa.Table.from_pylist([row], schema=EVALUATION_SCHEMA), place / "smoke.parquet")


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def sweep(tmp_path):
    write_run(tmp_path / "sweep" / "ablation=grpo,seed=0")
    write_run(tmp_path / "sweep" / "ablation=base,seed=0", steps=(0,), metrics=None)
    write_run(tmp_path / "sweep" / "ablation=full,seed=0", status="interrupted")
    (tmp_path / "sweep" / "ablation=sft,seed=0").mkdir()
    return tmp_path / "sweep"


def test_finished_runs_are_kept_and_the_others_are_not(sweep, tmp_path):
    told = keep(sweep, tmp_path / "kept")
    size = sum(map(len, files(tmp_path / "kept" / "ablation=grpo,seed=0").values()))
    assert told.splitlines()[1] == f"kept: ablation=grpo,seed=0 ({size:,} bytes)"
    assert set(files(tmp_path / "kept")) == {
        "ablation=base,seed=0/config.yaml",
        "ablation=base,seed=0/evaluation/step_000000/smoke.parquet",
        "ablation=base,seed=0/summary.json",
        "ablation=grpo,seed=0/config.yaml",
        "ablation=grpo,seed=0/evaluation/step_000000/smoke.parquet",
        "ablation=grpo,seed=0/evaluation/step_000150/smoke.parquet",
        "ablation=grpo,seed=0/metrics.csv.gz",
        "ablation=grpo,seed=0/summary.json",
    }


def test_what_is_kept_is_rounded_slim_and_without_paths_of_the_machine(sweep, tmp_path):
    keep(sweep, tmp_path / "kept")
    run = tmp_path / "kept" / "ablation=grpo,seed=0"
    assert gzip.decompress((run / "metrics.csv.gz").read_bytes()) == b"step,loss,tokens\n0,0.123457,1728\n"
    table = pq.read_table(run / "evaluation" / "step_000150" / "smoke.parquet")
    assert table.column_names == [
        *("step", "weights_version", "benchmark", "problem_id", "response_index", "correct", "formatted", "tokens")
    ]
    assert table.to_pylist()[0]["correct"] is True
    summary = json.loads((run / "summary.json").read_text())
    assert summary["overrides"] == ["model.path=small", "seed=0"]
    assert "folder" not in summary
    assert (run / "config.yaml").read_text() == (
        "seed: 0\nlr: 1.0e-06\nmodel:\n  path: edge_lightning/assets/tiny_hard\nplace: data\n"
        "data_folder: ../shared/data\nmonitor: evaluation/smoke/accuracy\n"
    )


def test_keeping_twice_changes_nothing_and_the_same_runs_give_the_same_bytes(sweep, tmp_path):
    keep(sweep, tmp_path / "kept")
    first = files(tmp_path / "kept")
    assert keep(sweep, tmp_path / "kept") == ""
    assert files(tmp_path / "kept") == first
    keep(sweep, tmp_path / "again")
    assert files(tmp_path / "again") == first


def test_a_run_that_is_put_back_is_finished_and_kept_as_it_was(sweep, tmp_path):
    keep(sweep, tmp_path / "kept")
    shutil.rmtree(sweep / "ablation=grpo,seed=0")
    (sweep / "ablation=base,seed=0" / "summary.json").write_text('{"status": "interrupted"}')
    told = keep("--back", tmp_path / "kept", sweep)
    assert told.splitlines() == [
        "moved aside: ablation=base,seed=0, now ablation=base,seed=0-1",
        "put back: ablation=base,seed=0",
        "put back: ablation=grpo,seed=0",
    ]
    assert (sweep / "ablation=grpo,seed=0" / "metrics.csv").read_text() == "step,loss,tokens\n0,0.123457,1728\n"
    assert json.loads((sweep / "ablation=base,seed=0-1" / "summary.json").read_text()) == {"status": "interrupted"}
    assert keep("--back", tmp_path / "kept", sweep) == ""
    keep(sweep, tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "kept")


def test_a_copy_that_was_cut_short_counts_as_none(sweep, tmp_path):
    write_run(tmp_path / "kept" / ".part-ablation=grpo,seed=0")
    keep("--back", tmp_path / "kept", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    keep(sweep, tmp_path / "kept")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"ablation=base,seed=0", "ablation=grpo,seed=0"}


def test_a_run_that_is_named_after_a_path_of_the_machine_is_left_out(tmp_path):
    write_run(tmp_path / "sweep" / "data.problem_set.path=" / "home" / "me" / "set.json,seed=0")
    told = keep(tmp_path / "sweep", tmp_path / "kept")
    assert told == "left out: data.problem_set.path=/home/me/set.json,seed=0: its name holds a path of this machine\n"
    assert not (tmp_path / "kept").exists()


def test_keeping_without_two_folders_is_one_line():
    done = subprocess.run([sys.executable, KEEP, "x"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


STAND_IN = """\
#!/usr/bin/env bash
echo "$*" >> commands.log
for word in "$@"; do case $word in hydra.sweep.dir=*) folder=${word#*=};; esac; done
mkdir -p "$folder"
cp -r finished "$folder/ablation=grpo,seed=$(wc -l < commands.log)"
[ ! -e fail ] || exit 1
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder with the scripts and a stand-in for edge-lightning."""
    (tmp_path / "scripts").mkdir()
    for name in ("study.sh", "keep_records.py"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts" / name)
    (tmp_path / "scripts" / "setup.sh").write_text('set -euo pipefail; cd "$(dirname "${BASH_SOURCE[0]}")/.."\n')
    write_run(tmp_path / "finished")
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name, text in (("edge-lightning", STAND_IN), ("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    return tmp_path


def study(checkout, *parts, **environment):
    return subprocess.run(
        [checkout / "scripts" / "study.sh", *parts],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


def commands(checkout):
    return (checkout / "commands.log").read_text().splitlines()


def test_a_part_runs_its_lines_in_order_and_keeps_what_has_finished(checkout):
    done = study(checkout, "hard_methods")
    assert done.returncode == 0, done.stderr
    folder = "outputs/study/hard_methods"
    end = f"hydra.sweep.dir={folder} resume={folder} hydra/launcher=joblib hydra.launcher.n_jobs=2"
    assert commands(checkout) == [
        f"fit -m seed=0 ablation=base,sft,grpo,force_r,force_r_eda,full {end}",
        f"fit -m seed=1,2,3,4 ablation=sft,grpo,force_r,force_r_eda,full {end}",
    ]
    kept = checkout / "docs" / "study" / "data" / "hard_methods"
    assert {path.name for path in kept.iterdir()} == {"ablation=grpo,seed=1", "ablation=grpo,seed=2"}


def keep_nothing(checkout):
    (checkout / ".venv" / "bin" / "python").write_text("#!/bin/sh\n")


def test_all_parts_are_run_with_seed_0_before_others_are(checkout):
    keep_nothing(checkout)
    assert study(checkout, JOBS="1").returncode == 0
    lines = [line.split(" hydra.sweep.dir=outputs/study/") for line in commands(checkout)]
    assert all(line[1].endswith("n_jobs=1") for line in lines)
    seeds = [overrides.split("seed=")[1].split()[0] for overrides, _ in lines]
    parts = [rest.split()[0] for _, rest in lines]
    assert seeds[:2] == ["0", "1,2,3,4"]  # of the methods themselves
    assert seeds[2:-7] == sorted(seeds[2:-7])
    assert set(parts[: seeds.index("1")]) == set(parts) - {"hard_reference_code"}
    assert "fit -m seed=1 ablation=sft,grpo,force_r,force_r_eda,full,gec_only optimizer.lr=2e-4,8e-4" in [
        x[0] for x in lines
    ]


def test_every_job_of_the_study_composes(checkout):
    keep_nothing(checkout)
    study(checkout)
    options = {}
    for line in commands(checkout):
        given = dict(override.split("=", 1) for override in line.split(" hydra.sweep.dir=")[0].split()[2:])
        for ablation in given.pop("ablation").split(","):
            key = tuple(sorted((k, v.split(",")[-1]) for k, v in given.items() if k != "seed"))
            options.setdefault(key, set()).add(ablation)
    assert len(options) > 10
    with initialize_config_dir(str(CONF), version_base=None):
        for overrides, ablations in options.items():
            for ablation in ablations:
                compose("fit", [f"ablation={ablation}", *(f"{k}={v}" for k, v in overrides)])


def test_what_is_kept_is_put_back_before_anything_is_run(checkout):
    write_run(checkout / "docs" / "study" / "data" / "hard_methods" / "ablation=full,seed=0")
    done = study(checkout, "hard_methods")
    assert done.stdout.splitlines()[1] == "put back: ablation=full,seed=0"
    assert (checkout / "outputs" / "study" / "hard_methods" / "ablation=full,seed=0" / "summary.json").exists()


def test_a_failed_line_stops_no_other_and_is_told_by_the_exit_status(checkout):
    (checkout / "fail").touch()
    assert study(checkout, "hard_methods").returncode == 1
    assert len(commands(checkout)) == 2


def test_a_part_that_is_none_is_one_line(checkout):
    done = study(checkout, "easy")
    assert (done.returncode, done.stderr) == (1, "study: no part easy; see the table in scripts/study.sh\n")
    assert not (checkout / "commands.log").exists()

"""The commands of the published tables compose, and mean what the paper's set-up is."""

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from edge_lightning.cli.hydra_app import CONF
from edge_lightning.cli.schema import check

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
DATA = ("deepscaler_random_1k", "deepscaler_hard_1k")
METHODS = ("sft", "grpo", "force_r", "force_r_eda", "full")


def commands(table, tmp_path, *arguments, status=0, **environment):
    """The command lines of a script, by a stand-in for edge-lightning that ends with a status."""
    stand_in = tmp_path / "edge-lightning"
    stand_in.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/commands.log\nexit {status}\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        [SCRIPTS / f"{table}.sh", *arguments], env=os.environ | {"EDGE_LIGHTNING": str(stand_in)} | environment
    )
    assert done.returncode == status
    return [line.split() for line in (tmp_path / "commands.log").read_text().splitlines()]


def jobs(lines):
    """The overrides of every job of the sweeps, without those of Hydra itself."""
    for line in lines:
        assert line[:2] == ["fit", "-m"]
        given = [word.partition("=") for word in line[2:] if not word.startswith(("hydra", "resume="))]
        for values in itertools.product(*(value.split(",") for _, _, value in given)):
            yield [f"{key}={value}" for (key, _, _), value in zip(given, values)]


@pytest.mark.parametrize("table", ["paper_1_5b", "paper_7b"])
def test_each_job_of_a_table_composes_to_the_published_set_up(table, tmp_path):
    seen = set()
    with initialize_config_dir(str(CONF), version_base=None):
        for overrides in jobs(commands(table, tmp_path)):
            cfg = compose("fit", overrides)
            check(cfg)
            seen.add((cfg.data.name, cfg.ablation.name, cfg.seed))
            trained = cfg.ablation.name not in ("base", "sft")
            assert cfg.model.name == table.replace("paper", "qwen2_5_math")
            assert (cfg.datamodule.steps, cfg.steps) == (0 if cfg.ablation.name == "base" else 1000, 1000)
            assert (cfg.rollout.problems_per_step, cfg.rollout.group_size) == (1, 1 if cfg.ablation.name == "sft" else 8)
            assert (cfg.optimizer.lr, cfg.schedule.name, cfg.rollout.response_limit) == (1e-6, "linear", 1024)
            assert (cfg.correction._target_.rsplit(".", 1)[1] == "NoCorrection") == (
                not trained or cfg.ablation.name == "grpo"
            )
            assert cfg.credit.get("floor") is None
            assert len(cfg.evaluation.benchmarks) == 5
            assert (cfg.evaluation.before, cfg.evaluation.after) == (True, True)
            sampler = cfg.evaluation.engine or cfg.engine
            assert sampler._target_ == "edge_lightning.engine.vllm.VllmEngine"
            assert cfg.data.on_bad_row == "drop"
    expected = {(data, method, seed) for data in DATA for method in METHODS for seed in (0, 1, 2)}
    assert seen == expected | {(data, "base", 0) for data in DATA}


def test_a_table_goes_on_in_its_own_folders_with_what_is_given_on_top(tmp_path):
    lines = commands("paper_7b", tmp_path, "cpu_threads=8", STRATEGY="strategy=other")
    places = [[word for word in line if "sweep.dir" in word or "resume" in word] for line in lines]
    folders = [f"outputs/paper_7b/{data}" for data in DATA for _ in range(3)]
    assert places == [[f"hydra.sweep.dir={folder}", f"resume={folder}"] for folder in folders]
    assert all({"cpu_threads=8", "strategy=other"} <= set(line) for line in lines)


@pytest.mark.parametrize(("status", "started"), [(1, 6), (130, 1)])
def test_a_failure_stops_no_other_sweep_and_control_c_all(status, started, tmp_path):
    assert len(commands("paper_1_5b", tmp_path, status=status)) == started

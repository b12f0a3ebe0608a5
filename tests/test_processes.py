"""Whole runs in two processes, on CPU with gloo: as one process does them, whatever launches and whatever shards them."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import edge_lightning
from edge_lightning.cli.resume import quoted
from tests.run_record import checkpoint, here, rollouts, summary

pytestmark = pytest.mark.slow

# Adam divides a gradient by its own size, noise of 1e-9 too; with a large epsilon a step is proportional to the gradient.
LINE = [
    "engine=hf",
    "evaluation=none",
    "steps=3",
    "rollout.problems_per_step=3",  # 9 responses: 4 and 5 on two ranks, the group in the middle on both
    "rollout.group_size=3",
    "optimizer.lr=0.05",
    "+optimizer.eps=1.0",
    "model.micro_batch_tokens=200",  # several micro-batches, not as many on each rank
    "module.gradient_shares_every_n_steps=1",
    "callbacks.last_checkpoint.every_n_steps=1",
    "data.problem_set.train_size=64",
    "data.problem_set.held_out_size=8",
]
ASSET = Path(edge_lightning.__file__).parent / "assets" / "tiny_hard" / "model.safetensors"
FIT = [sys.executable, "-m", "edge_lightning", "fit"]
TWO = "strategy.devices=2"
SAME = (
    "problem_id", "response_index", "provenance", "prompt_ids", "completion_ids", "sampled_mask", "text", "sampled_text",
    "finish_reason", "sampled_reward", "reward", "advantage", "seed", "weights_version",
)  # fmt: skip
AGREE = ["+callbacks.agree_checkpoint._target_=tests.rank_runs.Agreement", "+callbacks.agree_checkpoint._partial_=true"]


def torchrun(tmp_path, *lines, status=0):
    """Runs in one pair of processes, one after the other."""
    file = tmp_path / "lines.json"
    file.write_text(json.dumps([list(line) for line in lines]))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    found = subprocess.run(
        [*command, "-m", "tests.rank_runs", str(file)], capture_output=True, text=True, timeout=600, env=environment()
    )
    assert found.returncode == status, found.stderr[-4000:]
    return found.stderr


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "EDGE_LIGHTNING_TRACEBACK": ""}


def at(folder):
    return f"hydra.run.dir={quoted(folder)}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs by name: `one` in this process; the others in two."""
    root = tmp_path_factory.mktemp("ranks")
    assert here("fit", root / "one", *LINE) == 0
    lora, shards = ["model.lora={rank: 4}", "optimizer.lr=0.5"], ["strategy.strategy.sharded_checkpoints=true"]
    mixed = ["model.precision=bf16-mixed", "rollout.max_engine_gap=null"]
    torchrun(
        root,
        [*LINE, *AGREE, TWO, "strategy=ddp", at(root / "ddp")],
        [*LINE, *AGREE, TWO, "strategy=fsdp", at(root / "fsdp")],
        [*LINE, *AGREE, TWO, "strategy=fsdp", *lora, at(root / "lora")],
        [*LINE, *AGREE, TWO, "strategy=fsdp", *mixed, at(root / "mixed")],
        [*LINE, TWO, "strategy=fsdp", at(root / "whole"), "stop_before=2"],
        [*LINE, TWO, "strategy=fsdp", *shards, at(root / "shards"), "stop_before=2"],
    )
    return root


def rows(folder):
    """Rollout rows in the order of one process."""
    table = rollouts(folder)
    order = {problem: place for place, problem in enumerate(dict.fromkeys(table["problem_id"].to_pylist()))}
    return sorted(table.to_pylist(), key=lambda row: (row["step"], order[row["problem_id"]], row["response_index"]))


def policy(folder):
    return load_file(folder / "checkpoints" / "hf" / "model.safetensors")


def figures(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return [{k: float(v) for k, v in row.items() if v and "seconds/" not in k} for row in csv.DictReader(file)]


def assert_same_weights(one, other, *, moved):
    found, expected, start = policy(other), policy(one), load_file(moved / "model.safetensors")
    assert found.keys() == expected.keys()
    assert max((expected[name] - start[name]).abs().max() for name in expected) > 1e-3  # it has learnt something
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_two_processes_make_the_rollouts_of_one(folder, name):
    found, expected = rows(folder / name), rows(folder / "one")
    assert len(found) == len(expected) == 27
    assert {row["rank"] for row in found} == {0, 1}
    shared = [row["rank"] for row in found if row["step"] == 0]
    assert shared == [0] * 4 + [1] * 5
    for mine, its in zip(found, expected):
        for column in SAME:
            assert mine[column] == its[column], column
        for column in ("token_advantages", "engine_logprobs"):
            pairs = zip(mine[column], its[column], strict=True)
            assert all(a is b is None or a == pytest.approx(b, rel=1e-4, abs=1e-5) for a, b in pairs), column


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_two_processes_end_with_the_weights_of_one(folder, name, asset):
    assert_same_weights(folder / "one", folder / name, moved=asset)
    ranks = [(folder / name / "checkpoints" / f"rank_{rank}.txt").read_text() for rank in range(2)]
    assert ranks[0] == ranks[1]


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_the_figures_of_two_processes_are_those_of_one(folder, name):
    """The norm of the whole gradient, its shares, losses, means, quantiles and counts: of all ranks, written once."""
    found, expected = figures(folder / name), figures(folder / "one")
    assert len(found) == len(expected) == 3
    for mine, its in zip(found, expected):
        assert mine.keys() == its.keys()
        assert its["gradient/norm"] > 0.01
        assert any(name.startswith("gradient/share/") for name in its)
        for key, value in its.items():
            assert mine[key] == pytest.approx(value, rel=1e-3, abs=1e-5), key


def test_adapters_are_trained_in_shards(folder):
    run = folder / "lora"
    assert summary(run)["status"] == "finished"
    assert max(row["engine_gap/max"] for row in figures(run)) < 1e-4
    ranks = [(run / "checkpoints" / f"rank_{rank}.txt").read_text() for rank in range(2)]
    assert ranks[0] == ranks[1]


def test_shards_of_two_processes_are_gone_on_with_by_one(folder, asset, tmp_path):
    """From one file by a process without a strategy, from shards by one process of the same strategy."""
    assert (folder / "shards" / "checkpoints" / "last.ckpt").is_dir()
    for name, strategy in (("whole", "single"), ("shards", "fsdp")):
        run = shutil.copytree(folder / name, tmp_path / name, symlinks=True)
        assert summary(run)["steps"] == 2
        # In a process of its own, since a strategy leaves a group of processes and its port behind.
        subprocess.run(
            [*FIT, f"resume={run}", f"strategy={strategy}", "strategy.devices=1"], check=True, env=environment(), timeout=600
        )
        assert summary(run)["status"] == "finished"
        assert_same_weights(folder / "one", run, moved=asset)
        assert [row["step"] for row in figures(run)] == [0, 1, 2]


def test_passes_in_bfloat16_train_float32_shards(folder):
    run = folder / "mixed"
    assert summary(run)["status"] == "finished"
    assert {weight.dtype for weight in policy(run).values()} == {torch.float32}
    ranks = [(run / "checkpoints" / f"rank_{rank}.txt").read_text() for rank in range(2)]
    assert ranks[0] == ranks[1]
    for mine, its in zip(figures(run)[:1], figures(folder / "one")):  # the same rollout
        assert mine["gradient/norm"] == pytest.approx(its["gradient/norm"], rel=0.05)
        assert mine["gradient/norm"] != pytest.approx(its["gradient/norm"], rel=1e-5)  # coarser


def test_a_run_that_goes_on_with_two_processes_repeats_an_unbroken_one(folder, asset, tmp_path):
    """resume=auto, under Lightning's launcher, from a checkpoint in shards of two processes that a signal has stopped."""
    run = shutil.copytree(folder / "shards", tmp_path / "run", symlinks=True)
    line = [*LINE, TWO, "strategy=fsdp", "strategy.strategy.sharded_checkpoints=true", at(run), "resume=auto"]
    found = finished(subprocess.Popen([*FIT, *line], stderr=subprocess.PIPE, text=True, env=environment()))
    assert found.count(f"resume=auto: going on with {run}") == 1
    assert summary(run)["status"] == "finished"
    assert [row["step"] for row in figures(run)] == [0, 1, 2]
    assert_same_weights(folder / "one", run, moved=asset)


def test_slurm_starts_a_run_whose_evaluation_is_shared_and_written_once(tmp_path):
    """Two tasks of a job, as srun would start them: what it sets, and nothing else."""
    smoke = [f"evaluation.benchmarks.smoke.{key}" for key in ("problems=4", "samples=2", "k=[1]")]
    line = [*LINE, TWO, "strategy=ddp", "evaluation=smoke", "evaluation.before=false", *smoke, "steps=1"]
    job = {
        "SLURM_JOB_ID": "71", "SLURM_JOB_NAME": "tiny", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_NODELIST": "localhost",
        "SLURM_JOB_NODELIST": "localhost", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    tasks = [
        subprocess.Popen(
            [*FIT, *line], stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=environment() | job | {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)},
        )
        for task in range(2)
    ]  # fmt: skip
    said = [finished(task) for task in tasks]
    assert [text.count("1 steps in 2 processes") for text in said] == [1, 0]
    [run] = tmp_path.glob("outputs/fit/*/slurm_71_0")
    [path] = (run / "evaluation").glob("*/*.parquet")
    table = pq.read_table(path)
    assert len(table) == 8
    assert len(set(zip(table["problem_id"].to_pylist(), table["response_index"].to_pylist()))) == 8
    assert summary(run)["after"]["smoke/problems"] == 4


def test_a_checkpoint_in_shards_is_validated_by_two_processes_as_by_one(folder, tmp_path):
    ckpt = folder / "shards" / "checkpoints" / "last.ckpt"
    settings = ["problems=3", "samples=2", "k=[1]"]
    line = [f"ckpt={quoted(ckpt)}", *(f"evaluation.benchmarks.smoke.{s}" for s in settings)]
    line += ["data.problem_set.held_out_size=8", "engine=hf"]
    assert here("validate", tmp_path / "one", *line) == 0
    two = [sys.executable, "-m", "edge_lightning", "validate", *line, "devices=2", at(tmp_path / "two")]
    finished(subprocess.Popen(two, stderr=subprocess.PIPE, text=True, env=environment()))
    tables = [pq.read_table(next((tmp_path / name / "evaluation").glob("*/*.parquet"))) for name in ("one", "two")]
    assert len(tables[0]) == 6
    assert tables[0].equals(tables[1])
    assert summary(tmp_path / "two")["metrics"] == summary(tmp_path / "one")["metrics"]


def finished(process):
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said[-4000:]
    return said


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def test_a_process_that_is_killed_ends_the_others_with_one_message(tmp_path):
    """Started by Lightning's own launcher."""
    fault = {"_target_": "tests.rank_runs.Fault", "_partial_": "true", "rank": 1, "how": "killed"}
    line = [*LINE, TWO, "strategy=ddp", *(f"+callbacks.fault_checkpoint.{key}={value}" for key, value in fault.items())]
    started = subprocess.run(
        [*FIT, *line, at(tmp_path / "run")], capture_output=True, text=True, timeout=300, env=environment()
    )
    assert started.returncode not in (0, None)
    assert started.stderr.count("edge-lightning fit: ") == 1, started.stderr
    assert "another of the 2 processes has ended" in started.stderr
    assert (tmp_path / "run" / "failure.txt").read_text().rstrip() in started.stderr
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()  # of the step before


def test_each_process_has_a_vllm_of_its_own_which_follows_shards_until_one_fails(tmp_path):
    """The second step samples with weights that were pushed from shards after an update. In another run a disk is full."""
    line = [part for part in LINE if part != "engine=hf"] + ["engine=vllm", "steps=2", "engine.max_num_seqs=8"]
    run, failing = tmp_path / "run", tmp_path / "failing"
    fault = {"_target_": "tests.rank_runs.Fault", "_partial_": "true", "rank": 1, "how": "user"}
    said = torchrun(
        tmp_path,
        [*line, *AGREE, TWO, "strategy=fsdp", at(run)],
        [*LINE, TWO, "strategy=ddp", *(f"+callbacks.fault_checkpoint.{k}={v}" for k, v in fault.items()), at(failing)],
        status=1,
    )
    found = figures(run)
    assert len(found) == 2
    assert all(row["engine_gap/max"] < 1e-4 for row in found)
    assert max((policy(run)[name] - weight).abs().max() for name, weight in load_file(ASSET).items()) > 1e-3
    ranks = [(run / "checkpoints" / f"rank_{rank}.txt").read_text() for rank in range(2)]
    assert ranks[0] == ranks[1]
    assert said.count("edge-lightning fit: ") == 1, said
    assert "edge-lightning fit: rank 1: the disk is full; stopped after 1 of 3 steps, 1 of them in " in said
    assert (failing / "failure.txt").read_text().rstrip() in said


def test_control_c_stops_all_processes_behind_a_checkpoint(tmp_path):
    """The terminal sends it to each of them. Started by Lightning's own launcher."""
    run = tmp_path / "run"
    line = [*LINE, TWO, "strategy=ddp", "steps=1000", at(run)]
    started = subprocess.Popen([*FIT, *line], stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
    while not (run / "checkpoints" / "last.ckpt").exists():
        assert started.poll() is None
        time.sleep(0.2)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=300)
    assert started.returncode == 1, err
    assert err.count("edge-lightning fit: ") == 1, err
    assert "edge-lightning fit: interrupted after" in err
    assert summary(run)["status"] == "interrupted"
    assert checkpoint(run)["global_step"] == summary(run)["steps"] == len(figures(run))

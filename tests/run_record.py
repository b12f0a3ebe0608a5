"""Whole runs of the tiny policy, and their records read back."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import parse_session_end_info_plugin_data

from edge_lightning.cli.fit import fit
from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.resume import quoted
from edge_lightning.cli.validate import validate

EVALUATION = tuple(f"evaluation.benchmarks.smoke.{setting}" for setting in ("problems=4", "samples=4", "k=[1,4]"))
SMALL = ("rollout.problems_per_step=2", "rollout.group_size=4")
TINY = (*SMALL, "optimizer.lr=1e-3", *EVALUATION)
ENDED = "_hparams_/session_end_info"
TOLD_AT_EACH_START = ("_hparams_/", "custom_scalars__config__")
TASKS = {"fit": fit, "validate": validate}


def here(command: str, folder: Path, *overrides: str) -> int:
    """Run a command in this process, with the engine that starts at once; its exit status."""
    return run(command, ["engine=hf", *overrides, f"hydra.run.dir={quoted(folder)}"], TASKS[command])


def process(command: str, *arguments: str) -> subprocess.Popen:
    """Start a command as a process of its own."""
    line = [sys.executable, "-m", "edge_lightning", command, *arguments]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(started: subprocess.Popen, *, status: int = 0) -> tuple[str, str]:
    """Wait for a process; what it printed."""
    out, err = started.communicate(timeout=300)
    assert started.returncode == status, err
    return out, err


def rollouts(folder: Path) -> pa.Table:
    """All rollout rows of a run, step by step."""
    return pa.concat_tables(pq.read_table(path) for path in sorted((folder / "rollouts").iterdir()))


def evaluations(folder: Path) -> dict[str, pa.Table]:
    """Evaluation rows by file."""
    place = folder / "evaluation"
    return {str(path.relative_to(place)): pq.read_table(path) for path in sorted(place.glob("*/*.parquet"))}


def metrics(folder: Path) -> list[dict[str, str]]:
    """Rows of metrics.csv as they are written, without what the clock says."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not k.startswith("seconds/")} for row in csv.DictReader(file)]


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def weights(folder: Path) -> bytes:
    """Of the exported policy."""
    return (folder / "checkpoints" / "hf" / "model.safetensors").read_bytes()


def checkpoint(folder: Path) -> dict:
    return torch.load(folder / "checkpoints" / "last.ckpt", map_location="cpu", weights_only=True)


def curves(folder: Path) -> EventAccumulator:
    """The tensorboard events of a run, read."""
    read = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    read.Reload()
    return read


def assert_same_run(one: Path, other: Path) -> None:
    """Equal to the last bit: responses, figures, evaluations, weights, state of the optimizer, results, curves."""
    assert rollouts(one).equals(rollouts(other))
    assert metrics(one) == metrics(other)
    assert evaluations(one).keys() == evaluations(other).keys()
    assert all(table.equals(evaluations(other)[name]) for name, table in evaluations(one).items())
    assert weights(one) == weights(other)
    here, there = checkpoint(one), checkpoint(other)
    assert here["global_step"] == there["global_step"]
    assert here["lr_schedulers"] == there["lr_schedulers"]
    for name, value in here["state_dict"].items():
        assert torch.equal(value, there["state_dict"][name]), name
    for mine, its in zip(here["optimizer_states"], there["optimizer_states"], strict=True):
        assert mine["param_groups"] == its["param_groups"]
        assert mine["state"].keys() == its["state"].keys()
        for place, state in mine["state"].items():
            assert all(torch.equal(state[key], its["state"][place][key]) for key in ("step", "exp_avg", "exp_avg_sq"))
    for key in ("steps", "tokens", "groups", "before", "after", "evaluated_steps", "status"):
        assert summary(one)[key] == summary(other)[key], key
    mine, its = points(one), points(other)
    assert mine.keys() == its.keys()
    for tag, shown in mine.items():
        assert shown == its[tag], (tag, [step for step, _ in shown], [step for step, _ in its[tag]])


def points(folder: Path) -> dict[str, list]:
    """What tensorboard shows: curves, histograms, texts, and how the run ended; without what the clock says.

    Read as tensorboard reads it. The older accumulator that `curves` has never forgets a text.
    """
    read = plugin_event_accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0})
    read.Reload()
    tags = [tag for tag in read.Tags()["tensors"] if not tag.startswith(("seconds/", *TOLD_AT_EACH_START))]
    shown = {tag: [(event.step, event.tensor_proto.SerializeToString()) for event in read.Tensors(tag)] for tag in tags}
    if ENDED in read.summary_metadata:  # of which tensorboard heeds the first
        end = read.summary_metadata[ENDED].plugin_data.content
        shown[ENDED] = [(None, parse_session_end_info_plugin_data(end).status)]
    return shown

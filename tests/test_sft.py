"""Supervised training through the pipeline: what it trains on is copied, what it is judged by is sampled."""

import pytest

from edge_lightning.cli.fit import fit
from edge_lightning.cli.hydra_app import run
from tests.run_record import EVALUATION, evaluations, metrics, rollouts, summary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sft") / "run"
    assert run("fit", ["ablation=sft", "steps=20", *EVALUATION, f"hydra.run.dir={folder}"], fit) == 0
    return folder


def test_rollouts_are_the_reference_solutions(trained):
    rows = rollouts(trained).to_pylist()
    assert len(rows) == 20 * 8
    assert {row["provenance"] for row in rows} == {"reference"}
    assert all(row["reward"] == 1.0 and not any(row["sampled_mask"]) and row["advantage"] == 0 for row in rows)


def test_training_raises_their_likelihood(trained):
    logprobs = [float(row["logprob/mean/reference"]) for row in metrics(trained)]
    assert logprobs[-1] > logprobs[0] / 2  # -0.75 at first


def test_evaluation_samples_from_the_policy(trained):
    before, after = (evaluations(trained)[f"step_{step:06d}/smoke.parquet"].to_pylist() for step in (0, 20))
    assert not all(row["correct"] for row in before)
    assert [row["text"] for row in before] != [row["text"] for row in after]
    assert summary(trained)["before"]["smoke/accuracy"] == sum(row["correct"] for row in before) / 16

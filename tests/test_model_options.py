"""Whole runs with the options of the model: adapters are trained, layers run again."""

import shutil

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from edge_lightning.errors import UserError
from edge_lightning.experience import Pipeline
from edge_lightning.lora import LowRankAdapters
from edge_lightning.policy import Policy
from edge_lightning.training.checkpoints import load_weights
from tests.run_record import EVALUATION, SMALL, TINY, assert_same_run, checkpoint, evaluations, here, metrics, summary

pytestmark = pytest.mark.slow

LORA = "model.lora={rank:4,alpha:8}"
LINE = (*TINY, LORA, "optimizer.lr=1e-2", "steps=3", "objective.kl_coefficient=0.01", "evaluation.every_n_steps=1")
LINE = (*LINE, "callbacks.last_checkpoint.every_n_steps=1")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapted") / "run"
    assert here("fit", folder, *LINE) == 0
    return folder


def rows(folder, step):
    return evaluations(folder)[f"step_{step:06d}/smoke.parquet"].drop_columns(["step", "weights_version"])


def test_a_checkpoint_holds_the_frozen_weights_as_they_were_and_moments_of_adapters_alone(unbroken, asset):
    kept, before = checkpoint(unbroken), Policy.load(asset).model.state_dict()
    weights = {name.removeprefix("policy.model."): value for name, value in kept["state_dict"].items()}
    frozen = {name.replace(".base_layer.", "."): value for name, value in weights.items() if ".lora_" not in name}
    assert frozen.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in frozen.items())
    moments = [state["exp_avg"].numel() for state in kept["optimizer_states"][0]["state"].values()]
    assert sum(moments) == 29184  # tests/test_lora.py has the count by hand
    assert max(value.abs().max() for name, value in weights.items() if "lora_B" in name) > 1e-3


def test_the_reference_of_the_divergence_is_the_policy_before_training(unbroken):
    divergence = [float(row["kl/mean"]) for row in metrics(unbroken)]
    assert divergence[0] == pytest.approx(0.0, abs=1e-9)
    assert min(divergence[1:]) > 1e-6


def test_the_export_is_a_plain_policy_equal_to_the_last_checkpoint(unbroken, asset):
    export, policy = Policy.load(unbroken / "checkpoints" / "hf"), Policy.load(asset)
    policy.adapt(LowRankAdapters(rank=4, alpha=8), seed=5)  # the checkpoint's values replace these
    load_weights(policy, unbroken / "checkpoints" / "last.ckpt")
    assert export.model.state_dict().keys() == Policy.load(asset).model.state_dict().keys()
    ids = torch.arange(3, 43)[None]
    with torch.no_grad():
        torch.testing.assert_close(export.model(ids).logits, policy.model(ids).logits, atol=1e-4, rtol=1e-5)
        assert (export.model(ids).logits - Policy.load(asset).model(ids).logits).abs().max() > 1e-2


@pytest.mark.parametrize("place", ["checkpoints/last.ckpt", "checkpoints/hf"])
def test_a_checkpoint_and_the_export_are_evaluated_as_the_run_was(unbroken, place, tmp_path):
    assert here("validate", tmp_path, f"ckpt={unbroken / place}", *EVALUATION) == 0
    assert rows(tmp_path, 0)["text"] == rows(unbroken, 3)["text"]
    assert summary(tmp_path)["metrics"]["smoke/accuracy"] == summary(unbroken)["after"]["smoke/accuracy"]


def test_a_run_that_is_interrupted_ends_as_the_unbroken_one(unbroken, tmp_path, monkeypatch):
    folder, fill = tmp_path / "run", Pipeline.fill

    def interrupted(self, rollout, **settings):
        if rollout.step == 2:
            raise KeyboardInterrupt
        fill(self, rollout, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "fill", interrupted)
        assert here("fit", folder, *LINE) == 1
    torch.manual_seed(77)  # what a process happens to have drawn plays no part
    assert here("fit", folder, f"resume={folder}") == 0
    assert_same_run(unbroken, folder)


def test_other_adapters_are_refused_where_a_run_goes_on_and_recomputation_is_not(unbroken, tmp_path, capfd):
    folder = shutil.copytree(unbroken, tmp_path / "copy")
    (folder / "summary.json").unlink()
    assert here("fit", folder, f"resume={folder}", "model.lora={rank:4,alpha:16}") == 1
    assert "model.lora.alpha was 8 in that run, 16 came; leave it as it was" in capfd.readouterr().err
    assert here("fit", folder, f"resume={folder}", "model.gradient_checkpointing=true") == 0


def test_a_checkpoint_of_adapters_does_not_fit_a_plain_policy(unbroken, asset):
    with pytest.raises(UserError, match="weights of the run's own model expected; Missing key"):
        load_weights(Policy.load(asset), unbroken / "checkpoints" / "last.ckpt")


def test_a_training_runs_its_layers_again_and_takes_the_same_steps(tmp_path, monkeypatch):
    """Each pass with gradient has one more forward pass of its layers; nothing else has."""
    forward, calls = LlamaDecoderLayer.forward, []

    def counted(self, *arguments, **settings):
        calls[-1][torch.is_grad_enabled()] += 1
        return forward(self, *arguments, **settings)

    monkeypatch.setattr(LlamaDecoderLayer, "forward", counted)
    line = (*SMALL, "steps=2", "evaluation=none", "ablation=sft", "engine=reference", "rollout.group_size=1")
    for name in ("plain", "recomputed"):
        calls.append({True: 0, False: 0})
        extra = f"model.gradient_checkpointing={str(name == 'recomputed').lower()}"
        assert here("fit", tmp_path / name, *line, extra) == 0
    plain, recomputed = calls
    assert recomputed == {True: 2 * plain[True], False: plain[False]}
    assert plain[True] > 0
    for one, other in zip(metrics(tmp_path / "plain"), metrics(tmp_path / "recomputed"), strict=True):
        assert float(one["loss/value"]) == pytest.approx(float(other["loss/value"]), abs=1e-5)
        assert float(one["gradient/norm"]) == pytest.approx(float(other["gradient/norm"]), rel=1e-4)

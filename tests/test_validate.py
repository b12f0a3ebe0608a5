"""What validate takes as a policy, and that its figures are those of the run it came from."""

import shutil

import pytest
import torch

from edge_lightning.cli.validate import policy_source
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
from edge_lightning.training.checkpoints import load_weights
from tests.run_record import EVALUATION, SMALL, checkpoint, evaluations, here, rollouts, summary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three steps, evaluated after each."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    line = (*SMALL, *EVALUATION, "optimizer.lr=1e-2", "steps=3", "evaluation.every_n_steps=1")
    assert here("fit", folder, *line) == 0
    return folder


def rows(folder, step):
    table = evaluations(folder)[f"step_{step:06d}/smoke.parquet"]
    return table.drop_columns(["step", "weights_version"])


@pytest.mark.parametrize("place", ["", "checkpoints/hf", "checkpoints/last.ckpt"])
def test_a_run_its_export_and_its_last_checkpoint_are_one_policy(run, place, tmp_path):
    assert here("validate", tmp_path, f"ckpt={run / place}", *EVALUATION) == 0
    assert rows(tmp_path, 0).equals(rows(run, 3))
    assert summary(tmp_path)["metrics"] == summary(run)["after"]


def test_the_best_checkpoint_is_the_policy_of_the_step_that_was_best(run, tmp_path):
    accuracy = {step: rows(run, step)["correct"].to_pylist().count(True) for step in (1, 2, 3)}
    best = max(accuracy, key=accuracy.get)  # the first of equals
    kept = torch.load(run / "checkpoints" / "best.ckpt", map_location="cpu", weights_only=True)
    assert kept["global_step"] == best
    assert here("validate", tmp_path, f"ckpt={run / 'checkpoints' / 'best.ckpt'}", *EVALUATION) == 0
    assert rows(tmp_path, 0).equals(rows(run, best))
    assert summary(tmp_path)["policy"].endswith("best.ckpt")


def test_weights_of_a_checkpoint_replace_all_that_were_there(run, asset):
    policy = Policy.load(asset)
    load_weights(policy, run / "checkpoints" / "last.ckpt")
    kept = checkpoint(run)["state_dict"]
    assert all(torch.equal(value, kept[f"policy.{name}"]) for name, value in policy.state_dict().items())


def test_what_is_no_policy_is_refused(run, tmp_path):
    loose = shutil.copy(run / "checkpoints" / "last.ckpt", tmp_path / "last.ckpt")
    for ckpt in (loose, run / "checkpoints" / "none.ckpt", "none.ckpt"):
        with pytest.raises(UserError, match="a checkpoint inside its run's folder expected"):
            policy_source(str(ckpt))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("model: {path: a", "readable YAML expected, it was damaged"),
        ("7", "readable YAML expected, it was damaged"),
        ("seed: 0\n", "the configuration of a run expected, one without model.path came; put it back as it was"),
        ("seed: 0\nmodel:\n", "the configuration of a run expected, one without model.path came"),
        ("", "the configuration of a run expected, one without model.path came"),
    ],
)
def test_a_damaged_configuration_of_the_run_is_one_line(run, tmp_path, capfd, content, said):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "config.yaml").write_text(content)
    assert here("validate", tmp_path / "validated", f"ckpt={copy / 'checkpoints' / 'last.ckpt'}", *EVALUATION) == 1
    err = capfd.readouterr().err
    assert f"{copy / 'config.yaml'}: {said}" in err
    assert err.count("\n") == 1


def test_a_damaged_export_is_one_line(run, tmp_path, capfd):
    copy = shutil.copytree(run, tmp_path / "copy")
    weights = copy / "checkpoints" / "hf" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert here("validate", tmp_path / "validated", f"ckpt={copy}", *EVALUATION) == 1
    err = capfd.readouterr().err
    assert f"{weights}: whole safetensors expected" in err
    assert err.count("\n") == 1


def test_weights_of_another_model_are_refused(run, tmp_path):
    content = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    content["state_dict"].pop(next(iter(content["state_dict"])))
    torch.save(content, tmp_path / "other.ckpt")
    policy = Policy.load(run / "checkpoints" / "hf")
    with pytest.raises(UserError, match="weights of the run's own model expected; Missing key"):
        load_weights(policy, tmp_path / "other.ckpt")


def test_an_evaluation_in_a_training_may_have_another_prompt_and_longer_responses(tmp_path):
    changes = ("evaluation.benchmarks.smoke.response_limit=60", "evaluation.benchmarks.smoke.prompt_limit=120")
    prompt = "evaluation.benchmarks.smoke.prompt={_target_:edge_lightning.prompts.PlainPrompt,template:'{problem}\\n'}"
    line = (*SMALL, *EVALUATION, "steps=1", "rollout.response_limit=8", "rollout.reflection_limit=8")
    assert here("fit", tmp_path / "run", *line, *changes) == 0
    lengths = rows(tmp_path / "run", 0)["tokens"].to_pylist()
    assert max(lengths) > 16  # the engine has room for more than training needs
    assert here("fit", tmp_path / "plain", *line, *changes, prompt) == 0
    assert rows(tmp_path / "plain", 0)["text"] != rows(tmp_path / "run", 0)["text"]


def test_what_corrects_a_training_reaches_none_of_its_evaluations(tmp_path):
    line = (*SMALL, *EVALUATION, "optimizer.lr=0", "steps=1", "credit=none")  # the same weights before and after
    for correction in ("none", "gec", "force_reflection"):
        assert here("fit", tmp_path / correction, *line, f"correction={correction}") == 0
    for step in (0, 1):
        for correction in ("gec", "force_reflection"):
            assert rows(tmp_path / correction, step).equals(rows(tmp_path / "none", step))
    assert rows(tmp_path / "none", 0).equals(rows(tmp_path / "none", 1))
    assert set(rollouts(tmp_path / "gec")["provenance"].to_pylist()) > {"reflected"}  # correction was at work
    assert not all(rows(tmp_path / "gec", 0)["correct"].to_pylist())


def test_a_training_without_evaluation_has_no_best_checkpoint_and_no_figures(tmp_path):
    assert here("fit", tmp_path, *SMALL, "steps=1", "evaluation=none") == 0
    assert not (tmp_path / "checkpoints" / "best.ckpt").exists()
    assert (summary(tmp_path)["before"], summary(tmp_path)["after"]) == (None, None)
    assert not (tmp_path / "evaluation").exists()

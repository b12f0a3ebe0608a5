"""Whole runs with a real vLLM: what they leave, that they repeat, that a killed one goes on as if nothing had happened."""

import html
import math
import shutil
import time

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from edge_lightning.cli.multirun import shortest
from edge_lightning.types import Provenance
from tests.run_record import (
    EVALUATION,
    SMALL,
    TINY,
    assert_same_run,
    checkpoint,
    curves,
    evaluations,
    finish,
    metrics,
    process,
    rollouts,
    summary,
    weights,
)

pytestmark = pytest.mark.slow

STEPS = 6
LINE = (
    *TINY,
    f"steps={STEPS}",
    "schedule=linear",  # a rate of its own each step
    "module.entropy_every_n_steps=1",  # so that every response has its scores on record
    "evaluation.every_n_steps=2",
    "callbacks.last_checkpoint.every_n_steps=2",
    "callbacks.record.responses_every_n_steps=2",
)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run by vLLM of six steps."""
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    out, _ = finish(process("fit", *LINE, f"hydra.run.dir={folder}"))
    assert shortest(folder) in out
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The same run, killed without warning in its third step or soon after, as it was left."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    started = process("fit", *LINE, f"hydra.run.dir={folder}")
    begun = time.monotonic()
    while not (folder / "rollouts" / "step_000002_rank_0.parquet").exists():
        assert started.poll() is None, started.communicate()
        assert time.monotonic() - begun < 200
        time.sleep(0.005)
    started.kill()
    finish(started, status=-9)
    return folder


@pytest.fixture(scope="module")
def resumed(killed, tmp_path_factory):
    """The killed run, gone on with in a process of its own. Its folder has moved in between."""
    folder = tmp_path_factory.mktemp("resumed") / "a=b, c"
    shutil.copytree(killed, folder)
    finish(process("fit", f"resume={folder}"))
    return folder


def test_a_run_leaves_every_file_of_the_contract(unbroken):
    found = {str(path.relative_to(unbroken)) for path in unbroken.rglob("*") if path.is_file()}
    expected = {"config.yaml", "summary.json", "metrics.csv", "checkpoints/last.ckpt", "checkpoints/hf/model.safetensors"}
    expected |= {f"rollouts/step_{step:06d}_rank_0.parquet" for step in range(STEPS)}
    expected |= {f"evaluation/step_{step:06d}/smoke.parquet" for step in (0, 2, 4, 6)}
    assert expected <= found
    assert not [name for name in found if name.endswith(".part")]
    assert len([name for name in found if name.startswith("checkpoints/last")]) == 1


def test_the_recorded_configuration_is_resolved_and_makes_the_same_run(unbroken):
    cfg = yaml.safe_load((unbroken / "config.yaml").read_text())
    assert "${" not in (unbroken / "config.yaml").read_text()
    assert (cfg["steps"], cfg["datamodule"]["steps"], cfg["schedule"]["num_training_steps"]) == (STEPS,) * 3


def test_the_summary_has_what_a_report_reads(unbroken):
    keys = {"command", "ablation", "model", "data", "seed", "overrides", "status", "before", "after", "evaluated_steps"}
    assert keys <= summary(unbroken).keys()


def test_the_summary_says_what_the_run_was_and_what_came_of_it(unbroken):
    found = summary(unbroken)
    assert (found["command"], found["ablation"], found["seed"], found["status"]) == ("fit", "full", 0, "finished")
    assert (found["steps"], found["evaluated_steps"]) == (STEPS, [0, 2, 4, 6])
    for when in ("before", "after"):
        assert (found[when]["smoke/problems"], found[when]["smoke/samples"]) == (4, 4)
        assert 0 <= found[when]["smoke/accuracy_low"] <= found[when]["smoke/accuracy"] <= found[when]["smoke/accuracy_high"]
    rows = evaluations(unbroken)["step_000006/smoke.parquet"]
    assert found["after"]["smoke/accuracy"] == pc.mean(rows["correct"].cast("int64")).as_py()
    stages = {"generate", "grade", "correct", "push", "score", "train", "record", "evaluate", "whole_run"}
    assert stages <= found["seconds"].keys()
    assert sum(v for k, v in found["seconds"].items() if k != "whole_run") < found["seconds"]["whole_run"]
    assert found["versions"]["torch"] == torch.__version__
    assert found["grading_timeouts"] == 0


def test_token_counts_of_the_summary_are_those_of_the_rollouts(unbroken):
    masks = rollouts(unbroken)["sampled_mask"].to_pylist()
    tokens = summary(unbroken)["tokens"]
    assert tokens["injected"] == sum(not flag for mask in masks for flag in mask) > 0
    standing = sum(mask.index(False) if False in mask else len(mask) for mask in masks)
    assert tokens["regenerated"] == sum(flag for mask in masks for flag in mask) - standing > 0
    assert tokens["sampled"] > standing  # first answers count where a reference replaced them, too


def test_every_response_is_recorded_with_what_made_it(unbroken):
    rows = rollouts(unbroken).to_pylist()
    assert len(rows) == STEPS * 2 * 4
    assert len({row["seed"] for row in rows}) == len(rows)
    for row in rows:
        assert row["weights_version"] == row["step"]
        lengths = {
            len(row[c]) for c in ("completion_ids", "sampled_mask", "engine_logprobs", "old_logprobs", "token_advantages")
        }
        assert len(lengths) == 1
        for sampled, engine, old in zip(row["sampled_mask"], row["engine_logprobs"], row["old_logprobs"]):
            assert (engine is not None) == sampled
            assert not sampled or math.isclose(engine, old, abs_tol=1e-4)
        assert row["token_advantages"][0] == pytest.approx(row["advantage"] / row["relative_entropy"], rel=1e-5)
        assert row["entropy"] == pytest.approx(sum(row["token_entropies"]) / len(row["token_entropies"]), rel=1e-5)
        if row["provenance"] == "sampled":
            assert row["text"] == row["sampled_text"]
        else:
            assert row["sampled_reward"] == 0.0


def test_metrics_have_one_row_a_step_and_a_rate_that_falls_to_nothing(unbroken):
    rows = metrics(unbroken)
    assert [row["step"] for row in rows] == [str(step) for step in range(STEPS)]
    rates = [float(row["learning_rate"]) for row in rows]
    assert rates == pytest.approx([1e-3 * (STEPS - step) / STEPS for step in range(STEPS)])
    assert all(float(row["ratio/mean"]) == 1.0 and float(row["clip/fraction"]) == 0.0 for row in rows)
    assert all(float(row["engine_gap/max"]) < 1e-4 for row in rows)


TAGS = """
    reward/mean accuracy/sampled accuracy/corrected group/zero_variance_sampled group/zero_variance_corrected
    group/all_wrong_sampled group/all_wrong_corrected advantage/variance entropy/mean relative_entropy/min
    relative_entropy/max relative_entropy/clamped_fraction ratio/mean clip/fraction gradient/norm length/mean
    truncation/fraction seconds/generate seconds/grade seconds/correct seconds/score seconds/train seconds/record
    evaluation/smoke/accuracy
"""


def test_tensorboard_shows_what_one_wants_to_see_of_a_run(unbroken):
    read = curves(unbroken)
    assert {*TAGS.split(), *(f"count/{p}" for p in Provenance)} <= set(read.Tags()["scalars"])
    for row in metrics(unbroken):
        step = int(row["step"])
        assert read.Scalars("reward/mean")[step].step == step
        assert read.Scalars("reward/mean")[step].value == pytest.approx(float(row["reward/mean"]))
    assert [event.step for event in read.Scalars("evaluation/smoke/accuracy")] == [0, 2, 4, 6]


def test_tensorboard_shows_responses_as_text_with_their_provenance(unbroken):
    read = curves(unbroken)
    seen = {row["provenance"] for row in rollouts(unbroken).to_pylist() if row["step"] % 2 == 0}
    tags = {tag for tag in read.Tags()["tensors"] if tag.startswith("response/")}
    assert tags == {f"response/{provenance}/text_summary" for provenance in seen}
    first = pq.read_table(unbroken / "rollouts" / "step_000000_rank_0.parquet").to_pylist()[0]
    shown = read.Tensors(f"response/{first['provenance']}/text_summary")[0]
    text = html.unescape(shown.tensor_proto.string_val[0].decode())
    assert shown.step == 0
    assert first["problem_id"] in text
    assert first["provenance"].replace("_", " ") in text
    assert first["sampled_text"].splitlines()[0] in text


def test_the_exported_policy_loads_anywhere_and_is_that_of_the_checkpoint(unbroken):
    folder = unbroken / "checkpoints" / "hf"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    kept = {k.removeprefix("policy.model."): v for k, v in checkpoint(unbroken)["state_dict"].items()}
    loaded = model.state_dict()
    assert loaded.keys() == kept.keys()
    assert all(torch.equal(loaded[name], value) for name, value in kept.items())
    assert tokenizer.apply_chat_template([{"role": "user", "content": "1"}], tokenize=False).startswith("<|im_start|>user")


def test_training_changes_the_policy(unbroken, asset):
    assert weights(unbroken) != (asset / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_rollouts_in_another_process(unbroken, killed):
    begun = rollouts(killed)
    assert begun.num_rows >= 3 * 2 * 4
    assert begun.equals(rollouts(unbroken).slice(0, begun.num_rows))


def test_a_killed_run_goes_on_from_its_checkpoint(killed):
    done = checkpoint(killed)["global_step"]
    assert done in (2, 4)
    assert len(list((killed / "rollouts").iterdir())) > done  # so that there is something to cut
    assert not (killed / "summary.json").exists()


def test_a_resumed_run_equals_the_unbroken_one_to_the_last_bit(unbroken, resumed):
    assert_same_run(unbroken, resumed)


def test_a_resumed_run_keeps_its_own_configuration(unbroken, resumed):
    assert (resumed / "config.yaml").read_text() == (unbroken / "config.yaml").read_text()
    assert (resumed / ".hydra" / "overrides.yaml").read_text() == (unbroken / ".hydra" / "overrides.yaml").read_text()


def test_validation_of_a_run_gives_the_figures_of_its_last_evaluation(unbroken, tmp_path):
    finish(process("validate", f"ckpt={unbroken}", *EVALUATION, f"hydra.run.dir={tmp_path}"))
    assert summary(tmp_path)["metrics"] == summary(unbroken)["after"]
    [rows], after = evaluations(tmp_path).values(), evaluations(unbroken)["step_000006/smoke.parquet"]
    same = [name for name in rows.column_names if name not in ("step", "weights_version")]
    assert rows.select(same).equals(after.select(same))


def test_a_sweep_is_one_process_a_job_and_a_failed_job_stops_no_other(tmp_path):
    # Without a token to reflect with, force_r alone has nothing to do.
    line = ["-m", "ablation=force_r,grpo", "rollout.reflection_limit=0", "engine=hf", "steps=1"]
    started = process("fit", *line, *SMALL, *EVALUATION, f"hydra.sweep.dir={tmp_path}")
    out, err = finish(started, status=1)
    by_ablation = {p.name.split("ablation=")[1].split(",")[0]: p for p in tmp_path.iterdir() if p.is_dir()}
    assert by_ablation.keys() == {"grpo", "force_r"}
    found = summary(by_ablation["grpo"])
    assert (found["ablation"], found["status"]) == ("grpo", "finished")
    assert "ablation=grpo" in found["overrides"]
    assert (by_ablation["grpo"] / "checkpoints" / "hf" / "model.safetensors").exists()
    assert not (by_ablation["force_r"] / "summary.json").exists()
    (events,) = (by_ablation["grpo"] / "tensorboard").glob("events*")
    assert events.name.split(".")[-2] != str(started.pid)
    assert "edge-lightning fit: correction.reflection_limit=0: at least 1 expected" in err
    assert "failed: job 0: ablation=force_r" in err
    assert "Traceback" not in err
    failed, finished = out.strip().splitlines()[-2:]
    assert failed.split()[0] == "failed"
    before, after = found["before"]["smoke/accuracy"], found["after"]["smoke/accuracy"]
    assert finished.startswith(f"finished     smoke pass@1 {before:.3f} -> {after:.3f}  ")

"""edge-lightning analyze: whole analyses of the tiny policy, and what it refuses."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from edge_lightning.analysis.windows import extreme_windows
from edge_lightning.cli.analyze import analyze
from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.resume import quoted
from tests.run_record import finish, process

MODERATE = ("data=arithmetic_moderate", "problems=6", "rollout.group_size=3")  # of which the policy gets some right


@pytest.fixture
def command(asset, tmp_path):
    def call(*overrides, folder="run", ckpt=None, engine="hf"):
        line = [f"ckpt={quoted(ckpt or asset.with_name('tiny_moderate'))}", f"engine={engine}", *MODERATE, *overrides]
        return run("analyze", [*line, f"hydra.run.dir={quoted(tmp_path / folder)}"], analyze)

    return call


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def rows(folder, name):
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def test_responses_are_kept_with_the_entropies_of_the_policy(command, tmp_path, tiny_policy, asset, capfd):
    assert command("analysis=lexical", "rollout.temperature=0.7", ckpt=asset) == 0
    found = rows(tmp_path / "run", "responses")
    assert len(found) == 6 * 3
    row = found[-1]
    with torch.no_grad():
        ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
        logits = tiny_policy.model(ids).logits[0, len(row["prompt_ids"]) - 1 : -1] / 0.7
    entropies = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
    assert row["token_entropies"] == pytest.approx(entropies.tolist(), abs=1e-5)
    assert row["entropy"] == pytest.approx(float(entropies.mean()), abs=1e-5)
    assert row["text"] == tiny_policy.decode(row["completion_ids"])
    assert len({row["seed"] for row in found}) == 18
    assert summary(tmp_path / "run")["engine_gap_nats"] < 1e-5
    assert "files     " in capfd.readouterr().out


def test_a_resampling_of_the_tiny_policy(command, tmp_path, capfd):
    small = ("analysis.continuations=4", "analysis.window=4")
    assert command(*small) == 0
    found, responses = rows(tmp_path / "run", "resampling"), rows(tmp_path / "run", "responses")
    assert len(found) == 2 * len(responses)
    by_place = {(row["problem_id"], row["response_index"]): row for row in responses}
    for highest, lowest in zip(found[::2], found[1::2]):
        own = by_place[highest["problem_id"], highest["response_index"]]
        assert highest["correct"] == own["correct"]
        assert (highest["start"], lowest["start"]) == extreme_windows(np.array(own["token_entropies"]), 4)
        assert highest["window_entropy"] >= lowest["window_entropy"]
    figures = summary(tmp_path / "run")["figures"]
    right = sum(row["correct"] for row in responses)
    assert figures["responses"] == {"right": right, "wrong": 18 - right, "without_a_window": 0}
    wrong = [row["right_continuations"] / 4 for row in found if row["window"] == "lowest" and not row["correct"]]
    assert figures["cells"]["wrong/lowest"]["share"] == pytest.approx(np.mean(wrong))
    assert command(*small, "responses_at_a_time=7", folder="again") == 0
    assert rows(tmp_path / "again", "resampling") == found
    assert command(*small, "seed=1", folder="other") == 0
    assert rows(tmp_path / "other", "resampling") != found
    assert command(*small) == 1
    assert "run: the record of an analysis is there already; give another folder" in capfd.readouterr().err


def test_a_perturbation_of_the_tiny_policy(command, tmp_path):
    assert command("analysis=perturbation", "analysis.share=0.1") == 0
    found, responses = rows(tmp_path / "run", "perturbation"), rows(tmp_path / "run", "responses")
    assert len(found) == 3 * len(responses)
    by_place = {(row["problem_id"], row["response_index"]): row for row in responses}
    for row in found:
        own = by_place[row["problem_id"], row["response_index"]]
        ids = own["completion_ids"]
        assert row["tokens"] == len(ids) - (ids[-1] == 2)
        assert row["original_ids"] == [ids[position] for position in row["positions"]]
        assert all(new != old and new > 2 for new, old in zip(row["replacing_ids"], row["original_ids"]))
        assert row["entropies"] == pytest.approx([own["token_entropies"][position] for position in row["positions"]])
        assert len(row["positions"]) == max(1, int(0.1 * row["tokens"] + 0.5))
    replaced = summary(tmp_path / "run")["figures"]["replaced"]
    assert replaced["highest"]["entropy"] > replaced["random"]["entropy"] > replaced["lowest"]["entropy"]
    # Going on from there without replacing anything keeps what stands in front.
    assert command("analysis=perturbation", "analysis.replace_with=original", folder="control") == 0
    assert all(row["replacing_ids"] == row["original_ids"] for row in rows(tmp_path / "control", "perturbation"))


def test_the_training_problems_can_be_asked(command, tmp_path):
    assert command("analysis=lexical", "problems_from=train", "problems=2") == 0
    trained = {row["problem_id"] for row in rows(tmp_path / "run", "responses")}
    assert command("analysis=lexical", "problems=2", folder="held_out") == 0
    assert len(trained) == 2
    assert not trained & {row["problem_id"] for row in rows(tmp_path / "held_out", "responses")}


@pytest.mark.slow
@pytest.mark.parametrize("analysis", ["resampling", "perturbation", "lexical"])
def test_an_analysis_with_vllm(analysis, asset, tmp_path):
    small = ("analysis.continuations=4",) if analysis == "resampling" else ()
    line = (f"ckpt={asset.with_name('tiny_moderate')}", f"analysis={analysis}", *MODERATE, *small, "cpu_threads=1")
    out, err = finish(process("analyze", *line, f"hydra.run.dir={tmp_path / 'run'}"))
    assert f"{analysis}-arithmetic_moderate" in out
    assert "starting engine=VllmEngine" in err
    assert "Traceback" not in err
    found = summary(tmp_path / "run")
    assert (found["status"], found["analysis"]) == ("finished", analysis)
    assert found["engine_gap_nats"] < 1e-4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("analysis=foo", "analysis=foo: one of forced_reflection, lexical, perturbation, resampling expected"),
        ("analysis=null", "analysis=null: one of forced_reflection, lexical, perturbation, resampling expected"),
        ("analysis.window=0", "analysis.window=0: at least 1 expected"),
        ("analysis.window=x", "analysis.window=x: int expected, str came"),
        ("analysis.window=60", "analysis.window=60: no window fits into any of 18 responses"),
        ("analysis.width=3", "no key analysis.width; did you mean analysis.window?"),
        ("analysis.windows_at_start=3", "analysis.windows_at_start=3: bool expected, int came"),
        (
            "analysis=perturbation analysis.replace_with=mask",
            r"mask: sampled_other \| sampled \| uniform \| original expected",
        ),
        ("analysis=perturbation analysis.share=2", "analysis.share=2: above 0 and at most 1 expected"),
        ("analysis=lexical analysis.unit=letter", r"analysis.unit=letter: word \| token expected"),
        ("analysis=lexical analysis.minimum_count=99999", "analysis.minimum_count=99999: none of "),
        ("engine=reference", "ReferenceEngine copies reference solutions: an engine that samples expected; set"),
        ("analysis.name=a/b", "analysis.name='a/b': a name without /"),
        ("analysis.name=3", "analysis.name=3: str expected, int came"),
        ("ckpt=3", "ckpt=3: str expected, int came"),
        ("ckpt=/nowhere", "ckpt=/nowhere: the folder of a finished run"),
        ("problems=0", "problems=0: at least 1 expected"),
        ("problems=9999", "problems=9999: arithmetic_moderate has .* usable problems_from=held_out; lower it"),
        ("problems=some", "problems=some: int . null expected, str came"),
        ("problems_from=both", r"problems_from=both: held_out \| train expected"),
        ("responses_at_a_time=0", "responses_at_a_time=0: at least 1 expected"),
        ("seed=x", "seed=x: int expected, str came"),
        ("rollout.temperature=0", "rollout.temperature=0: above 0 .* expected"),
        ("rollout.group_size=0", "rollout.group_size=0: at least 1 expected"),
        ("rollout.response_limit=9999", "need 10095 positions, the model has 512; lower"),
        ("rollout.prompt_limit=5", "at most rollout.prompt_limit=5 expected"),
        ("cpu_threads=none", "cpu_threads=none: an integer of at least 1 expected"),
        ("resume=outputs", "no key resume"),
    ],
)
def test_what_an_analysis_cannot_do_is_one_line(line, message, command, capfd):
    assert command(*line.split()) == 1
    said = [text for text in capfd.readouterr().err.splitlines() if "starting engine=" not in text]
    assert re.search(message, said[0]), said
    assert len(said) == 1

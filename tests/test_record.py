"""What a run leaves on disk: values, types, nulls, cuts."""

import csv
import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch

from edge_lightning.credit.base import Constants
from edge_lightning.experience import Rollout
from edge_lightning.training import summary
from edge_lightning.training.record import MetricsFile, cut_rollouts_from, write_rollout
from edge_lightning.training.summary import training_figures, write_json
from edge_lightning.training.update import Update
from edge_lightning.types import Grade, Provenance
from edge_lightning.versions import versions
from tests.by_hand import PROBLEM, response

NAN = float("nan")


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_column_may_join_later_and_is_empty_before(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.csv")
    metrics.append(0, {"a": 1.0})
    metrics.append(1, {"a": 2.0, "b": 0.25})
    metrics.append(2, {"b": 0.5})
    assert table(metrics.path) == [
        {"step": "0", "a": "1.0", "b": ""},
        {"step": "1", "a": "2.0", "b": "0.25"},
        {"step": "2", "a": "", "b": "0.5"},
    ]
    assert metrics.column("a") == [1.0, 2.0]
    assert metrics.column("b") == [0.25, 0.5]
    assert metrics.column("c") == []


def test_nan_is_written_as_nothing(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.csv")
    metrics.append(0, {"a": NAN, "b": 1.0})
    assert table(metrics.path) == [{"step": "0", "b": "1.0"}]


def test_values_survive_a_reopening_to_the_last_bit(tmp_path):
    values = [1 / 3, 1e-300, -0.0, 123456789.12345679]
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for step, value in enumerate(values):
        metrics.append(step, {"a": value})
    again = MetricsFile(metrics.path)
    assert again.column("a") == values
    again.append(4, {"a": 0.1, "late": 7.0})
    assert MetricsFile(metrics.path).column("a") == [*values, 0.1]
    assert [row["late"] for row in table(metrics.path)] == ["", "", "", "", "7.0"]


def test_a_cut_leaves_the_steps_before_it_on_disk_as_they_were(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for step in range(4):
        metrics.append(step, {"a": step / 3})
    before = table(metrics.path)
    again = MetricsFile(metrics.path)
    again.cut_from(2)
    assert table(metrics.path) == before[:2]
    again.append(2, {"a": 2 / 3})
    assert table(metrics.path) == before[:3]
    again.cut_from(0)
    assert table(metrics.path) == []
    assert MetricsFile(metrics.path).rows == []


# The contract of a rollout file: other tools read it.
COLUMNS = {
    "step": "int64",
    "weights_version": "int64",
    "rank": "int32",
    "problem_id": "string",
    "response_index": "int32",
    "provenance": "string",
    "prompt_ids": "list<element: int32>",
    "completion_ids": "list<element: int32>",
    "sampled_mask": "list<element: bool>",
    "text": "string",
    "sampled_text": "string",
    "finish_reason": "string",
    "gold": "list<element: string>",
    "sampled_right": "bool",
    "right": "bool",
    "sampled_reward": "double",
    "reward": "double",
    "reward_parts": "map<string, double>",
    "advantage": "float",
    "entropy": "float",
    "relative_entropy": "float",
    "token_entropies": "list<element: float>",
    "token_advantages": "list<element: float>",
    "engine_logprobs": "list<element: float>",
    "old_logprobs": "list<element: float>",
    "seed": "int64",
}


def step(**changes):
    """Two responses of 3 and 2 tokens; the second is a correction whose last token was put in."""
    first = replace(response((5, 6, 7), right=True, index=0, text="right"), seed=2**62 + 1)
    second = replace(
        response((8, 9), index=1, sampled_mask=(True, False), text="now", provenance=Provenance.ANSWER_INJECTED),
        sampled_text="first",
        grade=Grade(1.5, True, {"accuracy": 1.0, "format": 0.5}),
    )
    rollout = Rollout(
        problems=[PROBLEM],
        step=7,
        weights_version=6,
        responses=[first, second],
        advantages_B=torch.tensor([-1.0, 0.5]),
        group_B=torch.tensor([0, 0]),
        sampled_advantages_B=torch.zeros(2),
    )
    update = Update(
        constants=Constants(rollout.advantages_B, torch.tensor([0.5, 1.5]), torch.zeros(2) > 0),
        response_N=torch.tensor([0, 0, 0, 1, 1]),
        logprobs_N=torch.tensor([-1.0, -2.0, -3.0, -4.0, -5.0]),
        entropies_N=torch.tensor([0.25, 0.5, 0.75, 1.0, 3.0]),
        token_advantages_N=torch.tensor([-2.0, -2.0, -2.0, 1.0, 1.0]),
        ratio_N=torch.ones(5),
        clipped_N=torch.zeros(5),
        kl_N=torch.full((5,), torch.nan),
        trained_responses=2,
        losses=[0.0],
        gradient_norms=[0.0],
        learning_rate=0.0,
        seconds={},
    )
    return rollout, replace(update, **changes)


def test_a_rollout_file_has_the_columns_of_the_contract(tmp_path):
    path = write_rollout(tmp_path, *step(), rank=3)
    assert path.name == "step_000007_rank_3.parquet"
    found = {field.name: str(field.type).replace(" ('reward_parts')", "") for field in pq.read_schema(path)}
    assert found == COLUMNS
    assert list(found) == list(COLUMNS)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_rollout_file_holds_each_response_as_it_was(tmp_path):
    first, second = pq.read_table(write_rollout(tmp_path, *step())).to_pylist()
    assert first == {
        "step": 7,
        "weights_version": 6,
        "rank": 0,
        "problem_id": "p",
        "response_index": 0,
        "provenance": "sampled",
        "prompt_ids": [1, 2],
        "completion_ids": [5, 6, 7],
        "sampled_mask": [True, True, True],
        "text": "right",
        "sampled_text": "right",
        "finish_reason": "stop",
        "gold": ["5"],
        "sampled_right": True,
        "right": True,
        "sampled_reward": 1.0,
        "reward": 1.0,
        "reward_parts": [("accuracy", 1.0)],
        "advantage": -1.0,
        "entropy": 0.5,
        "relative_entropy": 0.5,
        "token_entropies": [0.25, 0.5, 0.75],
        "token_advantages": [-2.0, -2.0, -2.0],
        "engine_logprobs": [-0.5, -0.5, -0.5],
        "old_logprobs": [-1.0, -2.0, -3.0],
        "seed": 2**62 + 1,
    }
    assert (second["provenance"], second["text"], second["sampled_text"]) == ("answer_injected", "now", "first")
    assert (second["sampled_reward"], second["reward"]) == (0.0, 1.5)
    assert (second["sampled_right"], second["right"]) == (False, True)
    assert second["reward_parts"] == [("accuracy", 1.0), ("format", 0.5)]
    assert second["sampled_mask"] == [True, False]
    assert second["engine_logprobs"] == [-0.5, None]  # the engine never saw the injected token
    assert second["old_logprobs"] == [-4.0, -5.0]
    assert second["entropy"] == 2.0


def test_what_no_pass_gave_is_null_for_that_response_alone(tmp_path):
    rollout, update = step(
        entropies_N=torch.tensor([NAN, NAN, NAN, 1.0, 3.0]), logprobs_N=torch.tensor([NAN, NAN, NAN, -4.0, -5.0])
    )
    update.constants = Constants(rollout.advantages_B, torch.tensor([NAN, 1.0]))
    first, second = pq.read_table(write_rollout(tmp_path, rollout, update)).to_pylist()
    assert (first["entropy"], first["token_entropies"], first["old_logprobs"]) == (None, None, None)
    assert (second["entropy"], second["token_entropies"], second["old_logprobs"]) == (2.0, [1.0, 3.0], [-4.0, -5.0])
    assert (first["relative_entropy"], second["relative_entropy"]) == (None, 1.0)


def test_rollout_files_are_cut_from_a_step_on_over_all_ranks(tmp_path):
    rollout, update = step()
    for number in (8, 9, 10):
        for rank in (0, 1):
            write_rollout(tmp_path, replace(rollout, step=number), update, rank=rank)
    cut_rollouts_from(tmp_path, 9)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_000008_rank_0.parquet", "step_000008_rank_1.parquet"]


def test_training_figures_add_up_the_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "FIRST_AND_LAST_STEPS", 20)
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for number in range(30):
        metrics.append(
            number,
            {
                "tokens/sampled": 10.0,
                "tokens/injected": 2.0,
                "seconds/train": 0.25,
                "group/all_wrong_sampled": 1.0 if number < 15 else 0.0,
                "group/all_wrong_corrected": 0.5 if number == 29 else 0.0,
            },
        )
    found = training_figures(metrics)
    assert found["steps"] == 30
    assert found["tokens"] == {"sampled": 300, "injected": 60}
    assert found["seconds"] == {"train": 7.5}
    # the first 20 of 30 steps would overlap with the last 20: halves of 15 do not
    assert found["groups"]["all_wrong_sampled"] == {"first": 1.0, "last": 0.0, "mean": 0.5, "steps_in_first_and_last": 15}
    assert found["groups"]["all_wrong_corrected"] == {
        "first": 0.0,
        "last": pytest.approx(0.5 / 15),
        "mean": pytest.approx(1 / 60),
        "steps_in_first_and_last": 15,
    }
    assert "zero_variance_sampled" not in found["groups"]


def test_a_run_without_steps_has_figures_too(tmp_path):
    assert training_figures(MetricsFile(tmp_path / "metrics.csv")) == {"steps": 0, "tokens": {}, "seconds": {}, "groups": {}}


def test_versions_name_what_shapes_a_result():
    found = versions()
    assert found["torch"] == torch.__version__
    assert found["edge_lightning"]
    assert {"python", "lightning", "transformers", "math-verify", "sympy", "hydra-core"} <= {
        k for k, v in found.items() if v
    }


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"status": "finished", "after": None})
    with pytest.raises(TypeError):
        write_json(path, {"status": object()})
    assert json.loads(path.read_text()) == {"status": "finished", "after": None}
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_a_row_that_is_cut_off_is_no_row(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss/value\n0,0.5\n1,0.25\n1")  # the last one of step 10, by a killed process or a full disk
    metrics = MetricsFile(path)
    assert [row["step"] for row in metrics.rows] == ["0", "1"]
    metrics.cut_from(1)
    metrics.append(1, {"loss/value": 0.125})
    assert path.read_text().splitlines() == ["step,loss/value", "0,0.5", "1,0.125"]
    path.write_text("step,lo")
    assert MetricsFile(path).rows == []
    for torn in ("\0\0\0\n", "\0\0,\n2,0.5\n", "\n"):  # a power cut
        path.write_text(f"step,loss/value\n0,0.5\n{torn}")
        assert [row["step"] for row in MetricsFile(path).rows] == ["0"]

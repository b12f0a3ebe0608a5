"""Analyses of what runs have left, with rows by hand and a run by hand."""

import csv
import json
from io import BytesIO

import numpy as np
import pyarrow.parquet as pq
import pytest

from edge_lightning import cli
from edge_lightning.analysis.clustered import ratio, share_with_interval, sums_by_problem, with_interval
from edge_lightning.analysis.collected import Answer, Source, first_entropy, sources
from edge_lightning.analysis.mismatch import mismatch, rcm
from edge_lightning.analysis.reflection import KEYWORDS, keywords_in, reflection
from edge_lightning.analysis.training import provenance_effects, trajectories, zero_variance
from edge_lightning.cli.analyze_records import analyze_records
from edge_lightning.cli.hydra_app import help_text, run
from edge_lightning.errors import UserError
from tests.inspected_run import write_run

CONFIG = {"model": {"name": "tiny"}, "rollout": {"temperature": 0.6}}


def source(folder, label="full"):
    return Source(folder, ".", label, CONFIG)


def answer(problem, right, entropy=None, text="", where="training"):
    return Answer(where, 0, problem, text, right, entropy)


def write_metrics(folder, rows):
    folder.mkdir(exist_ok=True)
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["step", *rows[0]])
        writer.writeheader()
        writer.writerows({"step": step, **row} for step, row in enumerate(rows))


def test_a_figure_is_drawn_anew_over_problems():
    """Two problems, one all right, one all wrong: a draw has both, or one of them twice."""
    sums = sums_by_problem(["a", "a", "b", "b"], [[1, 1, 0, 0], [1, 1, 1, 1]])
    assert sums.tolist() == [[2, 2], [0, 2]]
    assert with_interval(sums, lambda s: ratio(s, 0, 1)) == (0.5, 0.0, 1.0)


def test_a_figure_over_nothing_has_no_value():
    assert with_interval(np.array([[1.0, 0.0]]), lambda s: ratio(s, 0, 1)) is None


def test_a_share_of_0_or_1_is_not_0_or_1_for_certain():
    """Of P = 2 problems with a response of the kind, 1 - .025^(1/2) = .842; a third problem has none."""
    none, every = [[4, 0], [1, 0], [0, 0]], [[4, 4], [1, 1], [0, 0]]
    assert share_with_interval(np.array(none), 1, 0) == pytest.approx((0.0, 0.0, 0.841886))
    assert share_with_interval(np.array(every), 1, 0) == pytest.approx((1.0, 0.158114, 1.0))
    assert share_with_interval(np.array([[4, 4], [4, 0]]), 1, 0) == (0.5, 0.0, 1.0)
    assert share_with_interval(np.array([[0, 0]]), 1, 0) is None


def test_keywords_are_found_whatever_their_case():
    assert keywords_in("Let me Double-Check and RETHINK it") == ["rethink", "double-check"]
    assert keywords_in("check it") == []
    assert len(KEYWORDS) == 15


def test_reflecting_responses_are_held_against_the_others(tmp_path):
    answers = [
        answer("a", True, text="recheck"),
        answer("a", False, text="I reconsider"),
        answer("b", True, text="recheck: think again"),
        answer("b", False),
        answer("b", False, where="smoke"),
    ]
    found = reflection([(source(tmp_path), answers)])
    training, smoke = found.figures["reflection"]
    assert (training["temperature"], smoke["temperature"]) == (0.6, None)
    assert (training["responses"], training["reflecting"]) == (4, 3)
    assert training["accuracy_reflecting"] == pytest.approx(2 / 3)
    assert (training["accuracy_others"], training["difference"]) == (0.0, pytest.approx(2 / 3))
    assert training["keywords"] == {"recheck": 2, "reconsider": 1, "think again": 1}
    assert (smoke["accuracy_reflecting"], smoke["accuracy_others"]) == (None, 0.0)


def test_relative_confidence_mismatch_by_hand():
    """Two right with entropies .1 and .3, one wrong with .8: (.2 - .8) / .4 = -1.5."""
    assert rcm(np.array([2.0, 0.4, 1.0, 0.8])) == pytest.approx(-1.5)
    assert np.isnan(rcm(np.array([2.0, 0.4, 0.0, 0.0])))


def test_sure_and_wrong_responses_are_counted(tmp_path):
    answers = [answer("a", True, 0.1), answer("a", True, 0.7), answer("b", False, 0.2), answer("b", False, 0.3)]
    answers += [answer("c", False, 0.7), answer("c", False, None)]  # the mean is .4
    (row,) = mismatch([(source(tmp_path), answers)]).figures["mismatch"]
    assert (row["right"], row["wrong"], row["without_entropy"]) == (2, 3, 1)
    assert row["rcm"] == pytest.approx(0.0, abs=1e-12)  # means of .4 and .4
    assert row["wrong_below_mean"] == pytest.approx(2 / 3)
    assert row["right_above_mean"] == 0.5
    assert row["wrong_below_mean_low"] <= 2 / 3 <= row["wrong_below_mean_high"]


def test_without_entropies_that_is_said(tmp_path):
    found = mismatch([(source(tmp_path), [answer("a", True)])])
    assert found.tables == {}
    assert "no response has an entropy" in found.notes[0]


def test_entropy_is_that_of_what_was_sampled_first():
    row = {"sampled_mask": [True, True, False, True], "token_entropies": [0.1, 0.3, 9.0, 5.0]}
    assert first_entropy(row) == pytest.approx(0.2)
    assert first_entropy({"sampled_mask": [False], "token_entropies": [9.0]}) is None
    assert first_entropy({"sampled_mask": [True, True], "token_entropies": [0.1, 0.5]}) == pytest.approx(0.3)


def test_a_trajectory_is_the_mean_over_seeds_with_students_interval(tmp_path):
    for name, values in (("a", (1.0, 2.0)), ("b", (3.0, ""))):
        write_metrics(tmp_path / name, [{"entropy/mean": v, "advantage/variance": 1.0} for v in values])
    found = trajectories([source(tmp_path / "a"), source(tmp_path / "b")])
    rows = pq.read_table(BytesIO(found.files["trajectories.parquet"])).to_pylist()
    first, second = [row for row in rows if row["figure"] == "entropy/mean"]
    assert (first["runs"], first["value"]) == (2, 2.0)
    assert first["value_high"] - 2.0 == pytest.approx(12.706205)  # t_(.975, 1) = 12.706, s = sqrt 2, n = 2
    assert (second["runs"], second["value"], second["value_low"]) == (1, 2.0, None)


def test_groups_without_signal_are_told_by_thirds(tmp_path):
    tied = (1.0, 0.5, 0.5, 0.5, 0.0, 0.0)
    rows = [{"group/zero_variance_sampled": v, "group/zero_variance_corrected": 0.25} for v in tied]
    write_metrics(tmp_path / "run", rows)
    found = zero_variance([source(tmp_path / "run")]).figures["zero_variance"]
    assert [(r["phase"], r["share"]) for r in found if r["groups"] == "as sampled"] == [
        ("first third", 0.75),
        ("second third", 0.5),
        ("last third", 0.0),
    ]
    assert {r["share"] for r in found if r["groups"] == "after correction"} == {0.25}


def test_the_effect_of_each_provenance(tmp_path):
    rows = {r["provenance"]: r for r in provenance_effects([source(write_run(tmp_path / "run"))]).figures["provenance"]}
    reflected, sampled = rows["reflected"], rows["sampled"]
    assert (reflected["responses"], sampled["responses"]) == (3, 3)
    assert (reflected["right_before"], reflected["right_after"]) == (0.0, pytest.approx(2 / 3))
    assert (reflected["advantage"], sampled["advantage"]) == (pytest.approx(1 / 3), pytest.approx(-1 / 3))
    assert reflected["token_advantage"] == pytest.approx(0.25)  # +1 / (4/3) of one of three
    assert reflected["share_of_absolute_advantage"] == pytest.approx(0.5)


def test_runs_that_differ_in_seeds_are_one_method(tmp_path):
    for seed, ablation in ((0, "full"), (1, "full"), (0, "grpo")):
        folder = tmp_path / f"{ablation}{seed}"
        (folder / "evaluation").mkdir(parents=True)
        (folder / "config.yaml").write_text(f"ablation: {{name: {ablation}}}\nseed: {seed}\n")
    assert [run.label for run in sources(tmp_path)] == ["full", "full", "grpo"]
    (tmp_path / "full1" / "config.yaml").write_text("ablation: {name: full}\nseed: 0\n")
    assert [run.label for run in sources(tmp_path)] == ["full0", "full1", "grpo0"]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UserError, match="none is in it"):
        sources(tmp_path)


def test_the_command_takes_a_folder_and_leaves_tables_pictures_and_rows(tmp_path, capfd):
    folder = write_run(tmp_path / "run")
    write_metrics(folder, [{"entropy/mean": 0.5, "group/zero_variance_sampled": 1.0, "group/zero_variance_corrected": 0.5}])
    assert run("analyze_records", [str(folder)], analyze_records) == 0
    out = folder / "analysis"
    names = ("reflection", "mismatch", "trajectories", "zero_variance", "provenance")
    for name in names:
        assert pq.read_table(out / f"{name}.parquet").num_rows > 0
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"![{name}.png]({name}.png)" in (out / "analysis.md").read_text()
    figures = json.loads((out / "summary.json").read_text())["figures"]
    assert figures["reflection"][0]["responses"] == 6
    assert "effect of each provenance" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(["outputs"], "analyze_records"), (["ckpt=DIR"], "analyze"), (["--help"], "analyze"), ([], "analyze")],
)
def test_a_folder_first_means_its_records(monkeypatch, arguments, command):
    asked = []
    monkeypatch.setattr("sys.argv", ["edge-lightning", "analyze", *arguments])
    monkeypatch.setattr("edge_lightning.cli.hydra_app.run", lambda name, rest, task: asked.append(name) or 0)
    with pytest.raises(SystemExit):
        cli.main()
    assert asked == [command]


def test_texts_that_were_not_kept_are_not_taken_for_texts_without_a_keyword(tmp_path):
    kept = [answer("a", True, text="recheck")]
    gone = [answer("a", True, text=None, where="smoke")] * 3
    found = reflection([(source(tmp_path), kept + gone)])
    assert [row["sampled_in"] for row in found.figures["reflection"]] == ["training"]
    assert "reflection: 3 responses of smoke are left out: their texts were not kept" in found.notes
    assert reflection([(source(tmp_path), gone)]).tables == {}


def test_groups_of_one_response_are_no_groups_without_signal(tmp_path):
    row = {"entropy/mean": 0.5, "advantage/variance": 0.0, "group/zero_variance_sampled": 1.0}
    write_metrics(tmp_path / "run", [row])
    alone = Source(tmp_path / "run", ".", "sft", {"rollout": {"group_size": 1}})
    assert zero_variance([alone]).tables == {}
    (told,) = trajectories([alone]).tables["training"].rows
    assert told[0] == "sft: entropy of all tokens"


def test_help_of_analyze_shows_both_forms():
    first, second = help_text("analyze").split("\n\n")[0].splitlines()
    assert first.startswith("usage: edge-lightning analyze ckpt=DIR ")
    assert second.strip().startswith("edge-lightning analyze RUN ")


def test_damaged_files_of_a_run_are_named_in_one_line(tmp_path):
    (tmp_path / "evaluation" / "step_000000").mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("name: [")
    with pytest.raises(UserError, match=r"config\.yaml: readable YAML expected, .*; move the run away"):
        sources(tmp_path)
    (tmp_path / "config.yaml").write_text("name: a\n")
    (tmp_path / "evaluation" / "step_000000" / "smoke.parquet").write_bytes(b"no parquet")
    with pytest.raises(UserError, match=r"smoke\.parquet: a parquet file of a run expected, .*; move it away"):
        list(sources(tmp_path)[0].answers())

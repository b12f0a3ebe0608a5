"""Which runs a report is on: methods, what is missing or damaged."""

import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_lightning.errors import UserError
from edge_lightning.report.comparison import accuracy
from edge_lightning.report.methods import baseline_of, sections
from tests.report_records import CURVES, methods, read, row, run, write_metrics, write_run, write_scores, written


def test_a_method_is_an_ablation_with_the_overrides_that_differ(tmp_path):
    shared = ("hydra.sweep.dir=x", "cpu_threads=1", "resume=y", "steps=150")
    write_run(tmp_path / "a", overrides=(*shared, "optimizer.lr=2e-4"))
    write_run(tmp_path / "b", overrides=(*shared, "optimizer.lr=4e-4"))
    write_run(tmp_path / "c", seed=1, overrides=(*shared, "optimizer.lr=0.0004", "cpu_threads=2"))
    found = methods(tmp_path)
    assert {label: sorted(m.runs) for label, m in found.items()} == {
        "grpo optimizer.lr=2e-4": [0],
        "grpo optimizer.lr=4e-4": [0, 1],
    }


def test_an_override_that_says_the_default_makes_no_method_of_its_own(tmp_path):
    said = write_run(tmp_path / "a", overrides=("steps=150",))
    unsaid = write_run(tmp_path / "b", seed=1)
    for folder in (said, unsaid):
        (folder / "config.yaml").write_text("command: fit\nsteps: 150\n")
    assert list(methods(tmp_path)) == ["grpo"]


def test_a_method_that_leaves_a_default_alone_is_named_without_it(tmp_path):
    for name, overrides, floor in (
        ("a", (), "0.1"),
        ("b", ("credit.floor=null",), "null"),
        ("c", ("fidelity=reference_code",), "null"),  # its default is no default of the others
        ("d", ("fidelity=reference_code", "credit.floor=null"), "null"),
    ):
        folder = write_run(tmp_path / name, seed=ord(name), ablation="full", overrides=overrides)
        (folder / "config.yaml").write_text(f"command: fit\ncredit:\n  floor: {floor}\n")
    found = methods(tmp_path)
    assert {label: sorted(map(chr, m.runs)) for label, m in found.items()} == {
        "full": ["a"],
        "full credit.floor=null": ["b"],
        "full fidelity=reference_code": ["c", "d"],
    }


def test_data_and_policies_never_mix(tmp_path):
    write_run(tmp_path / "a", overrides=("data=arithmetic_hard",))
    write_run(tmp_path / "b", data="gsm8k", overrides=("data=gsm8k",))
    write_run(tmp_path / "c", model="local")
    found = sections(read(tmp_path))
    assert [section.name for section in found] == ["arithmetic_hard, local", "arithmetic_hard, tiny", "gsm8k, tiny"]
    assert all(list(section.methods) == ["grpo"] for section in found)


def test_the_baseline_is_a_label_or_the_only_method_of_an_ablation(tmp_path):
    write_run(tmp_path / "g", overrides=("optimizer.lr=1",))
    write_run(tmp_path / "f", ablation="full", overrides=("optimizer.lr=1",))
    write_run(tmp_path / "h", ablation="full", overrides=("optimizer.lr=2",))
    (section,) = sections(read(tmp_path))
    assert baseline_of(section, "grpo")[0].label == "grpo optimizer.lr=1"
    assert baseline_of(section, "full optimizer.lr=2")[0].label == "full optimizer.lr=2"
    assert "several methods are of ablation full" in baseline_of(section, "full")[1]
    assert "there is no run of the baseline sft" in baseline_of(section, "sft")[1]


def test_without_the_baseline_the_rest_is_reported_and_that_is_said(tmp_path, capfd):
    write_run(tmp_path / "f", ablation="full")
    text = written(tmp_path)
    assert "There is no run of the baseline grpo, so there are no differences; set baseline to one of: full." in text
    assert row(text, "full")
    assert "no run of the baseline grpo" in capfd.readouterr().out


# --- missing, failed, damaged


def unstarted(folder, *overrides):
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text("".join(f"- {o}\n" for o in overrides))
    (folder / ".hydra" / "config.yaml").write_text("command: fit\ndata:\n  name: arithmetic_hard\nmodel:\n  name: tiny\n")


def test_every_cell_of_the_grid_is_told(tmp_path):
    (tmp_path / "multirun.yaml").write_text(
        "hydra:\n  overrides:\n    task:\n    - ablation=grpo,full,sft\n    - seed=0,1\n"
    )
    write_run(tmp_path / "g0", seed=0)
    write_run(tmp_path / "g1", seed=1, status="failed", after=None)
    unstarted(tmp_path / "f0", "ablation=full", "seed=0")
    unstarted(tmp_path / "f1", "ablation=full", "seed=1")
    (tmp_path / "f0" / "job.log").write_text("loading\nedge-lightning fit: steps=0: at least 1 expected\n")
    write_metrics(tmp_path / "f1", CURVES)
    write_run(tmp_path / "e2", ablation="extra", seed=2)
    text = written(tmp_path)
    cells = {label: row(text, label)[-1][1:] for label in ("grpo", "full", "sft", "extra")}
    assert cells == {
        "grpo": ["finished", "**failed**", "not run"],
        "full": ["**not started**", "**unfinished**", "not run"],
        "sft": ["**missing**", "**missing**", "not run"],
        "extra": ["not run", "not run", "finished"],
    }
    assert "- grpo, seed 1: failed after 2 steps (`g1`)" in text
    assert "- full, seed 0: not started (`f0`): steps=0: at least 1 expected" in text
    assert "the records of 5 runs: 2 finished" in text


def test_a_finished_run_supersedes_another_of_its_cell(tmp_path):
    write_run(tmp_path / "a", status="interrupted", after=None)
    write_run(tmp_path / "b")
    write_run(tmp_path / "c", status="failed", after=None)
    text = written(tmp_path)
    assert row(text, "grpo")[-1] == ["grpo", "finished"]
    assert "- `a`: interrupted, left out for another run of the same cell" in text
    assert "- `c`: failed, left out for another run of the same cell" in text


def test_damaged_files_are_named_and_the_rest_is_used(tmp_path, capfd):
    write_run(tmp_path / "good")
    (write_run(tmp_path / "summary", seed=1) / "summary.json").write_text("{no")
    (write_run(tmp_path / "scores", seed=2) / "evaluation" / "step_000002" / "smoke.parquet").write_bytes(b"PAR1")
    (write_run(tmp_path / "metrics", seed=3, metrics=CURVES) / "metrics.csv").write_text("step,loss\n0,many\n")
    write_scores(write_run(tmp_path / "other", seed=4) / "evaluation" / "step_000002" / "smoke.parquet", {"a": [1]})
    text = written(tmp_path)
    damaged = text.split("## Damaged records")[1]
    assert "- `summary/summary.json`: JSON expected; Expecting property name" in damaged
    assert "- `scores/evaluation/step_000002/smoke.parquet`: parquet with problem_id and correct expected;" in damaged
    assert "- `metrics/metrics.csv`: a table of numbers expected; could not convert string to float: 'many'" in damaged
    assert "its rows are +0.5000 off the summary's 0.5000" in damaged
    assert row(text, "grpo")[0][1] == "4"  # an accuracy needs the summary alone
    assert row(text, "grpo")[0][3] == "-"  # an interval needs the rows of every seed
    out = capfd.readouterr().out
    assert "damaged   summary/summary.json: JSON expected" in out


def in_summary(**changes):
    def damage(folder):
        path = folder / "summary.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def in_metrics(text, name="metrics.csv"):
    def damage(folder):
        (folder / name).write_bytes(text)

    return damage


def empty_ids(folder):
    pq.write_table(
        pa.table({"problem_id": ["a", None], "correct": [True, False]}), folder / "evaluation/step_000002/smoke.parquet"
    )


BROKEN = bytearray(gzip.compress(b"step,loss\n" + b"0,1\n" * 1000, mtime=0))
BROKEN[20:30] = b"\0" * 10


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (in_summary(after={"smoke/accuracy": None}), "summary.json`: after, smoke/accuracy: a finite number expected"),
        (in_summary(after={"smoke/accuracy": float("nan")}), "after, smoke/accuracy: a finite number expected, nan came"),
        (in_summary(after=[1]), "summary.json`: after: dict expected, list came"),
        (in_summary(seed="two"), "summary.json`: seed: int expected, str came"),
        (in_summary(steps="many"), "summary.json`: steps: int expected, str came"),
        (in_summary(evaluated_steps=["x"]), "summary.json`: evaluated_steps: whole numbers expected"),
        (lambda folder: (folder / "config.yaml").write_text("- a\n"), "config.yaml`: keys and values expected, list came"),
        (in_metrics(b"loss\n1\n"), "metrics.csv`: a table of numbers expected; there is no column step"),
        (in_metrics(b"step,loss\n0,1,2\n"), "there are lines with more or fewer cells than the first"),
        (in_metrics(bytes(BROKEN), "metrics.csv.gz"), "metrics.csv.gz`: a table of numbers expected;"),
        (empty_ids, "smoke.parquet`: parquet with problem_id and correct expected; some are empty"),
    ],
)
def test_each_damage_is_named_in_a_line_and_no_other_run_is_lost(tmp_path, damage, said):
    write_run(tmp_path / "good", metrics=CURVES)
    damage(write_run(tmp_path / "bad", seed=1))
    text = written(tmp_path)
    damaged = text.split("## Damaged records")[1].split("## ")[0]
    (line,) = [line for line in damaged.splitlines() if line.startswith("- ")]
    assert "`bad" in line
    assert said in line
    assert "good" not in line
    assert int(row(text, "grpo")[0][1]) >= 1


def test_a_last_line_that_is_not_whole_is_not_there_yet(tmp_path):
    folder = write_run(tmp_path / "run", metrics={"loss": [1.0, 2.0]})
    (folder / "metrics.csv").write_bytes(b"step,loss\r\n0,1.0\r\n1,12.5\r\n2,1")
    found = methods(tmp_path)["grpo"].runs[0].metrics
    assert (found["step"].tolist(), found["loss"].tolist()) == ([0, 1], [1.0, 12.5])


def test_a_sweep_that_can_not_be_expanded_is_named(tmp_path):
    write_run(tmp_path / "run")
    for line in ("seed=x", "ablation=glob(*)"):
        (tmp_path / "multirun.yaml").write_text(f"hydra:\n  overrides:\n    task: ['{line}']\n")
        assert "- `multirun.yaml`: the overrides of a sweep expected" in written(tmp_path)


def test_records_of_other_commands_are_left_out(tmp_path):
    write_run(tmp_path / "g")
    write_run(tmp_path / "v", command="validate")
    assert "1 records of other commands are left out." in written(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "folder=nowhere: the folder of a run, a sweep or a study expected, nothing is there"),
        (("empty",), "folder=empty: at least one record of a run expected"),
        (("broken",), "folder=broken: at least one record of a run expected .*broken.json: JSON expected"),
        ((), "no value for folder; set folder="),
        (("good", "running_mean_steps=0"), "running_mean_steps=0: at least 1 expected"),
        (("good", "running_mean_steps=many"), "running_mean_steps=many: int expected, str came"),
        (("good", "baseline=3"), "baseline=3: str expected, int came"),
        (("good", "out=good/summary.json/x"), "out=good/summary.json/x: a folder that can be written expected"),
        (("good", "steps=3"), "no key steps"),
        (("-m", "good"), "-m is not supported; one folder at a time"),
    ],
)
def test_what_a_report_cannot_do_is_one_line(arguments, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "good")
    (write_run(tmp_path / "broken") / "summary.json").write_text("[")
    assert run(*arguments) == 1
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert re.search(message.replace("broken.json", "summary.json"), err), err


def test_a_folder_without_records_is_a_user_error(tmp_path):
    with pytest.raises(UserError):
        read(tmp_path)


def test_of_two_finished_runs_of_a_cell_the_longer_counts(tmp_path):
    write_run(tmp_path / "b", steps=3, scores={"smoke": {"a": [1]}})
    write_run(tmp_path / "c", steps=2, scores={"smoke": {"a": [0]}})
    assert accuracy(methods(tmp_path)["grpo"], "smoke").mean == 1.0


def test_a_job_with_other_overrides_than_any_run_is_missing_under_its_own_label(tmp_path):
    task = "hydra:\n  overrides:\n    task:\n    - ablation=full\n    - seed=0\n    - optimizer.lr=2e-4,8e-4\n"
    (tmp_path / "multirun.yaml").write_text(task)
    write_run(tmp_path / "a", ablation="full", overrides=("optimizer.lr=2e-4",))
    assert [(m.label, m.status(0)) for m in methods(tmp_path).values()] == [
        ("full", "finished"),
        ("full optimizer.lr=0.0008", "missing"),
    ]


def test_only_some_folders_can_be_looked_into(tmp_path, capfd):
    for name, ablation in (("methods", "grpo"), ("controls", "gec_only"), ("rates", "full")):
        write_run(tmp_path / name / "run", ablation=ablation)
    text = written(tmp_path, "only=[methods,controls]")
    assert row(text, "grpo")
    assert row(text, "gec_only")
    assert not row(text, "full")
    assert "'only=[methods,controls]'" in text
    for given, message in (
        ("only=[methods,other]", "only=other: a folder in .* expected, it has controls, methods, rates"),
        ("only=methods", r"only=methods: list\[str\] \| null expected, str came"),
    ):
        assert run(tmp_path, given) == 1
        assert re.search(message, capfd.readouterr().err)

"""From run records to a report: pairing, labels, what is missing or damaged, and what is written."""

import re
from pathlib import Path

import pytest

from edge_lightning.cli import hydra_app
from edge_lightning.cli.report import report, sweep_jobs
from edge_lightning.errors import UserError
from edge_lightning.report.comparison import accuracy, difference, results
from edge_lightning.report.methods import baseline_of, sections
from edge_lightning.report.tree import read_tree
from tests.report_records import COMMIT, write_metrics, write_run, write_scores

CURVES = {"reward/mean_sampled": [0.0, 0.5], "reward/mean_corrected": [0.5, 0.5], "gradient/norm": [0.0, 2.0]}


def read(folder):
    return read_tree(folder, expand=sweep_jobs)


def methods(folder, section=0):
    return sections(read(folder))[section].methods


def run(*arguments):
    return hydra_app.run("report", [str(a) for a in arguments], report)


def written(folder, *arguments):
    """The Markdown of a report on a folder."""
    assert run(folder, *arguments) == 0
    return (folder / "report" / "report.md").read_text()


def row(markdown, label):
    """Cells of the table rows that begin with a label."""
    return [
        [c.strip() for c in line.strip("|").split("|")] for line in markdown.splitlines() if line.startswith(f"| {label} |")
    ]


@pytest.fixture
def two_by_three(tmp_path):
    """Two seeds x three problems. grpo: seed 0 .5, 0, 0; seed 1 0, 0, 0. full: seed 0 1, .5, 0; seed 1 1, 1, .5."""
    grpo = [{"a": [1, 0], "b": [0, 0], "c": [0, 0]}, {"a": [0, 0], "b": [0, 0], "c": [0, 0]}]
    full = [{"c": [0, 0], "b": [0, 1], "a": [1, 1]}, {"b": [1, 1], "a": [1, 1], "c": [1, 0]}]  # in another order
    for seed in (0, 1):
        write_run(tmp_path / f"grpo{seed}", seed=seed, scores={"smoke": grpo[seed]}, before={"smoke": 0.1}, metrics=CURVES)
        write_run(
            tmp_path / f"full{seed}", ablation="full", seed=seed, scores={"smoke": full[seed]}, packed=True, metrics=CURVES
        )
    return tmp_path


def test_accuracy_is_the_mean_over_seeds_with_their_sd(two_by_three):
    found = accuracy(methods(two_by_three)["full"], "smoke")
    assert found.by_seed == pytest.approx({0: 0.5, 1: 2.5 / 3})
    assert found.mean == pytest.approx(2 / 3)
    assert found.sd == pytest.approx((1 / 3) / 2**0.5)  # of two values: their distance / sqrt 2
    assert found.problems == 3


def test_differences_are_paired_by_problem_and_by_seed(two_by_three):
    found = difference(methods(two_by_three)["full"], methods(two_by_three)["grpo"], "smoke")
    # seed 0: a 1 - .5, b .5, c 0; seed 1: a 1, b 1, c .5
    assert found.by_seed == pytest.approx({0: 1 / 3, 1: 2.5 / 3})
    assert found.mean == pytest.approx(3.5 / 6)
    assert found.problems == 3
    assert found.p_problems == 0.25  # means .75, .75, .25: all three positive
    assert (found.p_seeds, found.p_seeds_least) == (0.5, 0.5)
    assert found.left_out == ""


def test_a_difference_of_the_same_size_on_each_pair_has_no_width(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"g{seed}", seed=seed, scores={"smoke": {"a": [0, 0], "b": [1, 0]}})
        write_run(tmp_path / f"f{seed}", ablation="full", seed=seed, scores={"smoke": {"a": [0, 1], "b": [1, 1]}})
    found = difference(methods(tmp_path)["full"], methods(tmp_path)["grpo"], "smoke")
    assert found.interval == pytest.approx((0.5, 0.5))
    assert found.half_width == 0


def test_what_has_no_pair_is_left_out_and_told(tmp_path):
    write_run(tmp_path / "g0", seed=0, scores={"smoke": {"a": [0], "b": [0], "old": [1]}})
    write_run(tmp_path / "g1", seed=1, scores={"smoke": {"a": [0], "b": [0]}})
    write_run(tmp_path / "f0", ablation="full", seed=0, scores={"smoke": {"a": [1], "b": [0]}})
    found = difference(methods(tmp_path)["full"], methods(tmp_path)["grpo"], "smoke")
    assert (found.by_seed, found.problems) == ({0: 0.5}, 2)
    assert found.left_out == "seed 1 and 1 problem"
    assert "Left out for want of a pair: seed 1 and 1 problem (full)." in written(tmp_path)


def test_no_pair_is_no_difference(tmp_path):
    write_run(tmp_path / "g", seed=0)
    write_run(tmp_path / "f", ablation="full", seed=1)
    assert difference(methods(tmp_path)["full"], methods(tmp_path)["grpo"], "smoke") is None
    assert "No other method has a finished run that can be paired with one of grpo." in written(tmp_path)


def test_a_policy_that_was_not_trained_stands_beside_every_seed(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / f"g{seed}", seed=seed, scores={"smoke": {"a": [1], "b": [0]}})
    write_run(tmp_path / "base", ablation="base", seed=7, scores={"smoke": {"a": [0], "b": [0]}}, steps=0)
    base = methods(tmp_path)["base"]
    assert accuracy(base, "smoke").by_seed == {7: 0.0}
    assert difference(base, methods(tmp_path)["grpo"], "smoke").by_seed == {0: -0.5, 1: -0.5, 2: -0.5}
    assert base.status(0) == "-"
    assert row(written(tmp_path), "base")[0][1:3] == ["1", "0.000 ± -"]


def test_a_run_without_a_last_evaluation_has_no_accuracy(tmp_path):
    write_run(tmp_path / "g", after=None, before={"smoke": 0.1}, evaluated_steps=[0])
    assert accuracy(methods(tmp_path)["grpo"], "smoke") is None
    assert "No finished run has a final evaluation" in written(tmp_path)


def test_several_benchmarks_have_an_average_over_their_problems(tmp_path):
    wrong, right = (
        {"x": {"a": [0]}, "y": {"a": [0], "b": [0], "c": [0]}},
        {"x": {"a": [1]}, "y": {"a": [0], "b": [0], "c": [1]}},
    )
    write_run(tmp_path / "g", scores=wrong)
    write_run(tmp_path / "f", ablation="full", scores=right)
    found = results(methods(tmp_path).values(), methods(tmp_path)["grpo"])
    assert list(found.accuracies) == ["x", "y", "average"]
    assert {name: it["full"].mean for name, it in found.accuracies.items()} == pytest.approx(
        {"x": 1, "y": 1 / 3, "average": 0.5}
    )
    assert found.differences["average"]["full"].mean == 0.5  # 2 of 4, not the mean of 1 and 1/3
    assert found.differences["average"]["full"].problems == 4


def test_holm_is_over_the_methods_of_a_section(tmp_path):
    rows = {f"p{i}": [0] for i in range(6)}
    write_run(tmp_path / "g", scores={"smoke": rows})
    write_run(tmp_path / "f", ablation="full", scores={"smoke": {problem: [1] for problem in rows}})  # p = 2 / 64
    write_run(tmp_path / "r", ablation="force_r", scores={"smoke": {**rows, "p0": [1]}})  # p = 1
    found = results(methods(tmp_path).values(), methods(tmp_path)["grpo"]).differences["smoke"]
    assert list(found) == ["full", "force_r"]
    assert [(d.p_problems, d.p_holm) for d in found.values()] == [(pytest.approx(2 / 64), pytest.approx(4 / 64)), (1.0, 1.0)]


# --- which runs are of one method


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


# --- what is written


def test_a_report_is_a_function_of_the_records(two_by_three):
    first = written(two_by_three)
    files = {path.name: path.read_bytes() for path in (two_by_three / "report").iterdir()}
    assert written(two_by_three) == first
    assert {path.name: path.read_bytes() for path in (two_by_three / "report").iterdir()} == files
    assert sorted(files)[-2:] == ["report.html", "report.md"]
    assert str(two_by_three) not in first  # no place on this machine


def test_the_tables_hold_the_figures(two_by_three, capfd):
    text = written(two_by_three)
    assert row(text, "full")[0][1:] == ["2", "0.667 ± 0.236", row(text, "full")[0][3], "0.500, 0.833"]
    difference_row = row(text, "full")[1]
    assert difference_row[1:3] == ["2 x 3", "+0.583"]
    assert difference_row[4:] == ["0.250", "0.250", "0.500 (0.500)", "+0.333, +0.833"]
    cost = row(text, "full")[2]
    assert cost[1:] == ["2", "1,000", "200", "50", "40", "10", "-", "-", "20", "-", "-", "10"]
    assert "smoke: 3 problems; 0.100 before training." in text
    assert "What this study can resolve on smoke: half-widths" in text
    assert f"All runs are of commit {COMMIT[:10]}." in text
    assert "Versions: python 3.11.7, torch 2.13.0." in text
    out = capfd.readouterr().out
    assert "0.667 ± 0.236" in out
    assert "4 finished of 4" in out


def test_several_commits_are_listed(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", seed=1, git_commit="f" * 40 + "+changes")
    assert "The runs are of several commits: 0123456789 (1 runs), ffffffffff+changes (1 runs)." in written(tmp_path)


def test_pictures_are_named_in_the_text_and_stand_in_the_page(two_by_three):
    text = written(two_by_three)
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    place = two_by_three / "report"
    assert sorted(named) == sorted(path.name for path in place.glob("*.png"))
    assert all((place / name).read_bytes().startswith(b"\x89PNG") for name in named)
    assert {name.rsplit("-", 1)[1] for name in named} == {
        *("accuracy.png", "differences.png", "compute.png", "reward.png", "gradient_norm.png"),
    }
    page = (place / "report.html").read_text()
    assert page.count('src="data:image/png;base64,') == len(named)
    assert not re.search(r"(?:src|href)=\"(?!data:image/png|#)", page)  # nothing is asked of a network or a file
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)


def test_figures_that_a_run_does_not_have_are_dashes_or_left_out(tmp_path):
    parts = {
        "gradient/share/sampled": [0.25, None],
        "entropy/mean/sampled": [0.1, 0.3],
        "entropy/mean/reference": [None, 0.5],
    }
    write_run(tmp_path / "a", ablation="full", metrics=parts | {"ratio/max/sampled": [1.5, 1.25]})
    text = written(tmp_path)
    table = text.split("### Provenance")[1]
    assert row(table, "sampled") == [["sampled", "2", "0.200", "1.50", "0.250"]]
    assert row(table, "reference") == [["reference", "1", "0.500", "-", "-"]]
    assert "| reward |" not in table


def test_a_method_that_samples_nothing_has_no_curve_of_what_it_says(tmp_path):
    write_run(tmp_path / "g", metrics=CURVES | {"tokens/sampled": [5.0, 5.0]})
    write_run(tmp_path / "s", ablation="sft", metrics=CURVES | {"tokens/sampled": [0.0, 0.0]})
    reward, norm = (block for block in written(tmp_path).split("*Thick: ")[1:])
    assert "Samples nothing in training: sft." in reward
    assert "sft" not in norm.split("*")[0]


def test_provenance_is_the_mean_over_steps_and_then_over_seeds(tmp_path):
    write_run(tmp_path / "a", metrics={"reward/mean/reference": [1.0, None, None, None]})
    write_run(tmp_path / "b", seed=1, metrics={"reward/mean/reference": [0.0, 0.5, 0.25, 0.25]})
    # 1 on one step, .25 on four: .625, not the mean of five steps, .4
    assert row(written(tmp_path), "reference") == [["reference", "2", "0.625"]]


def test_another_folder_can_be_given(two_by_three, tmp_path):
    assert run(two_by_three, f"out={tmp_path}/elsewhere", "baseline=full") == 0
    assert not (two_by_three / "report").exists()
    text = (tmp_path / "elsewhere" / "report.md").read_text()
    assert "edge-lightning report" in text
    assert "out=elsewhere baseline=full" in text
    assert row(text, "grpo")[1][2] == "-0.583"


def test_a_single_run_can_be_reported_on(tmp_path):
    write_run(tmp_path / "one", metrics=CURVES)
    text = written(tmp_path / "one")
    assert row(text, "grpo")[0][1:3] == ["1", "0.500 ± -"]


def test_names_with_other_signs_make_files_and_rows(tmp_path):
    odd = tmp_path / "ablation=grpo,seed=0 (a|b)"
    write_run(odd, data="my data/é", overrides=("rollout.group_size=4",))
    write_run(tmp_path / "x", data="my data/é", overrides=("rollout.group_size=8|",))
    text = written(tmp_path)
    assert r"grpo rollout.group_size=8\|" in text
    assert (tmp_path / "report" / "my_data__-tiny-accuracy.png").exists()


def test_jobs_of_a_sweep_are_those_that_hydra_makes():
    assert sweep_jobs(["ablation=grpo,full", "seed=range(0,2)", "steps=3"]) == [
        ["ablation=grpo", "seed=0", "steps=3"],
        ["ablation=grpo", "seed=1", "steps=3"],
        ["ablation=full", "seed=0", "steps=3"],
        ["ablation=full", "seed=1", "steps=3"],
    ]


def test_the_report_reads_what_a_fit_writes():
    source = (Path(__file__).resolve().parents[1] / "edge_lightning" / "cli" / "fit.py").read_text()
    for key in ("command", "ablation", "model", "data", "seed", "overrides", "status", "before", "after", "evaluated_steps"):
        assert f'"{key}":' in source

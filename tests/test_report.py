"""From run records to a report: pairing, labels, what is missing or damaged, and what is written."""

import re

import pytest

from edge_lightning.cli.report import sweep_jobs
from edge_lightning.report.comparison import accuracy, difference, results
from edge_lightning.report.tables import difference_table, generated_tokens
from tests.report_records import COMMIT, CURVES, methods, row, run, write_run, written


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


def test_pass_at_k_is_that_of_the_largest_k_that_all_seeds_have(tmp_path):
    for seed, figures in enumerate(({"pass@1": 0.1, "pass@4": 0.3, "pass@8": 0.5}, {"pass@4": 0.5})):
        after = {f"smoke/{name}": value for name, value in {"accuracy": 0.5, **figures}.items()}
        write_run(tmp_path / f"grpo-{seed}", seed=seed, after=after)
    write_run(tmp_path / "full-0", ablation="full")
    text = written(tmp_path)
    assert row(text, "method")[0][:5] == ["method", "seeds", "mean ± sd", "95 % interval", "pass@4"]
    assert row(text, "grpo")[0][4] == "0.400 ± 0.141"  # sqrt(2 x .1^2)
    assert row(text, "full")[0][4] == "-"


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


def test_the_table_has_the_adjusted_p_beside_the_plain_one(tmp_path):
    rows = {f"p{i}": [0] for i in range(6)}
    write_run(tmp_path / "g", scores={"smoke": rows})
    for name in ("full", "force_r"):
        write_run(tmp_path / name, ablation=name, scores={"smoke": {problem: [1] for problem in rows}})  # p = 2 / 64
    found = results(methods(tmp_path).values(), methods(tmp_path)["grpo"]).differences["smoke"]
    assert {r[0]: r[4:6] for r in difference_table(found).rows} == dict.fromkeys(("full", "force_r"), ("0.031", "0.062"))


def test_problems_are_paired_by_id_also_where_one_side_has_one_more_in_front(tmp_path):
    write_run(tmp_path / "g", scores={"smoke": {"0": [1], "a": [0], "b": [0]}})
    write_run(tmp_path / "f", ablation="full", scores={"smoke": {"a": [1], "b": [1]}})
    assert difference(methods(tmp_path)["full"], methods(tmp_path)["grpo"], "smoke").mean == 1.0


def test_half_a_width_and_what_was_generated(tmp_path):
    write_run(tmp_path / "g", scores={"smoke": {"a": [0], "b": [0]}})
    write_run(tmp_path / "f", ablation="full", scores={"smoke": {"a": [1], "b": [0]}})
    assert difference(methods(tmp_path)["full"], methods(tmp_path)["grpo"], "smoke").half_width == 0.5  # of 0 to 1
    assert generated_tokens(methods(tmp_path)["full"].runs[0]) == 1200


def test_a_name_with_markup_is_text_on_the_page(tmp_path):
    figures = CURVES | {"entropy/mean/sampled": [1.0, 1.0]}
    write_run(tmp_path / "run", ablation='<img src="x" onerror="alert(1)"><script>alert(2)</script>', metrics=figures)
    text = written(tmp_path)
    page = (tmp_path / "report" / "report.html").read_text()
    assert "<script>alert" not in page
    assert "onerror" not in re.sub(r"&lt;.*?&gt;", "", page)
    assert "&lt;script&gt;alert(2)" in page
    assert page.count("<details>") == page.count("</details>") == text.count("<details>") > 0


def test_the_policy_before_training_is_that_of_the_baseline(tmp_path):
    write_run(tmp_path / "g", before={"smoke": 0.25})
    write_run(tmp_path / "s", ablation="sft", before={"smoke": 0.5})  # as another engine has it
    assert "smoke: 2 problems; 0.250 before training." in written(tmp_path)
    assert "Dashed: the policy before training" in written(tmp_path)
    assert "Dashed" not in written(tmp_path, "baseline=none")


def test_cost_is_that_of_finished_runs(tmp_path):
    write_run(tmp_path / "a", tokens={"sampled": 1000, "regenerated": 0, "injected": 0})
    write_run(tmp_path / "b", seed=1, status="interrupted", tokens={"sampled": 10, "regenerated": 0, "injected": 0})
    table = written(tmp_path).split("### Tokens and seconds")[1]
    assert row(table, "grpo")[0][1:3] == ["1", "1,000"]

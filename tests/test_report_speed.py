"""How soon methods learn, by hand."""

import pytest

from edge_lightning.report.methods import sections
from edge_lightning.report.speed import first_step_at, mean_accuracy, speed_table
from edge_lightning.report.tree import read_tree
from tests.report_records import write_run


def own(*values):
    return {"accuracy/sampled": list(values)}


@pytest.fixture
def methods(tmp_path):
    """Two seeds of three methods; `full` and `gec_only` end alike, and one seed of `gec_only` stays below half."""
    for seed, (full, gec, grpo) in enumerate(
        [
            (own(0.0, 0.4, 0.8, 0.8), own(0.0, 0.0, 0.2, 0.8), own(0.0, 0.0, 0.0, 0.0)),
            (own(0.2, 0.6, 0.6, 0.6), own(0.0, 0.0, 0.0, 0.4), own(0.1, 0.1, 0.1, 0.1)),
        ]
    ):
        for name, metrics in (("full", full), ("gec_only", gec), ("grpo", grpo)):
            write_run(tmp_path / f"{name}-{seed}", ablation=name, seed=seed, metrics=metrics)
    return sections(read_tree(tmp_path, expand=list))[0].methods


def test_own_accuracy_is_the_mean_over_the_steps(methods):
    assert [mean_accuracy(run) for _, run in sorted(methods["full"].runs.items())] == pytest.approx([0.5, 0.5])
    assert mean_accuracy(methods["gec_only"].runs[0]) == pytest.approx(0.25)


@pytest.mark.parametrize(("window", "step"), [(1, 2), (2, 2), (3, 3), (4, 3)])  # means of the last two: .2, .6, .8
def test_the_step_is_the_first_whose_last_steps_are_there_on_average(methods, window, step):
    assert first_step_at(methods["full"].runs[0], 0.5, window=window) == step


def test_a_window_that_is_not_full_counts_for_nothing(tmp_path):
    write_run(tmp_path / "run", metrics=own(1.0, 0.0, 0.0))
    run = sections(read_tree(tmp_path, expand=list))[0].methods["grpo"].runs[0]
    assert first_step_at(run, 0.5, window=2) == 1
    assert first_step_at(run, 0.5, window=3) is None


def test_the_table_pairs_runs_by_seed_and_says_who_never_gets_there(methods):
    table = speed_table(methods.values(), methods["grpo"], window=1)
    assert table.header == ("method", "seeds", "own accuracy", "to grpo", "reaches 0.5 at step", "each seed")
    full, gec, grpo = table.rows
    # to grpo: .5 - 0 and .5 - .1, mean .45, sd .1 / sqrt 2; steps 2 and 1
    assert full == ("full", "2", "0.500 ± 0.000", "+0.450 ± 0.071", "2", "0.500, 0.500")
    assert gec[2:] == ("0.175 ± 0.106", "+0.125 ± 0.177", "3 (1 of 2 runs)", "0.250, 0.100")
    assert grpo[2:] == ("0.050 ± 0.071", "-", "never", "0.000, 0.100")


def test_without_a_baseline_there_is_no_difference(methods):
    table = speed_table(methods.values(), None, window=1)
    assert table.header == ("method", "seeds", "own accuracy", "reaches 0.5 at step", "each seed")


def test_methods_that_sample_nothing_have_no_speed(tmp_path):
    write_run(tmp_path / "run", ablation="sft", metrics=own(1.0, 1.0) | {"tokens/sampled": [0.0, 0.0]})
    assert speed_table(sections(read_tree(tmp_path, expand=list))[0].methods.values(), None, window=1) is None

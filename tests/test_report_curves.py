"""Curves over seeds by hand."""

import numpy as np
import pytest

from edge_lightning.report.curve_pictures import TRAINING
from edge_lightning.report.curves import band, over_steps, running_mean
from edge_lightning.report.methods import sections
from edge_lightning.report.style import BASELINE, columns_for, looks
from edge_lightning.report.tree import read_tree
from tests.report_records import write_run

NAN = float("nan")


def method(folder, *runs):
    for seed, metrics in enumerate(runs):
        write_run(folder / str(seed), seed=seed, metrics=metrics)
    return sections(read_tree(folder, expand=list))[0].methods["grpo"]


@pytest.mark.parametrize(
    ("window", "smooth"),
    [
        (1, [4, 0, NAN, 2]),
        (2, [4, 2, 0, 2]),  # the mean of those that there are of the last two
        (3, [4, 2, 2, 1]),
        (9, [4, 2, 2, 2]),
    ],
)
def test_running_mean_looks_back_and_skips_what_is_not_there(window, smooth):
    found = running_mean(np.array([4, 0, NAN, 2.0]), window)
    assert found == pytest.approx(np.array(smooth, dtype=float), nan_ok=True)


def test_a_band_goes_from_the_least_seed_to_the_largest(tmp_path):
    found = band(method(tmp_path, {"x": [0.0, 2.0]}, {"x": [4.0, 2.0]}, {"x": [2.0, 8.0]}), "x", window=2)
    assert found.steps.tolist() == [0, 1]
    assert found.raw.tolist() == [2, 4]
    # running means: 0, 1; 4, 3; 2, 5
    assert (found.low.tolist(), found.mean.tolist(), found.high.tolist()) == ([0, 1], [2, 3], [4, 5])
    assert found.seeds == 3


def test_a_step_that_a_seed_lacks_is_drawn_from_the_rest(tmp_path):
    found = band(method(tmp_path, {"x": [1.0, None, 3.0]}, {"x": [2.0, None, None]}, {"y": [0.0] * 3}), "x", window=1)
    assert found.steps.tolist() == [0, 2]
    assert (found.low.tolist(), found.mean.tolist(), found.high.tolist()) == ([1, 3], [1.5, 3], [2, 3])
    assert found.seeds == 2


def test_shorter_runs_do_not_shorten_the_rest(tmp_path):
    found = band(method(tmp_path, {"x": [1.0]}, {"x": [3.0, 5.0]}), "x", window=1)
    assert found.mean.tolist() == [2, 5]


def test_what_the_policy_says_by_itself_is_the_solid_line():
    drawn = {plan.name: [(curve.column, curve.line) for curve in plan.curves] for plan in TRAINING}
    assert drawn["reward"] == [("reward/mean_sampled", "-"), ("reward/mean_corrected", "--")]
    assert drawn["zero_variance"] == [("group/zero_variance_sampled", "-"), ("group/zero_variance_corrected", "--")]
    assert drawn["advantage_variance"] == [("advantage/variance", "-"), ("advantage/variance_sampled", "--")]


def test_a_figure_that_no_run_has_has_no_band(tmp_path):
    assert band(method(tmp_path, {"x": [None, None]}), "x", window=1) is None
    assert over_steps(sections(read_tree(tmp_path, expand=list))[0].methods["grpo"], "y") is None


def test_a_figure_over_steps_is_their_mean_or_the_largest(tmp_path):
    it = method(tmp_path, {"x": [1.0, 3.0, None]}, {"x": [5.0, 5.0, 8.0]})
    assert over_steps(it, "x") == (4.0, 2.5)  # 2 on two steps, 6 on three
    assert over_steps(it, "x", largest=True) == (5.5, 2.5)


def test_each_method_keeps_its_look_whatever_comes_of_it():
    found = looks(["b", "grpo", "a"], ["grpo"])
    assert found == looks(["grpo", "a", "b"], ["grpo"])
    assert found["grpo"].colour == BASELINE
    many = looks([f"m{i}" for i in range(60)], [])
    assert len({(look.colour, look.marker) for look in many.values()}) == 60


def test_grids_leave_few_places_empty():
    assert [columns_for(n) for n in (1, 3, 4, 5, 8, 9, 10, 14, 15)] == [1, 3, 4, 5, 4, 3, 5, 5, 5]

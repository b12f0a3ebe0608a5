"""The published tables recompute from their own columns."""

import pytest

from edge_lightning.evaluation.published import EDGE_GRPO, SIZES

# Printed 49.30; 5/30, 42/83, 378/500, 90/272 and 250/675 right are 765 of 1560, 49.04.
CANNOT = {("7B", "Random-1K", "EDGE-GRPO")}


def key(row):
    return row.model, row.data, row.method


def test_the_suite_has_1560_problems():
    assert SIZES == {"aime": 30, "amc": 83, "math": 500, "minerva": 272, "olympiad_bench": 675}
    assert sum(SIZES.values()) == 1560


@pytest.mark.parametrize(
    "row", [row for row in EDGE_GRPO if key(row) not in CANNOT], ids=lambda row: " ".join(map(str, key(row)))
)
def test_a_printed_average_is_weighted_by_problems(row):
    assert row.weighted == pytest.approx(row.average, abs=0.02)
    assert abs(row.of_benchmarks - row.average) > 0.02  # and not the mean of five percentages


def test_the_average_that_cannot_be_recomputed_is_the_one_that_is_listed():
    assert {key(row) for row in EDGE_GRPO if abs(row.weighted - row.average) > 0.02} == CANNOT
    (row,) = [row for row in EDGE_GRPO if key(row) in CANNOT]
    assert row.weighted == pytest.approx(100 * 765 / 1560, abs=0.005)
    assert row.average - row.weighted == pytest.approx(0.26, abs=0.005)


def test_both_averages_by_hand():
    row = next(row for row in EDGE_GRPO if row.method == "Base")
    # right: 2 of 30, 31 of 83, 173 of 500, 33 of 272, 162 of 675: 401 of 1560; and a fifth of 6.67+37.35+34.60+12.13+24.00
    assert row.weighted == pytest.approx(100 * 401 / 1560, abs=0.005)
    assert row.of_benchmarks == pytest.approx(114.75 / 5)


def test_every_column_is_a_whole_number_of_right_answers():
    for row in EDGE_GRPO:
        for problems, accuracy in zip(SIZES.values(), row.accuracies, strict=True):
            right = round(problems * accuracy / 100)
            assert round(100 * right / problems, 2) == pytest.approx(accuracy, abs=0.006), (key(row), problems)


def test_no_row_stands_twice():
    assert len({key(row) for row in EDGE_GRPO}) == len(EDGE_GRPO) == 22

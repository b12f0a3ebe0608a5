"""Intervals and tests against numbers worked by hand."""

import numpy as np
import pytest

from edge_lightning.report.statistics import crossed_interval, holm, mean_and_sd, sign_flip_p, smallest_p


def test_sd_over_seeds_divides_by_n_minus_1_and_one_seed_has_none():
    assert mean_and_sd([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_sd([0.4]) == (0.4, None)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 1), (4, 60)])
def test_equal_differences_have_an_interval_without_width(shape):
    assert crossed_interval(np.full(shape, -0.25)) == pytest.approx((-0.25, -0.25), abs=1e-12)


def test_seeds_are_resampled():
    # two seeds that differ by 1 on every problem: the mean is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4
    assert crossed_interval(np.array([[0.0] * 6, [1.0] * 6])) == (0.0, 1.0)


def test_problems_are_resampled():
    assert crossed_interval(np.array([[0.0, 1.0]] * 6)) == (0.0, 1.0)


def test_seeds_and_problems_are_drawn_independently():
    # x_sp = 1 at s = p = 0, else 0: the mean is u v / 4 with u, v in 0, 1, 2 (1/4, 1/2, 1/4), and P(u = v = 2) = 1/16
    assert crossed_interval(np.array([[1.0, 0.0], [0.0, 0.0]])) == (0.0, 1.0)
    # cells drawn one by one would have P(mean = 1) = 1/256, and an interval that ends at 3/4


def test_one_seed_leaves_problems_alone_to_vary():
    low, high = crossed_interval(np.array([[0.0, 0.0, 0.0, 1.0]]))
    assert (low, high) == (0.0, 0.75)  # Binomial(4, 1/4) / 4: P(0) = .316, P(4) = .004, P(>= 3) = .051


def test_an_interval_is_the_same_each_time_and_follows_its_table():
    table = np.random.default_rng(1).normal(size=(3, 20))
    low, high = crossed_interval(table)
    assert crossed_interval(table) == (low, high)
    assert crossed_interval(table + 1) == pytest.approx((low + 1, high + 1))
    assert low < table.mean() < high


def test_an_empty_table_is_refused():
    with pytest.raises(ValueError, match="0 x 3 came"):
        crossed_interval(np.zeros((0, 3)))


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.1, 0.1, 0.1], 0.25),  # +++ and --- of 8
        ([-0.1, -0.1, -0.1], 0.25),
        ([1.0, 2.0, 3.0, -1.0], 0.375),  # |sum| >= 5: 7, 5, 5 and their negatives, of 16
        ([3.0, -1.0], 1.0),  # 4, 2, -2, -4: all at least 2
        ([0.2, 0.0, 0.0], 1.0),  # zeros are left out
        ([0.0, 0.0], 1.0),
        ([], 1.0),
        ([0.5] * 16, 2 / 2**16),
    ],
)
def test_sign_flip_p_is_exact_for_few_differences(differences, p):
    assert sign_flip_p(differences) == pytest.approx(p, abs=1e-12)


def test_sign_flip_p_of_many_differences_is_never_0():
    assert sign_flip_p([0.5] * 40) == pytest.approx(2 / 10_000)
    assert sign_flip_p(np.tile([0.5, -0.5], 20)) == pytest.approx(1.0, abs=0.01)


def test_what_is_left_of_equal_means_is_no_difference():
    assert sign_flip_p([0.1, (0.1 + 0.2) - 0.3, 0.1, 0.1]) == 0.25


def test_the_smallest_p_of_n_seeds_is_2_to_the_1_minus_n():
    assert [smallest_p(n) for n in (1, 2, 3, 5)] == [1.0, 0.5, 0.25, 0.0625]
    assert all(smallest_p(n) == sign_flip_p([0.3] * n) for n in (1, 2, 3, 5))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # .01 x 3, .03 x 2, and .04 x 1 is no less
    assert holm([0.5, 0.4]) == pytest.approx([0.8, 0.8])
    assert holm([0.9, 0.01, 0.7]) == pytest.approx([1.0, 0.03, 1.0])
    assert holm([]) == []


def test_the_crossed_interval_covers_what_an_interval_over_problems_alone_misses():
    """Seeds that differ by sd .15, problems by .2, residuals of .3; 5 seeds, 60 problems, the truth is 0."""
    draw = np.random.default_rng(0)
    crossed = alone = 0
    for trial in range(200):
        table = draw.normal(0, 0.15, (5, 1)) + draw.normal(0, 0.2, (1, 60)) + draw.normal(0, 0.3, (5, 60))
        low, high = crossed_interval(table, resamples=499, rng=trial)
        crossed += low <= 0 <= high
        low, high = crossed_interval(table.mean(axis=0, keepdims=True), resamples=499, rng=trial)
        alone += low <= 0 <= high
    assert 0.82 <= crossed / 200 <= 0.96  # .89 of 600 trials
    assert alone / 200 <= 0.65

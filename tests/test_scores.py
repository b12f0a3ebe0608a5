"""Scores by hand."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from edge_lightning.evaluation.scores import mean_with_interval, pass_at_k


@pytest.mark.parametrize(
    ("samples", "right", "k", "expected"),
    [
        (4, 1, 2, 0.5),  # 1 - C(3, 2) / C(4, 2) = 1 - 3 / 6
        (4, 2, 2, 5 / 6),  # 1 - C(2, 2) / 6
        (4, 3, 2, 1.0),  # one wrong among four cannot fill both places
        (4, 1, 1, 0.25),
        (8, 3, 4, 1 - 5 / 70),
        (4, 0, 4, 0.0),
        (4, 1, 4, 1.0),
    ],
)
def test_pass_at_k_is_the_chance_of_one_right_among_k(samples, right, k, expected):
    assert pass_at_k(samples, right, k) == pytest.approx(expected)


@pytest.mark.parametrize("samples", [256, 1024])
def test_pass_at_k_is_exact_for_hundreds_of_samples(samples):
    """Against fractions: C(256, 128) has 76 digits, C(1024, 512) more than a float holds."""
    for k in (2**i for i in range(samples.bit_length())):
        for right in (0, 1, 2, 3, 5, samples // 2, samples - 1, samples):
            exact = 1 - Fraction(comb(samples - right, k), comb(samples, k))
            assert pass_at_k(samples, right, k) == float(exact)
    assert pass_at_k(samples, 0, samples) == 0.0
    assert pass_at_k(samples, 1, samples) == 1.0
    assert pass_at_k(samples, 1, 1) == 1 / samples
    assert pass_at_k(256, 1, 128) == 0.5  # one of two halves holds the right one
    assert pass_at_k(256, 2, 128) == 1 - (128 * 127) / (256 * 255)  # both in the other half


@pytest.mark.parametrize(("samples", "right", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_cannot_be(samples, right, k):
    with pytest.raises(ValueError, match=f"k={k}, n={samples}, c={right} came"):
        pass_at_k(samples, right, k)


@pytest.mark.parametrize("values", [[0.5], [0.25] * 40])
def test_equal_values_have_an_interval_without_width(values):
    assert mean_with_interval(values) == (values[0], values[0], values[0])


@pytest.mark.parametrize(("problems", "unseen"), [(1, 0.975), (2, 0.8418861), (16, 0.2059072), (1560, 0.0023619)])
def test_never_right_is_not_zero_for_certain(problems, unseen):
    # Clopper-Pearson: (1 - p)^n = .025, so p = 1 - .025^(1/n); n = 2: 1 - .1581139
    mean, low, high = mean_with_interval([0.0] * problems)
    assert (mean, low, high) == (0.0, 0.0, pytest.approx(unseen, abs=1e-7))
    mean, low, high = mean_with_interval([1.0] * problems)
    assert (mean, low, high) == (1.0, pytest.approx(1 - unseen, abs=1e-7), 1.0)


def test_interval_of_many_problems_is_that_of_the_normal_approximation():
    values = [1.0] * 100 + [0.0] * 300
    mean, low, high = mean_with_interval(values)
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)  # 0.0424
    assert mean == 0.25
    assert low == pytest.approx(0.25 - half, abs=0.004)
    assert high == pytest.approx(0.25 + half, abs=0.004)
    assert mean_with_interval(values) == (mean, low, high)


def test_the_interval_of_few_right_problems_is_the_percentiles_of_a_resampled_mean():
    # One right of 40: a resample holds X of it, binomial(40, 1/40). P(X = 0) = .363 is over .025: the low end is 0.
    # P(X <= 2) = .922 is under .975, P(X <= 3) = .982 is over it: the high end is 3/40.
    assert mean_with_interval([1.0] + [0.0] * 39) == pytest.approx((0.025, 0.0, 0.075))


def test_an_interval_is_the_same_each_time_it_is_asked_for():
    values = [(number / 97) ** 2 for number in range(97)]  # no two resamples have one mean by chance
    assert mean_with_interval(values) == mean_with_interval(values)


def test_a_higher_confidence_has_a_wider_interval():
    values = [0.0, 0.0, 0.5, 1.0] * 10
    _, low, high = mean_with_interval(values)
    _, lower, higher = mean_with_interval(values, confidence=0.99)
    assert lower < low < 0.375 < high < higher

"""Where a response is cut and which of its tokens are replaced, with numbers by hand."""

from collections import Counter

import numpy as np
import pytest

from edge_lightning.analysis.base import Measured, spread
from edge_lightning.analysis.positions import chosen_positions, share_of
from edge_lightning.analysis.windows import extreme_windows
from edge_lightning.types import Problem
from tests.by_hand import response

# Means of two neighbours: .5 .7 .3 .1 .5 .7
ENTROPIES = np.array([0.1, 0.9, 0.5, 0.1, 0.1, 0.9, 0.5])


def test_the_first_of_the_windows_with_the_highest_and_the_lowest_mean_is_taken():
    assert extreme_windows(ENTROPIES, 2) == (1, 3)
    assert extreme_windows(ENTROPIES, 1) == (1, 0)
    assert extreme_windows(ENTROPIES, 3) == (0, 2)  # .5 .5 .2333 .3667 .5


def test_a_window_may_be_kept_from_the_start():
    assert extreme_windows(ENTROPIES, 2, first_start=2) == (5, 3)
    assert extreme_windows(ENTROPIES, 1, first_start=1) == (1, 3)


def test_means_that_differ_by_rounding_alone_are_ties():
    assert 0.1 + 0.2 + 0.3 > 0.3 + 0.2 + 0.1  # in floating point
    assert extreme_windows(np.array([0.3, 0.2, 0.1, 0.2, 0.3]), 3) == (0, 1)
    assert extreme_windows(np.zeros(4), 2) == (0, 0)


def test_a_response_of_one_window_has_it_for_both_and_a_shorter_one_has_none():
    assert extreme_windows(ENTROPIES, 7) == (0, 0)
    assert extreme_windows(ENTROPIES, 8) is None
    assert extreme_windows(ENTROPIES, 7, first_start=1) is None
    assert extreme_windows(ENTROPIES, 6, first_start=1) == (1, 1)


@pytest.mark.parametrize(
    ("tokens", "count"),
    # .05 T = .05, .45, .5, 1.45, 1.5, 2.5, 3.5, 5.5, 5
    [(1, 1), (9, 1), (10, 1), (29, 1), (30, 2), (50, 3), (70, 4), (110, 6), (100, 5)],
)
def test_five_per_cent_are_rounded_half_up_and_are_at_least_one_token(tokens, count):
    assert share_of(0.05, tokens) == count


def test_of_equal_entropies_the_first_are_chosen():
    values = np.array([0.1, 0.9, 0.5, 0.9, 0.1])
    for count, highest, lowest in [
        (1, [1], [0]),
        (2, [1, 3], [0, 4]),
        (3, [1, 2, 3], [0, 2, 4]),
        (4, [0, 1, 2, 3], [0, 1, 2, 4]),
    ]:
        assert chosen_positions(values, count, "highest", seed=0) == highest
        assert chosen_positions(values, count, "lowest", seed=0) == lowest


def test_random_places_are_different_ascending_and_equally_likely():
    values = np.array([9.0, 0.0, 0.0, 0.0])
    drawn = [chosen_positions(values, 2, "random", seed=seed) for seed in range(4000)]
    assert all(places[0] < places[1] for places in drawn)
    found = Counter(place for places in drawn for place in places)
    assert all(1900 <= found[place] <= 2100 for place in range(4))  # 2000 expected, standard deviation 32
    assert drawn == [chosen_positions(values, 2, "random", seed=seed) for seed in range(4000)]


@pytest.mark.parametrize("count", [0, 6])
def test_a_response_has_as_many_places_as_tokens(count):
    with pytest.raises(ValueError, match=f"1 to 5 places of a response of 5 tokens expected, {count} came"):
        chosen_positions(np.zeros(5), count, "random", seed=0)


def of_problems(**counts):
    return [
        Measured(response(problem=Problem(name, name, ("1",)), index=index), np.zeros(3))
        for name, count in counts.items()
        for index in range(count)
    ]


def places(measured):
    return [(it.response.problem.id, it.response.index) for it in measured]


def test_a_draw_of_responses_takes_one_of_each_problem_before_a_second():
    everything = of_problems(a=5, b=1, c=3)
    three, five, six = (places(spread(everything, count, seed=0)) for count in (3, 5, 6))
    assert [name for name, _ in three] == ["a", "b", "c"]
    assert Counter(name for name, _ in five) == {"a": 2, "b": 1, "c": 2}
    assert set(three) < set(five) < set(six)
    assert places(spread(everything, None, seed=0)) == places(spread(everything, 99, seed=0)) == places(everything)
    assert len({tuple(places(spread(everything, 3, seed=seed))) for seed in range(20)}) > 5

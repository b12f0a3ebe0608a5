r"""How different answers are, by hand."""

from math import log

import pytest

from edge_lightning.evaluation.diversity import answer_entropy, answer_key, collision_rate


@pytest.mark.parametrize(
    ("answers", "collisions", "entropy"),
    [
        ("aabc", 1 / 6, 0.75),  # one of 6 pairs; (1/2 log 2 + 2 * 1/4 log 4) / log 4 = (1/2 + 1) / 2
        ("aaaa", 1.0, 0.0),
        ("abcd", 0.0, 1.0),
        ("aabb", 2 / 6, 0.5),  # log 2 / log 4
        ("aaab", 3 / 6, (0.75 * log(4 / 3) + 0.25 * log(4)) / log(4)),
        ("ab", 0.0, 1.0),
    ],
)
def test_collisions_and_entropy_of_the_answers_to_a_problem(answers, collisions, entropy):
    assert collision_rate(answers) == pytest.approx(collisions)
    assert answer_entropy(answers) == pytest.approx(entropy)
    assert collision_rate(answers[::-1]) == pytest.approx(collisions)


@pytest.mark.parametrize("figure", [collision_rate, answer_entropy])
def test_one_answer_alone_has_no_diversity_to_tell(figure):
    with pytest.raises(ValueError, match="at least 2 answers of a problem expected, 1 came"):
        figure(["a"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "7.0"),
        ("-0.5", "-.50"),
        ("0.5", r"\frac{1}{2}"),
        (" x + 1 ", "x+1"),
        (r"$\dfrac{1}{2}$", r"\frac{1}{2}"),
        (r"\left( 3, 4 \right)", "(3,4)"),
        ("50%", r"50\%"),
        ("0", "-0"),
        ("12.", "12"),
        ("{", " { "),  # nothing that can be read
    ],
)
def test_wrong_answers_are_equal_where_their_cleaned_texts_are(one, other):
    assert answer_key(one, right=False) == answer_key(other, right=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "70"),
        ("7", "-7"),
        ("1,23", "123"),
        ("(1,2)", "(12)"),
        ("1,2", "1.2"),
        ("x", "X"),
        ("0.3", "0.33"),
        ("10", "1"),
    ],
)
def test_wrong_answers_that_differ_stay_different(one, other):
    assert answer_key(one, right=False) != answer_key(other, right=False)


def test_right_answers_are_one_answer_however_they_are_written():
    assert answer_key(r"\frac12", right=True) == answer_key("0.5", right=True)
    assert answer_key("0.5", right=True) != answer_key("0.5", right=False)


def test_responses_without_a_box_count_as_one_answer_of_their_own():
    keys = [answer_key(answer, right=False) for answer in (None, None, "", "none")]
    # two of the six pairs' members agree: one pair
    assert collision_rate(keys) == pytest.approx(1 / 6)

"""Problems that stand in two places, found by letters and by word 4-grams."""

import pytest

from edge_lightning.data.overlap import OverlapIndex, duplicates
from edge_lightning.data.table import ProblemTable
from edge_lightning.types import Problem


def problems(*texts):
    return [Problem(f"p{i}", text, ("1",)) for i, text in enumerate(texts)]


def found(text, *texts):
    overlaps = OverlapIndex(problems(*texts)).overlaps(Problem("other", text, ("1",)))
    return [(overlap.problem, round(overlap.similarity, 3), overlap.exact) for overlap in overlaps]


@pytest.mark.parametrize(
    "text",
    [
        "let  $X_1, x_2$ be two integers.",
        r"Let \(x_{1},\, x_{2}\) be two integers",
        "[b](i)[/b]".replace("(i)", "Let") + " x_1 x_2 be two [i]integers[/i]!",
    ],
)
def test_case_spacing_punctuation_and_markup_make_no_difference(text):
    assert found(text, "Let $x_1,x_2$ be two integers.") == [("p0", 1.0, True)]


def test_the_similarity_is_the_jaccard_index_of_word_4_grams():
    # a b c d e f g: abcd bcde cdef defg; a b c d e f h: abcd bcde cdef defh. 3 shared of 5 -> 0.6
    assert found("a b c d e f g", "a b c d e f h") == [("p0", 0.6, False)]
    # a b c d e x y z against a b c d e f: abcd bcde shared; 5 + 3 - 2 = 6 -> 1/3, under 0.4
    assert found("a b c d e x y z", "a b c d e f") == []
    # 2 shared of 3 + 4 - 2 = 5 -> exactly 0.4 counts
    assert found("a b c d e x", "q a b c d e y".replace("q ", "") + " z") == [("p0", 0.4, False)]
    # 12 words shared, 7 more on either side: 19 words are 16 4-grams, 9 of them shared; 9 / (16 + 16 - 9) = .391, under .4
    first, second = ("a b c d e f g h i j k l " + " ".join(word * 2 for word in words) for words in ("mnopqrs", "tuvwxyz"))
    assert found(first, second) == []


def test_words_of_any_script_count():
    assert found("Сложи один и два!", "сложи ОДИН и два", "сложи один и три") == [("p0", 1.0, True)]


def test_numbers_count_as_words():
    assert found("add 1 to 2 and get 3", "add 1 to 2 and get 4") == [("p0", 0.6, False)]


def test_all_overlapping_problems_are_found_the_most_similar_first():
    texts = ("a b c d e f h", "a b c d e f g", "w x y z", "a b c d e f g.")
    assert found("a b c d e f g", *texts) == [("p1", 1.0, True), ("p3", 1.0, True), ("p0", 0.6, False)]


@pytest.mark.parametrize(("text", "hits"), [("$x$?", [("p0", 1.0, True)]), ("x y", []), ("?!", []), ("", [])])
def test_short_and_empty_texts(text, hits):
    assert found(text, "x", "---") == hits


def test_duplicates_are_equal_but_for_white_space():
    assert duplicates(problems("a b", "c", "a  b\n", "A b", "c", "c")) == [["p0", "p2"], ["p1", "p4", "p5"]]
    assert duplicates(problems("1 2", "12")) == []


def test_hard_1k_overlaps_with_13_of_the_1560_benchmark_problems_and_has_10_duplicates(edge_data):
    train = ProblemTable(edge_data("train_data/deepscaler_hard-1k.json")).train()
    assert [len(ids) for ids in duplicates(train)] == [2] * 10
    index = OverlapIndex(train)
    exact, near = {}, {}
    for split in ("aime", "amc", "math", "minerva", "olympiad_bench"):
        for problem in ProblemTable(edge_data("evaluation_suite"), split=split, held_out_share=1.0).held_out():
            best = next(iter(index.overlaps(problem)), None)
            if best is not None:
                (exact if best.exact else near)[split] = (exact if best.exact else near).get(split, 0) + 1
    assert (exact, near) == ({"math": 4, "olympiad_bench": 3}, {"math": 1, "olympiad_bench": 5})

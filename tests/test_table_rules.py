"""What a configuration may do to the rows of a table: answers by rule, filters, samples."""

import pytest

from edge_lightning.data.filters import ColumnMatches, ColumnRange
from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from tests.test_table import write


@pytest.mark.parametrize(
    ("rule", "answer", "answers"),
    [
        ({"answer_pattern": r"####\s*(.+)"}, "work #### 3\nmore #### 4 ", ("4",)),
        ({"answer_pattern": r"\d+"}, "from 3 to 17", ("17",)),
        ({"answer_replace": {r",(?=\d{3})": ""}}, "16,800,000", ("16800000",)),
        ({"answer_replace": {"x": "y", "y": "z"}}, ["x", 1], ("z", "1")),
        ({"answer_pattern": "####(.*)"}, "work #### 4", ("4",)),  # stripped after it is cut out
        ({"answer_pattern": r"a(\d)", "answer_replace": {"1": "a2"}}, "a1", ("a2",)),  # cut out before it is rewritten
    ],
)
def test_answers_are_normalised_by_rule(tmp_path, rule, answer, answers):
    assert ProblemTable(write(tmp_path, [{"problem": "p", "answer": answer}]), **rule).train()[0].answers == answers


def test_an_answer_without_the_pattern_is_a_bad_row(tmp_path):
    rows = [{"problem": "p", "answer": "#### 1"}, {"problem": "q", "answer": "1"}, {"problem": "r", "answer": "####"}]
    table = ProblemTable(write(tmp_path, rows), answer_pattern="####(.+)?")
    assert (len(table.train()), len(table.report.bad)) == (1, 2)
    assert "that matches answer_pattern='####(.+)?' expected in column 'answer', \"1\" came" in table.report.bad[0].reason


def test_filters_take_rows_by_pattern_and_by_number_and_are_counted(tmp_path):
    rows = [
        {"problem": "p", "answer": 1, "solution": r"\boxed{1}", "rate": 0.0},
        {"problem": "q", "answer": 1, "solution": "none", "rate": 0.0},
        {"problem": "r", "answer": 1, "rate": 0.0},
        {"problem": "s", "answer": 1, "solution": r"\boxed {1}", "rate": 0.125},
        {"problem": "t", "answer": 1, "solution": r"\boxed{1}", "rate": "0.25"},
        {"problem": "u", "answer": 1, "solution": r"\boxed{1}", "rate": None},
    ]
    filters = {
        "boxed": ColumnMatches("solution", r"\\boxed\s*\{"),
        "hard": ColumnRange("rate", at_most=0.125),
        "none": None,
    }
    table = ProblemTable(write(tmp_path, rows), filters=filters)
    assert [problem.text for problem in table.train()] == ["p", "s"]
    assert table.report.filtered == {"boxed": 2, "hard": 2}
    others = ProblemTable(write(tmp_path, rows), filters={"unboxed": ColumnMatches("solution", "boxed", keep=False)})
    assert [problem.text for problem in others.train()] == ["q", "r"]
    with pytest.raises(UserError, match=r"none came \(6 left out by filter hard\); change data\.problem_set\.filters"):
        ProblemTable(write(tmp_path, rows), filters={"hard": ColumnRange("rate", at_least=2)})


def test_a_range_has_its_bounds_in_it_and_takes_numbers_alone(tmp_path):
    path = write(tmp_path, [{"problem": f"rate {rate}", "answer": 1, "rate": rate} for rate in (0.125, "0.25", 0.5, "high")])

    def taken(**bounds):
        return [problem.text for problem in ProblemTable(path, filters={"rate": ColumnRange("rate", **bounds)}).train()]

    assert taken(at_least=0.25) == ["rate 0.25", "rate 0.5"]
    assert taken(at_least=0.25, at_most=0.25) == ["rate 0.25"]
    with pytest.raises(UserError, match=r"column 'rate' with at_least=0\.5, at_most=0\.25: at_least <= at_most expected"):
        ColumnRange("rate", at_least=0.5, at_most=0.25)


def test_where_the_filters_leave_nothing_it_is_the_filters_that_are_named(tmp_path):
    path = write(tmp_path, [{"problem": "p", "answer": 1, "rate": 1}, 17])
    with pytest.raises(UserError, match=r"none came \(1 left out by filter hard\); change data\.problem_set\.filters"):
        ProblemTable(path, filters={"hard": ColumnRange("rate", at_most=0)})


def test_a_sample_is_drawn_by_seed_in_the_order_of_the_table_and_grows(tmp_path):
    path = write(tmp_path, [{"problem": f"p{number}", "answer": 1} for number in range(200)])
    small, large, other = (
        [problem.id for problem in ProblemTable(path, sample=size, sample_seed=seed).train()]
        for size, seed in ((50, 0), (100, 0), (50, 1))
    )
    assert small == sorted(small)
    assert set(small) < set(large)
    assert len(set(small) & set(other)) < 30  # 12.5 expected, standard deviation 2.7
    assert [problem.id for problem in ProblemTable(path, sample=50).train()] == small
    assert len(ProblemTable(path, sample=200).train()) == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"filters": {"x": 3}}, r"data\.problem_set\.filters\.x=3: a node with the _target_ of a filter expected"),
        ({"answer_replace": {"a": 3}}, r"data\.problem_set\.answer_replace: text expected in place of 'a', 3 came"),
        ({"answer_pattern": "a{99999999999}"}, r"data\.problem_set\.answer_pattern=.*: a regular expression expected"),
    ],
)
def test_rules_of_the_wrong_kind_are_refused_by_their_key(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        ProblemTable(write(tmp_path, [{"problem": "p", "answer": 1}]), **arguments)

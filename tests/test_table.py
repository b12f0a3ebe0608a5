"""Problems from a table: what is read, and what is said about a table that can't be."""

import json
from pathlib import Path

import datasets
import pytest

from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError


def write(folder: Path, rows, name: str = "set.json") -> Path:
    path = folder / name
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return path


def test_an_array_is_read_in_order(tmp_path):
    rows = [{"problem": "1+1?", "answer": "2", "solution": "It is 2."}, {"problem": "é\u2028?", "answer": " 3\n"}]
    first, second = ProblemTable(write(tmp_path, rows)).train()
    assert (first.id, first.text, first.answers, first.solution) == ("set-000001", "1+1?", ("2",), "It is 2.")
    assert (second.id, second.text, second.answers, second.solution) == ("set-000002", "é\u2028?", ("3",), None)


@pytest.mark.parametrize("name", ["set.jsonl", "set.json"])
def test_lines_are_read_by_suffix_or_content_and_named_by_line(tmp_path, name):
    path = write(tmp_path, '\ufeff{"problem": "a\u2028", "answer": 1}\n\n{"problem": "b", "answer": 2}\n', name)
    assert [(problem.id, problem.text) for problem in ProblemTable(path).train()] == [
        ("set-000001", "a\u2028"),
        ("set-000003", "b"),
    ]


@pytest.mark.parametrize(
    ("answer", "answers"),
    [
        (142.0, ("142",)),
        (7, ("7",)),
        (-0.5, ("-0.5",)),
        (1.5e-7, ("0.00000015",)),
        (1e22, ("10000000000000000000000",)),
        (["9.6\n", 3, 2.0], ("9.6", "3", "2")),
        (0, ("0",)),
        (10**400, ("1" + "0" * 400,)),
    ],
)
def test_numbers_become_plain_digits(tmp_path, answer, answers):
    assert ProblemTable(write(tmp_path, [{"problem": "p", "answer": answer}])).train()[0].answers == answers


def test_a_column_may_lead_into_a_nested_value(tmp_path):
    row = {"prompt": [{"content": "p"}, {"content": "q"}], "gold": {"value": 3}, "a.b": "id", "a": {"b": "not this"}}
    columns = {"problem_column": "prompt.1.content", "answer_column": "gold.value", "id_column": "a.b"}
    [problem] = ProblemTable(write(tmp_path, [row]), **columns).train()
    assert (problem.id, problem.text, problem.answers) == ("id", "q", ("3",))
    for wrong in ("prompt.2.content", "prompt.x.content", "gold.value.more", "gold."):
        with pytest.raises(UserError, match=f"row 1: no column '{wrong}'; set data.problem_set.problem_column to one of"):
            ProblemTable(write(tmp_path, [row]), **columns | {"problem_column": wrong})


def test_columns_are_named_by_the_configuration(tmp_path):
    path = write(tmp_path, [{"q": "p", "a": "1", "s": "w", "key": 17, "solution": "no"}])
    columns = {"problem_column": "q", "answer_column": "a", "solution_column": "s", "id_column": "key"}
    [problem] = ProblemTable(path, **columns).train()
    assert (problem.id, problem.text, problem.solution) == ("17", "p", "w")
    assert ProblemTable(path, **{**columns, "solution_column": None}).train()[0].solution is None


def test_a_solution_stays_as_it_was_written(tmp_path):
    path = write(tmp_path, [{"problem": "p", "answer": 1, "solution": "\n It is 1.\n"}])
    assert ProblemTable(path).train()[0].solution == "\n It is 1.\n"


@pytest.mark.parametrize("solution", [None, " \n"])
def test_no_solution_is_none(tmp_path, solution):
    assert ProblemTable(write(tmp_path, [{"problem": "p", "answer": 1, "solution": solution}])).train()[0].solution is None


def test_a_share_is_held_out_and_equal_texts_stay_together(tmp_path):
    rows = [{"problem": f"p{number % 500}", "answer": 1} for number in range(1000)]
    problems = ProblemTable(write(tmp_path, rows), held_out_share=0.2)
    train, held_out = problems.train(), problems.held_out()
    assert len(train) + len(held_out) == 1000
    assert not {problem.text for problem in train} & {problem.text for problem in held_out}
    assert 146 <= len(held_out) <= 254  # 2 * 100 expected, standard deviation 2 * 8.9


def test_nothing_is_held_out_by_default(tmp_path):
    problems = ProblemTable(write(tmp_path, [{"problem": "p", "answer": 1}]))
    assert (len(problems.train()), problems.held_out()) == (1, [])


def test_a_second_file_is_held_out(tmp_path):
    path = write(tmp_path, [{"problem": "p", "answer": 1}])
    other = write(tmp_path, [{"problem": "q", "answer": 1}], "test.json")
    problems = ProblemTable(path, held_out_path=other)
    assert [problem.text for problem in problems.train()] == ["p"]
    assert [(problem.id, problem.text) for problem in problems.held_out()] == [("test-held_out-000001", "q")]


def test_rows_of_both_files_are_in_one_report(tmp_path):
    path = write(tmp_path, [{"problem": "p", "answer": 1}, {"problem": "q", "answer": None}])
    other = write(tmp_path, [17, {"problem": "r", "answer": 1}], "test.json")
    report = ProblemTable(path, held_out_path=other).report
    assert report.rows == 4
    assert [(row.file, row.place) for row in report.bad] == [(str(path), "row 2"), (str(other), "row 1")]


def test_the_split_is_that_of_the_training_problems_alone(tmp_path):
    parts = {name: datasets.Dataset.from_dict({"problem": [f"{name}?"], "answer": ["1"]}) for name in "ab"}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "set")
    other = write(tmp_path, [{"problem": "p", "answer": 1}], "test.json")
    problems = ProblemTable(tmp_path / "set", split="b", held_out_path=other)
    assert [problem.text for problem in (*problems.train(), *problems.held_out())] == ["b?", "p"]


def test_a_text_in_both_files_is_refused(tmp_path):
    path = write(tmp_path, [{"problem": "p", "answer": 1}])
    with pytest.raises(UserError, match=r"the text of problem 'set-held_out-000001' stands in .*set\.json too"):
        ProblemTable(path, held_out_path=path)


def test_the_limit_takes_the_first_training_problems_and_leaves_what_is_held_out(tmp_path):
    path = write(tmp_path, [{"problem": f"p{number}", "answer": 1} for number in range(50)])
    assert [problem.text for problem in ProblemTable(path, limit=2).train()] == ["p0", "p1"]
    whole, limited = ProblemTable(path, held_out_share=0.3), ProblemTable(path, held_out_share=0.3, limit=2)
    assert limited.train() == whole.train()[:2]
    assert limited.held_out() == whole.held_out()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('[{"problem": "p", "answer": 1},\n {"problem" "p"}]', r"set\.json, line 2, column 13: a JSON array"),
        ('{"problem": }', r"set\.json, line 1: a JSON object expected; Expecting value at column 13"),
        ("", "at least one problem expected, none came"),
        ("[]", "at least one problem expected, none came"),
        ([17], r"set\.json, row 1: an object with named columns expected, 17 came"),
        ('"p"', "line 1: an object with named columns"),
        (
            [{"question": "p", "answer": 1}],
            "row 1: no column 'problem'; set data.problem_set.problem_column to one of question, answer",
        ),
        (
            [{"problem": "p", "final": 1}],
            "row 1: no column 'answer'; set data.problem_set.answer_column to one of problem, final",
        ),
        (
            [{"problem": " ", "answer": 1}, {"problem": None, "answer": 1}],
            r"row 1: text expected in column 'problem', \" \" came; .* \(none of the 2 rows can be used\)",
        ),
        ([{"problem": 3, "answer": 1}], "text expected in column 'problem', 3 came"),
        ([{"problem": "p", "answer": None}], "row 1: text, a number or a list of those expected .* null came"),
        ([{"problem": "p", "answer": " "}], '" " came'),
        ([{"problem": "p", "answer": True}], "true came"),
        ([{"problem": "p", "answer": []}], r"\[\] came"),
        ([{"problem": "p", "answer": ["1", None]}], r"\[\"1\", null\] came"),
        ([{"problem": "p", "answer": [["1"]]}], "came; mend it or change data.problem_set.answer_column"),
        ([{"problem": "p", "answer": 1, "solution": 3}], "text or null expected in column 'solution', 3 came"),
        ('[{"problem": "p", "answer": NaN}]', r"row 1: NaN, an infinite number or half a surrogate pair came"),
        ('[{"problem": "p", "answer": 1, "note": [1e999]}]', "row 1: NaN, an infinite number"),
        ('{"problem": "\\ud800", "answer": 1}', "line 1: NaN, an infinite number or half a surrogate pair"),
        ('[{"problem": "p", "answer": ' + "1" * 5000 + "}]", "JSON that Python can read expected"),
        ("[" * 200_000, "JSON that Python can read expected"),
    ],
)
def test_a_faulty_file_is_named_with_its_row_and_the_cure(tmp_path, rows, message):
    with pytest.raises(UserError, match=message) as caught:
        ProblemTable(write(tmp_path, rows))
    assert "set.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.json: a readable file expected, No such file"):
        ProblemTable(tmp_path / "none.json")


def test_another_encoding_is_named(tmp_path):
    (tmp_path / "set.json").write_bytes(b'[{"problem": "\xe9", "answer": 1}]')
    with pytest.raises(UserError, match="UTF-8 expected, byte 14 is not"):
        ProblemTable(tmp_path / "set.json")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"problem": " ", "answer": 1}, "text expected in column 'problem', \" \" came"),
        ({"problem": "p"}, "no column 'answer'; set data.problem_set.answer_column to one of problem"),
        ({"problem": "p", "answer": None}, "text, a number or a list of those expected in column 'answer', null came"),
        ({"problem": "p", "answer": ""}, '"" came'),
        ({"problem": "p", "answer": 1, "solution": ["s"]}, "text or null expected in column 'solution', [\"s\"] came"),
        (17, "an object with named columns expected, 17 came"),
    ],
)
def test_rows_that_cannot_be_used_are_listed_and_the_others_keep_their_names(tmp_path, bad, reason):
    rows = [{"problem": "a", "answer": 1}, bad, {"problem": "b", "answer": 2}]
    table = ProblemTable(write(tmp_path, rows))
    assert [problem.id for problem in table.train()] == ["set-000001", "set-000003"]
    [found] = table.report.bad
    assert (found.file, found.place) == (str(tmp_path / "set.json"), "row 2")
    assert reason in found.reason
    assert table.report.rows == 3


def test_a_line_that_is_no_json_is_a_bad_row(tmp_path):
    path = write(tmp_path, '{"problem": "p", "answer": 1}\n\n{"problem": }\n' + '{"problem": "q", "answer": 1}', "set.jsonl")
    table = ProblemTable(path)
    assert [problem.text for problem in table.train()] == ["p", "q"]
    assert str(table.report.bad[0]) == f"{path}, line 3: a JSON object expected; Expecting value at column 13"


@pytest.mark.parametrize("ids", [["a", "a"], [1, "1"]])
def test_an_id_that_comes_twice_is_a_bad_row(tmp_path, ids):
    path = write(tmp_path, [{"problem": "p", "answer": 1, "id": each} for each in ids])
    table = ProblemTable(path, id_column="id")
    assert len(table.train()) == 1
    assert (table.report.bad[0].place, table.report.bad[0].reason) == (
        "row 2",
        f"id '{ids[0]}' stands in row 1 too; set data.problem_set.id_column=null",
    )


@pytest.mark.parametrize("identity", [None, "", " ", True, 1.0, ["a"]])
def test_an_id_is_text_or_an_integer(tmp_path, identity):
    with pytest.raises(UserError, match="text or an integer expected in column 'id'"):
        ProblemTable(write(tmp_path, [{"problem": "p", "answer": 1, "id": identity}]), id_column="id")


@pytest.mark.parametrize(
    "arguments",
    [
        {"held_out_share": 1.5},
        {"limit": 0},
        {"sample": 0},
        {"sample": 2},
        {"held_out_share": 0.1, "held_out_path": "other.json"},
        {"answer_pattern": "("},
        {"split": "train"},
        {"subset": "main"},
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path, arguments):
    with pytest.raises(UserError, match=r"data\.problem_set\.|held_out"):
        ProblemTable(write(tmp_path, [{"problem": "p", "answer": 1}]), **arguments)


def test_deepscaler_hard_1k_is_read(edge_data):
    problems = ProblemTable(edge_data("train_data/deepscaler_hard-1k.json"), held_out_share=0.1)
    assert len(problems.train()) + len(problems.held_out()) == 1000
    assert all(problem.solution for problem in problems.train())
    assert len({problem.id for problem in problems.train() + problems.held_out()}) == 1000


@pytest.mark.parametrize(
    ("split", "size", "first"),
    [("aime", 30, "204"), ("amc", 83, "142"), ("math", 500, None), ("minerva", 272, "9.6"), ("olympiad_bench", 675, "2")],
)
def test_the_five_benchmarks_are_read_whole(split, size, first, edge_data):
    table = ProblemTable(edge_data("evaluation_suite"), split=split, held_out_share=1.0)
    assert (len(table.held_out()), table.train(), table.report.bad) == (size, [], [])
    assert table.held_out()[0].answers[0] == (first or r"\left( 3, \frac{\pi}{2} \right)")


@pytest.mark.parametrize(("name", "rows"), [("gsm_8k", 8792), ("asdiv_2k", 1788)])
def test_sets_without_solutions_are_read(name, rows, edge_data):
    table = ProblemTable(edge_data(f"train_extra/{name}"), solution_column=None)
    assert (len(table.train()), table.report.bad) == (rows, [])

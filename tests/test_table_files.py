"""Tables of every kind of file, saved folders and the hub: cells, numbers and rows arrive as they stand there."""

from decimal import Decimal

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from tests.test_table import write


def test_csv_cells_are_text_and_lines_are_named(tmp_path):
    text = '\ufeffproblem,answer,solution\n"2, then\n3?",007,\n\u2028p,1e5,s\nbroken,1,2,3\n'
    table = ProblemTable(write(tmp_path, text, "set.csv"))
    first, second = table.train()
    assert (first.id, first.text, first.answers, first.solution) == ("set-000003", "2, then\n3?", ("007",), None)
    assert (second.text, second.answers, second.solution) == ("\u2028p", ("1e5",), "s")
    assert (table.report.bad[0].place, table.report.bad[0].reason) == (
        "line 5",
        "3 columns expected, 4 came; put quotes around commas",
    )


def test_a_long_cell_is_read_and_an_open_quote_is_not_a_cell(tmp_path):
    [problem] = ProblemTable(write(tmp_path, f"problem,answer\n{'x' * 200_000},1\n", "set.csv")).train()
    assert len(problem.text) == 200_000
    with pytest.raises(UserError, match=r"open\.csv, line 2: a readable CSV row expected; unexpected end of data"):
        ProblemTable(write(tmp_path, 'problem,answer\np,1\n"q,2\nr,3\n', "open.csv"))


def test_tabs_separate_a_tsv(tmp_path):
    [problem] = ProblemTable(write(tmp_path, "problem\tanswer\na, b\t3\n", "set.tsv")).train()
    assert (problem.id, problem.text, problem.answers) == ("set-000002", "a, b", ("3",))


def test_the_suffix_may_be_written_in_capitals_or_be_of_no_kind(tmp_path):
    assert ProblemTable(write(tmp_path, "problem,answer\np,007\n", "SET.CSV")).train()[0].id == "SET-000002"
    assert ProblemTable(write(tmp_path, '{"problem": "p", "answer": 1}\n', "pool.txt")).train()[0].id == "pool.txt-000001"


def test_white_space_around_an_array_and_between_lines_is_passed_over(tmp_path):
    assert len(ProblemTable(write(tmp_path, '\n [{"problem": "p", "answer": 1}]\n')).train()) == 1
    table = ProblemTable(write(tmp_path, '{"problem": "p", "answer": 1}\n \t\n{"problem": "q", "answer": 2}', "set.jsonl"))
    assert (len(table.train()), table.report.bad) == (2, [])


def test_an_array_on_a_line_of_a_jsonl_is_a_bad_row(tmp_path):
    table = ProblemTable(write(tmp_path, '[17]\n{"problem": "p", "answer": 1}\n', "set.jsonl"))
    assert [problem.id for problem in table.train()] == ["set-000002"]
    assert (table.report.bad[0].place, len(table.report.bad)) == ("line 1", 1)


def test_parquet_is_read_with_its_numbers_lists_and_nulls(tmp_path):
    rows = [
        {"problem": "p", "answer": 142.0, "golds": ["1", "2"], "solution": None},
        {"problem": "q", "answer": float("nan"), "golds": None, "solution": "s"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "set.parquet")
    table = ProblemTable(tmp_path / "set.parquet")
    assert [(problem.id, problem.answers) for problem in table.train()] == [("set-000001", ("142",))]
    assert "NaN came" in table.report.bad[0].reason
    [problem] = ProblemTable(tmp_path / "set.parquet", answer_column="golds").train()
    assert problem.answers == ("1", "2")


def test_decimals_are_read_digit_by_digit(tmp_path):
    column = pa.array([Decimal("3.00"), Decimal("-0.10"), None], pa.decimal128(10, 2))
    pq.write_table(pa.table({"problem": ["p", "q", "r"], "answer": column}), tmp_path / "set.parquet")
    assert [problem.answers for problem in ProblemTable(tmp_path / "set.parquet").train()] == [("3",), ("-0.10",)]


def test_a_parquet_that_is_none_is_named(tmp_path):
    with pytest.raises(UserError, match=r"set\.parquet: a readable parquet file expected"):
        ProblemTable(write(tmp_path, "no parquet", "set.parquet"))


def test_a_saved_folder_is_read_by_its_split(tmp_path):
    parts = {name: datasets.Dataset.from_dict({"problem": [f"{name}?"], "answer": [["1\n", "2"]]}) for name in "ab"}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "suite")
    [problem] = ProblemTable(tmp_path / "suite", split="b").train()
    assert (problem.id, problem.text, problem.answers) == ("b-000001", "b?", ("1", "2"))
    [problem] = ProblemTable(tmp_path / "suite/a").train()
    assert (problem.id, problem.text) == ("a-000001", "a?")
    with pytest.raises(UserError, match=r"no split None; set data\.problem_set\.split to one of a, b"):
        ProblemTable(tmp_path / "suite")
    with pytest.raises(UserError, match="the folder has no splits, split='a' came"):
        ProblemTable(tmp_path / "suite/a", split="a")
    with pytest.raises(UserError, match="a folder that datasets saved expected"):
        ProblemTable(tmp_path)


def test_the_only_split_need_not_be_named(tmp_path):
    only = datasets.Dataset.from_dict({"problem": ["p"], "answer": ["1"]})
    datasets.DatasetDict({"train": only}).save_to_disk(tmp_path / "set")
    assert len(ProblemTable(tmp_path / "set").train()) == 1


def test_a_saved_folder_may_be_called_like_a_file(tmp_path):
    datasets.Dataset.from_dict({"problem": ["p"], "answer": ["1"]}).save_to_disk(tmp_path / "set.parquet")
    assert ProblemTable(tmp_path / "set.parquet").train()[0].id == "set-000001"


def test_a_hub_id_is_asked_for_on_the_hub(monkeypatch):
    asked = {}

    def load_dataset(path, subset, *, split, revision):
        asked.update(path=path, subset=subset, split=split, revision=revision)
        return datasets.Dataset.from_dict({"problem": ["p"], "answer": ["1"]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    [problem] = ProblemTable("somebody/set", subset="main", revision="abc").train()
    assert problem.id == "set-000001"
    assert asked == {"path": "somebody/set", "subset": "main", "split": "train", "revision": "abc"}


def test_what_is_nowhere_is_refused_in_one_line(monkeypatch):
    def load_dataset(path, *_, **__):
        raise FileNotFoundError("no such data set\nsecond line")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match=r"nobody/none: a file, .* \(no such data set\); change data") as caught:
        ProblemTable("nobody/none")
    assert "\n" not in str(caught.value)


def test_a_table_as_pandas_writes_it_with_its_index_is_read(tmp_path):
    [problem] = ProblemTable(write(tmp_path, ",problem,answer\n0,p,1\n", "set.csv")).train()
    assert (problem.text, problem.answers) == ("p", ("1",))


@pytest.mark.parametrize("name", ["set.csv", "set.parquet"])
def test_a_column_that_stands_twice_is_refused(tmp_path, name):
    path = tmp_path / name
    if name == "set.csv":
        path.write_text("problem,answer,answer\np,1,2\n")
    else:
        pq.write_table(pa.table([["p"], ["1"], ["2"]], names=["problem", "answer", "answer"]), path)
    with pytest.raises(UserError, match="different columns expected, 'answer' stands there twice; rename one of them"):
        ProblemTable(path)


def test_a_damaged_saved_folder_is_named(tmp_path):
    datasets.Dataset.from_dict({"problem": ["p"], "answer": ["1"]}).save_to_disk(tmp_path / "set")
    next((tmp_path / "set").glob("*.arrow")).unlink()
    with pytest.raises(UserError, match="set: a whole folder that datasets saved expected, FileNotFoundError") as caught:
        ProblemTable(tmp_path / "set")
    assert "\n" not in str(caught.value)


def test_the_second_table_is_called_by_its_own_key(tmp_path):
    path = write(tmp_path, [{"problem": "p", "answer": 1}])
    with pytest.raises(UserError, match=r"change data\.problem_set\.held_out_path"):
        ProblemTable(path, held_out_path=tmp_path / "none.json")

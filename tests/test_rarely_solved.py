"""Which problems a base policy rarely solves, and how different the answers to them are, by hand."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_lightning.cli.table import rarely_solved_table
from edge_lightning.errors import UserError
from edge_lightning.evaluation.metrics import averages, summarize
from edge_lightning.evaluation.rarely_solved import rarely_solved
from edge_lightning.evaluation.record import EVALUATION_SCHEMA
from tests.test_benchmark import BENCHMARK, PROBLEMS, RUNS_PROMPT
from tests.test_evaluation_metrics import rows_of

BASE = [("p0", "1000"), ("p1", "1100"), ("p2", "0000"), ("p3", "1111"), ("p4", "0001")]  # 1/4, 1/2, 0, 1, 1/4


def record(folder, *problems, name="smoke", gold=lambda problem: [problem[1:]]):
    """<name>.parquet as an evaluation writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{**row, "gold": gold(row["problem_id"])} for row in rows_of(*problems)]
    pq.write_table(pa.Table.from_pylist(rows, schema=EVALUATION_SCHEMA), folder / f"{name}.parquet")
    return folder


def rare(folder, at_most=0.25):
    return rarely_solved(folder, "smoke", PROBLEMS, at_most=at_most, key="evaluation.rarely_solved_by")


@pytest.mark.parametrize(
    ("at_most", "expected"),
    [
        (0.25, {"p0", "p2", "p4"}),
        (0.24, {"p2"}),
        (0.0, {"p2"}),
        (0.5, {"p0", "p1", "p2", "p4"}),
        (1.0, {p.id for p in PROBLEMS}),
    ],
)
def test_a_problem_is_rarely_solved_up_to_the_threshold(at_most, expected, tmp_path):
    assert rare(record(tmp_path, *BASE), at_most) == expected


def test_the_record_lies_in_the_folder_or_before_the_first_step_of_a_run(tmp_path):
    record(tmp_path / "evaluation" / "step_000000", *BASE)
    assert rare(tmp_path) == rare(tmp_path / "evaluation" / "step_000000") == {"p0", "p2", "p4"}


def test_figures_over_rarely_solved_problems_by_hand():
    # a: right right x y: entropy (1/2 log 2 + 1/2 log 4) / log 4 = .75, one of 6 pairs. c: none four times: 0 and 1
    rows = rows_of(("a", "1100"), ("b", "1111"), ("c", "----"))
    found = summarize(rows, samples=4, k=(1,), rarely_solved={"a", "c"})
    assert found["problems_rarely_solved"] == 2
    assert found["accuracy_rarely_solved"] == pytest.approx(0.25)  # (1/2 + 0) / 2
    assert found["answer_entropy_rarely_solved"] == pytest.approx(0.375)
    assert found["collision_rate_rarely_solved"] == pytest.approx(7 / 12)
    assert found["answer_entropy"] == pytest.approx(0.25)  # b adds 0 and 1
    assert found["collision_rate"] == pytest.approx((1 / 6 + 1 + 1) / 3)


def test_nobody_asked_and_none_is_rare():
    rows = rows_of(("a", "1100"))
    assert not [name for name in summarize(rows, samples=4, k=(1,)) if "rarely" in name]
    found = summarize(rows, samples=4, k=(1,), rarely_solved=frozenset())
    assert {name: value for name, value in found.items() if "rarely" in name} == {"problems_rarely_solved": 0}


def test_rarely_solved_problems_of_all_benchmarks_are_pooled():
    rows = {
        "one": rows_of(("a", "1100"), ("c", "----"), ("d", "1111")),
        "other": rows_of(("a", "1100"), ("b", "1111"), ("c", "----")),
        "none": rows_of(("a", "1111")),
    }
    asked = {"one": {"a", "c"}, "other": {"a"}, "none": set()}
    metrics = {name: summarize(part, samples=4, k=(1,), rarely_solved=asked[name]) for name, part in rows.items()}
    found = averages(rows, metrics)
    assert found["problems_rarely_solved"] == 3
    assert found["answer_entropy_rarely_solved"] == pytest.approx((2 * 0.375 + 0.75) / 3)
    assert found["collision_rate_rarely_solved"] == pytest.approx((2 * 7 / 12 + 1 / 6) / 3)
    assert found["accuracy_rarely_solved"] == pytest.approx((2 * 0.25 + 0.5) / 3)
    del metrics["none"]["problems_rarely_solved"]
    assert not [name for name in averages(rows, metrics) if "rarely" in name]


def test_a_benchmark_hands_them_on_with_its_problems(tmp_path):
    record(tmp_path, *BASE)
    asked = replace(BENCHMARK, rarely_solved_by=str(tmp_path))
    assert asked.exam(PROBLEMS, RUNS_PROMPT).rarely_solved == {"p0", "p2", "p4"}
    assert replace(asked, problems=2).exam(PROBLEMS, RUNS_PROMPT).rarely_solved == {"p0"}
    assert replace(asked, rarely_solved_at_most=0.0).exam(PROBLEMS, RUNS_PROMPT).rarely_solved == {"p2"}
    assert BENCHMARK.exam(PROBLEMS, RUNS_PROMPT).rarely_solved is None


def broken(folder):
    (folder / "smoke.parquet").write_text("not parquet")


def other_columns(folder):
    pq.write_table(pa.table({"problem_id": ["p0"]}), folder / "smoke.parquet")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, r"smoke.rarely_solved_by=.*: the folder of a validation of the base policy expected"),
        (lambda folder: record(folder, *BASE, name="other"), r"step_000000/smoke.parquet\), none is there; make it by"),
        (broken, r"smoke.parquet: the record of an evaluation expected, it can't be read \(.*\); change evaluation.bench"),
        (other_columns, r"smoke.parquet: the record of an evaluation expected, it can't be read"),
        (lambda folder: record(folder, *BASE[:4]), r"responses to problem 'p4' expected, there are none; evaluate the base"),
        (
            lambda folder: record(folder, *BASE, gold=lambda name: ["7"]),
            r"problem 'p0' with the answers \['0'\] expected, it has \['7'\] there",
        ),
    ],
)
def test_a_folder_that_does_not_fit_is_one_line(make, message, tmp_path):
    make(tmp_path)
    with pytest.raises(UserError, match=message) as told:
        replace(BENCHMARK, rarely_solved_by=str(tmp_path)).exam(PROBLEMS, RUNS_PROMPT)
    assert "\n" not in str(told.value)


def test_what_is_printed_has_a_table_of_its_own_for_them():
    rows = rows_of(("a", "1100"), ("b", "1111"), ("c", "----"))
    metrics = {f"smoke/{k}": v for k, v in summarize(rows, samples=4, k=(1,), rarely_solved={"a", "c"}).items()}
    (table,) = rarely_solved_table(metrics)
    assert [next(iter(column.cells)) for column in table.columns] == ["smoke", "2", "0.250", "0.375", "0.583"]
    assert rarely_solved_table({"smoke/accuracy": 0.5}) == []

"""Figures of benchmarks and over them, by hand."""

import pytest

from edge_lightning.evaluation.metrics import averages, named, summarize


def rows_of(*problems, tokens=3):
    """Rows from (problem, "1" right, "0" wrong with an answer of its own, "-" without a box and cut off)."""
    return [
        {
            "problem_id": name,
            "response_index": index,
            "correct": mark == "1",
            "answer": None if mark == "-" else "7" if mark == "1" else f"{index}.5",
            "formatted": mark != "-",
            "finish_reason": "length" if mark == "-" else "stop",
            "tokens": tokens + index,
        }
        for name, marks in problems
        for index, mark in enumerate(marks)
    ]


def test_figures_of_a_benchmark_by_hand():
    found = summarize(rows_of(("a", "1100"), ("b", "00--")), samples=4, k=(1, 2, 4))
    assert found == pytest.approx(
        {
            "accuracy": 0.25,  # (2/4 + 0) / 2
            "accuracy_low": 0.0,
            "accuracy_high": 0.5,
            "avg@4": 0.25,
            "pass@1": 0.25,
            "pass@2": 5 / 12,  # (1 - C(2,2)/C(4,2) + 0) / 2
            "pass@4": 0.5,
            "formatted": 6 / 8,
            "truncated": 2 / 8,
            "tokens": 4.5,  # 3, 4, 5, 6
            "answer_entropy": 0.75,  # both aabc: (1/2 + 1) / 2
            "collision_rate": 1 / 6,  # a pair of right ones, a pair without a box
            "problems": 2,
            "samples": 4,
        }
    )


def test_a_single_sample_has_no_diversity_and_no_avg_at_k():
    found = summarize(rows_of(("a", "1"), ("b", "0")), samples=1, k=(1,))
    assert set(found) == {
        *("accuracy", "accuracy_low", "accuracy_high", "pass@1", "formatted", "truncated", "tokens", "problems", "samples")
    }
    assert (found["accuracy"], found["pass@1"]) == (0.5, 0.5)


def test_accuracy_weighs_problems_and_its_interval_is_over_them():
    found = summarize(rows_of(("a", "11"), ("b", "00")), samples=2, k=(2,))
    assert found["accuracy"] == found["pass@2"] == 0.5
    assert (found["accuracy_low"], found["accuracy_high"]) == (0.0, 1.0)


SUITE = {
    "small": rows_of(("a", "1"), ("b", "1")),
    "large": rows_of(("a", "1"), ("b", "0"), ("c", "0"), ("d", "0"), ("e", "-"), ("f", "-"), tokens=7),
}


def suite(rows, k=(1,)):
    return {name: summarize(part, samples=1, k=k) for name, part in rows.items()}


def test_the_average_pools_problems_and_the_mean_of_benchmarks_stands_beside_it():
    found = averages(SUITE, suite(SUITE))
    assert found["accuracy"] == pytest.approx(3 / 8)  # 2 of 2 and 1 of 6
    assert found["accuracy_of_benchmarks"] == pytest.approx((1 + 1 / 6) / 2)
    assert found["formatted"] == pytest.approx(6 / 8)
    assert found["truncated"] == pytest.approx(2 / 8)
    assert found["tokens"] == pytest.approx((2 * 3 + 6 * 7) / 8)
    assert found["pass@1"] == pytest.approx(3 / 8)
    assert (found["problems"], found["samples"]) == (8, 1)


def test_a_problem_that_two_benchmarks_name_alike_counts_in_both():
    assert averages(SUITE, suite(SUITE))["problems"] == 8  # "a" and "b" are in both


def test_the_interval_of_the_average_is_that_of_the_pooled_problems():
    pooled = [{**row, "problem_id": f"{name} {row['problem_id']}"} for name, part in SUITE.items() for row in part]
    whole = summarize(pooled, samples=1, k=(1,))
    found = averages(SUITE, suite(SUITE))
    for end in ("_low", "_high"):
        assert found[f"accuracy{end}"] == whole[f"accuracy{end}"]
    assert found["accuracy_low"] < found["accuracy"] < found["accuracy_high"]


def test_figures_that_not_all_benchmarks_have_are_not_averaged():
    metrics = {
        "one": summarize(rows_of(("a", "10")), samples=2, k=(1, 2)),
        "other": summarize(rows_of(("a", "1")), samples=1, k=(1,)),
    }
    found = averages({"one": rows_of(("a", "10")), "other": rows_of(("a", "1"))}, metrics)
    assert found["accuracy"] == pytest.approx(0.75)
    assert not {"pass@2", "avg@2", "collision_rate", "samples"} & found.keys()


def test_a_figure_that_one_of_three_benchmarks_lacks_is_not_averaged():
    rows = {name: rows_of(("a", "10")) for name in ("one", "two", "three")}
    ks = {"one": (1, 2), "two": (1, 2), "three": (1,)}
    found = averages(rows, {name: summarize(part, samples=2, k=ks[name]) for name, part in rows.items()})
    assert found["pass@1"] == pytest.approx(0.5)
    assert "pass@2" not in found


def test_one_benchmark_has_no_average():
    one = {"small": SUITE["small"]}
    assert set(named(one, suite(one))) == {f"small/{key}" for key in suite(one)["small"]}


def test_names_are_those_of_the_benchmarks_then_the_average():
    found = named(SUITE, suite(SUITE))
    assert list(dict.fromkeys(key.split("/")[0] for key in found)) == ["small", "large", "average"]
    assert found["average/accuracy"] == pytest.approx(3 / 8)
    assert found["large/accuracy"] == pytest.approx(1 / 6)

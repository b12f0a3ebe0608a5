"""What is checked about problems before a run uses them. A word is a token here."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from edge_lightning.curation import Limits, curate, data_metrics, describe, usable_held_out
from edge_lightning.data.report import BadRow, SetReport
from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Problem, Verdict

LIMITS = Limits(prompt=3, model=10)
POLICY = SimpleNamespace(tokenizer=None, encode=str.split)
RIGHT = Problem("right", "one two three", ("7",), r"so \boxed{7}")
WRONG = Problem("wrong", "one two", ("7",), r"so \boxed{8}")
UNBOXED = Problem("unboxed", "one", ("7",), "so it is 7")
BARE = Problem("bare", "one", ("7",))


class Problems:
    def __init__(self, train, held_out=(), bad=(), filtered=None):
        self.lists = list(train), list(held_out)
        self.report = SetReport("set", rows=len(train) + len(held_out) + len(bad), bad=list(bad), filtered=filtered or {})

    def train(self):
        return list(self.lists[0])

    def held_out(self):
        return list(self.lists[1])


@pytest.fixture(scope="module")
def reward():
    reward = WeightedSum({"accuracy": BoxedAccuracy()})
    yield reward
    reward.close()


@pytest.fixture
def curated(reward):
    def run(problems, *, limits=LIMITS, **more):
        usual = {"on_bad_row": "drop", "drop_contaminated": False, "benchmarks": {}}
        return curate(
            problems,
            prompt=lambda problem, tokenizer: problem.text.split(),
            policy=POLICY,
            reward=reward,
            limits=limits,
            **(usual | more),
        )

    return run


def ids(problems):
    return [problem.id for problem in problems]


def test_reference_solutions_are_graded_once_and_the_verdict_stays_with_the_problem(curated):
    found = curated(Problems([RIGHT, WRONG, UNBOXED, BARE]))
    assert [problem.solution_right for problem in found.train] == [True, False, False, None]
    assert found.record["references"] == {
        "solutions": 3,
        "right": 1,
        "usable": 1,
        "rejected": [{"problem": "wrong", "verdict": "differs"}, {"problem": "unboxed", "verdict": "no box"}],
        "too_long": [],
    }


@pytest.mark.parametrize(("model", "usable"), [(6, 1), (5, 0)])
def test_a_reference_fits_with_its_prompt_and_its_end(curated, model, usable):
    found = curated(Problems([RIGHT]), limits=Limits(prompt=3, model=model))  # 3 + 2 + 1 tokens
    assert found.record["counts"]["references"] == {"solutions": 1, "right": 1, "usable": usable}
    assert found.record["references"]["too_long"] == ([] if usable else ["right"])
    assert found.train[0].solution_right is True


def test_only_references_that_grade_right_and_fit_are_usable(curated):
    long = [replace(WRONG, id=f"long {i}", solution=r"so so so so so so so so so \boxed{8}") for i in range(6)]
    found = curated(Problems([RIGHT, *long[::-1]]))
    assert found.record["counts"]["references"] == {"solutions": 7, "right": 1, "usable": 1}  # the long ones are not right
    assert found.record["references"]["too_long"] == [f"long {i}" for i in range(6)]
    row = BadRow("set", "row 2", "null came")
    tight = curated(Problems([RIGHT], bad=[row]), limits=Limits(prompt=3, model=5))
    assert data_metrics(tight.record["counts"]) == {"data/problems": 1.0, "data/references_usable": 0.0}


def test_the_fingerprint_is_of_all_that_is_seen_of_both_sides(curated):
    def mark(train, held_out):
        return curated(Problems(train, held_out)).record["fingerprint"]

    assert mark([RIGHT], [BARE]) == mark([RIGHT], [BARE])
    others = [
        ([BARE], [RIGHT]),
        ([RIGHT], []),
        ([RIGHT], [replace(BARE, text="two")]),
        ([replace(RIGHT, answers=("7", "8"))], [BARE]),
        ([replace(RIGHT, id="other")], [BARE]),
        ([replace(RIGHT, solution=None)], [BARE]),
    ]
    assert len({mark([RIGHT], [BARE]), *(mark(*sides) for sides in others)}) == 7


def test_a_verdict_that_the_grader_had_no_time_for_leaves_the_fingerprint_as_it_is(curated, reward, monkeypatch):
    other = replace(RIGHT, solution=r"or \boxed{7}")
    before, changed = curated(Problems([RIGHT])), curated(Problems([other]))
    assert [found.train[0].solution_right for found in (before, changed)] == [True, True]
    monkeypatch.setattr(reward, "judge", lambda pairs: [Verdict.TIMED_OUT for _ in pairs])
    late = curated(Problems([RIGHT]))
    assert late.train[0].solution_right is False
    assert late.record["references"]["rejected"] == [{"problem": "right", "verdict": "timed out"}]
    assert late.record["fingerprint"] == before.record["fingerprint"] != changed.record["fingerprint"]


def test_held_out_problems_are_left_out_or_refused_as_in_a_training(reward):
    long = replace(BARE, id="long", text="one two three four")
    arguments = {
        "prompt": lambda problem, tokenizer: problem.text.split(),
        "policy": POLICY,
        "reward": reward,
        "prompt_limit": 3,
    }
    problems = Problems([long], [BARE, long, replace(BARE, id="void", answers=("$$",))])
    kept, left_out = usable_held_out(problems, on_bad_row="drop", **arguments)
    assert (ids(kept), left_out) == (["bare"], "1 long prompt, 1 unparsable gold")
    with pytest.raises(UserError, match=r"set, problem 'long': prompt of 4 tokens.*1 unparsable gold; 4 rows in all"):
        usable_held_out(problems, on_bad_row="refuse", **arguments)
    assert usable_held_out(Problems([long], [BARE]), on_bad_row="refuse", **arguments) == ([BARE], "")


def test_long_prompts_and_unreadable_golds_are_left_out_on_both_sides_with_the_reason(curated):
    long = replace(RIGHT, id="long", text="one two three four")
    void = replace(RIGHT, id="void", answers=("$$", " "))
    row = BadRow("set", "row 3", "null came")
    found = curated(Problems([RIGHT, long, void], [replace(long, id="held")], [row]))
    assert (ids(found.train), ids(found.held_out)) == (["right"], [])
    assert [(row["place"], row["kind"]) for row in found.record["bad_rows"]] == [
        ("row 3", "unusable row"),
        ("problem 'long'", "long prompt"),
        ("problem 'void'", "unparsable gold"),
        ("problem 'held'", "long prompt"),
    ]
    assert found.record["bad_rows"][1]["reason"] == "prompt of 4 tokens, at most rollout.prompt_limit=3 expected"
    assert found.record["counts"]["bad_rows"] == {"unusable row": 1, "long prompt": 2, "unparsable gold": 1}


def test_one_gold_that_can_be_read_is_enough(curated):
    assert ids(curated(Problems([replace(RIGHT, answers=("$$", "7"))])).train) == ["right"]


def test_bad_rows_are_refused_where_that_is_asked_for(curated):
    long = replace(RIGHT, id="long", text="one two three four")
    with pytest.raises(UserError) as caught:
        curated(Problems([RIGHT, long, replace(long, id="longer")]), on_bad_row="refuse")
    assert str(caught.value) == (
        "set, problem 'long': prompt of 4 tokens, at most rollout.prompt_limit=3 expected (2 long prompt; 3 rows in all); "
        "mend it, or leave such rows out with data.on_bad_row=drop"
    )
    assert ids(curated(Problems([RIGHT]), on_bad_row="refuse").train) == ["right"]


def test_a_set_without_a_training_problem_left_is_refused(curated):
    with pytest.raises(UserError, match=r"set: no training problem is left of 1 rows \(1 long prompt, 0 contaminated\)"):
        curated(Problems([RIGHT]), limits=Limits(prompt=2, model=10))


def test_a_set_without_a_bad_row_may_be_left_without_a_training_problem_too(curated):
    exam = Problem("exam", RIGHT.text, ("1",))
    with pytest.raises(UserError, match=r"is left of 1 rows \(no bad row, 1 contaminated\)"):
        curated(Problems([RIGHT]), benchmarks={"aime": [exam]}, drop_contaminated=True)


def test_an_engine_that_copies_solutions_needs_each_of_them_within_the_limit(curated):
    limits = Limits(prompt=3, model=10, required_solution=3)
    long = replace(RIGHT, id="long", solution=r"so so \boxed{7}")
    found = curated(Problems([RIGHT, BARE, long]), limits=limits)
    assert ids(found.train) == ["right"]
    assert [row["reason"].split(";")[0] for row in found.record["bad_rows"]] == [
        "a reference solution expected, since the engine copies it",
        "reference solution of 4 tokens with its end, rollout.response_limit is 3",
    ]


def test_contaminated_problems_are_listed_and_dropped_only_on_demand(curated):
    exam = Problem("exam", "One, two, three!", ("1",))
    other = Problem("other", "five", ("1",))
    kept = curated(Problems([RIGHT, WRONG]), benchmarks={"aime": [exam, other]})
    assert ids(kept.train) == ["right", "wrong"]
    assert kept.record["contamination"] == [
        {"benchmark": "aime", "problem": "right", "other": "exam", "similarity": 1.0, "exact": True}
    ]
    assert kept.record["counts"]["contamination"] == {"aime": {"problems": 2, "exact": 1, "near": 0}}
    dropped = curated(Problems([RIGHT, WRONG]), benchmarks={"aime": [exam, other]}, drop_contaminated=True)
    assert ids(dropped.train) == ["wrong"]
    assert "1 exact and 0 near of 2 benchmark problems, left out of training" in describe(dropped.record["counts"])


def test_contamination_counts_benchmark_problems_and_what_is_held_out_is_no_training(curated):
    exam = Problem("exam", "One, two, three!", ("1",))
    found = curated(
        Problems([RIGHT, replace(RIGHT, id="again")], [replace(BARE, text=exam.text)]), benchmarks={"aime": [exam]}
    )
    assert found.record["counts"]["contamination"] == {"aime": {"problems": 1, "exact": 1, "near": 0}}
    assert [(row["problem"], row["other"]) for row in found.record["contamination"]] == [
        ("right", "exam"),
        ("again", "exam"),
    ]
    # a b c d e f and a b c d e x are 3 4-grams each, 2 of them the same: 2 / (3 + 3 - 2) = .5
    near = replace(RIGHT, text="a b c d e f")
    exams = {"near": [Problem("near", "a b c d e x", ("1",))]}
    counts = curated(Problems([near]), limits=Limits(prompt=6, model=20), benchmarks=exams).record["counts"]
    assert counts["contamination"] == {"near": {"problems": 1, "exact": 0, "near": 1}}
    assert "0 exact and 1 near of 1 benchmark problems, trained on all the same" in describe(counts)
    assert curated(Problems([RIGHT], [BARE]), benchmarks={"other": [BARE]}).record["contamination"] == []


def test_a_problem_that_stands_three_times_is_two_duplicates_on_whichever_side(curated):
    held_out = [replace(BARE, id=f"held {i}", text="held  out" if i else "held out") for i in range(3)]
    record = curated(Problems([RIGHT], held_out)).record
    assert record["duplicates"] == [["held 0", "held 1", "held 2"]]
    assert record["counts"]["duplicates"] == 2


def test_the_record_is_json_and_its_counts_are_one_line(curated):
    row = BadRow("set", "row 3", "null came")
    exam = Problem("exam", "one two three", ("1",))
    found = curated(
        Problems([RIGHT, replace(RIGHT, id="again"), WRONG], [BARE], [row], {"hard": 2}), benchmarks={"aime": [exam]}
    )
    json.dumps(found.record, allow_nan=False)
    assert describe(found.record["counts"]) == (
        "3 training and 1 held-out problems of 5 rows; left out: 1 unusable row; filtered: 2 hard; 1 duplicate; "
        "1 exact and 0 near of 1 benchmark problems, trained on all the same; 2 of 3 reference solutions grade right and fit"
    )


def test_loggers_are_told_the_share_of_usable_references(curated):
    assert data_metrics(curated(Problems([RIGHT, WRONG, UNBOXED, BARE])).record["counts"]) == {
        "data/problems": 4.0,
        "data/references_usable": 1 / 3,
    }
    assert data_metrics(curated(Problems([BARE])).record["counts"]) == {"data/problems": 1.0}


def test_nothing_is_said_of_what_is_not_there(curated):
    assert describe(curated(Problems([BARE])).record["counts"]) == "1 training and 0 held-out problems of 1 rows"


def test_the_references_of_hard_1k(curated, edge_data):
    found = curated(
        ProblemTable(edge_data("train_data/deepscaler_hard-1k.json")), limits=Limits(prompt=10_000, model=100_000)
    )
    assert found.record["counts"]["bad_rows"] == {}
    assert found.record["counts"]["references"]["solutions"] == 1000
    assert found.record["counts"]["references"]["right"] == 985


def test_corrupted_solutions_are_graded_listed_and_part_of_the_fingerprint(curated):
    others = [Problem(f"p{n}", "one", (str(n),), rf"so \boxed{{{n}}}") for n in range(8)]
    held_out = [replace(RIGHT, id="held")]
    plain, half = (curated(Problems(others, held_out), corrupted_solutions=share) for share in (0.0, 0.5))
    corrupted = half.record["corrupted_solutions"]
    assert 0 < len(corrupted) < 8
    assert plain.record["corrupted_solutions"] == []
    assert half.record["counts"]["corrupted_solutions"] == len(corrupted)
    solution_of = {row["problem"]: row["solution_of"] for row in corrupted}
    for before, now in zip(plain.train, half.train, strict=True):
        assert now.solution == rf"so \boxed{{{solution_of.get(now.id, now.id)[1:]}}}"
        assert now.solution_right is (now.id not in solution_of)
        assert (now.id, now.text, now.answers) == (before.id, before.text, before.answers)
    assert half.record["references"]["right"] == 8 - len(corrupted)
    assert {row["problem"] for row in half.record["references"]["rejected"]} == set(solution_of)
    assert half.held_out == plain.held_out
    assert half.record["fingerprint"] != plain.record["fingerprint"]
    assert f"{len(corrupted)} solutions replaced by those of other problems; " in describe(half.record["counts"])
    json.dumps(half.record)

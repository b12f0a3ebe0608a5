"""Reference solutions that are wrong on purpose. A solution says its answer last; the judge compares that with the golds."""

from dataclasses import replace

import pytest

from edge_lightning.data.corruption import corrupt_solutions
from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_uniform
from edge_lightning.types import Problem, Verdict


def problem(number, answer, **more):
    return Problem(f"p{number}", f"text {number}", (answer,), f"so {number} is {answer}", solution_right=True, **more)


def judge(pairs):
    return [Verdict.MATCHED if text.split()[-1] in golds else Verdict.DIFFERS for golds, text in pairs]


MANY = [problem(n, str(n % 10)) for n in range(1000)]


def test_a_share_of_the_problems_has_the_solution_of_one_with_another_answer():
    found, solution_of = corrupt_solutions(MANY, 0.25, judge)
    assert len(solution_of) == pytest.approx(250, abs=42)  # 3 sd of a binomial: 3 * sqrt(1000 * .25 * .75)
    solutions = {p.id: p.solution for p in MANY}
    for before, now in zip(MANY, found, strict=True):
        if now.id in solution_of:
            assert now.solution == solutions[solution_of[now.id]]
            assert judge([(now.answers, now.solution)]) == [Verdict.DIFFERS]
            assert now == replace(before, solution=now.solution, solution_right=None)
        else:
            assert now is before
    assert len(set(solution_of.values())) > 150  # not all from one place


def test_a_hash_of_the_id_chooses_and_a_larger_share_has_those_of_a_smaller_one():
    of = {share: corrupt_solutions(MANY, share, judge)[1] for share in (0.0, 0.25, 0.5, 1.0)}
    assert of[0.0] == {}
    assert of[0.25].items() < of[0.5].items() < of[1.0].items()
    assert len(of[1.0]) == 1000
    assert set(of[0.25]) == {p.id for p in MANY if counter_uniform("corrupted solution", p.id) < 0.25}
    backwards, _ = corrupt_solutions(MANY[::-1], 0.25, judge)
    assert [p.id for p in backwards] == [p.id for p in MANY[::-1]]
    assert {p.id for p, q in zip(backwards, MANY[::-1]) if p is not q} == set(of[0.25])


def test_what_has_no_solution_gets_none_and_what_grades_wrong_is_not_handed_on():
    bare = replace(problem(1, "1"), solution=None, solution_right=None)
    wrong = Problem("wrong", "text", ("7",), "so it is 8", solution_right=False)
    good = problem(2, "2")
    found, solution_of = corrupt_solutions([bare, wrong, good, problem(3, "3")], 1.0, judge)
    assert solution_of == {"wrong": solution_of["wrong"], "p2": "p3", "p3": "p2"}
    assert solution_of["wrong"] in ("p2", "p3")
    assert found[0] is bare


def test_any_accepted_answer_makes_a_solution_right():
    either = replace(problem(1, "1"), answers=("1", "2"))
    _, solution_of = corrupt_solutions([either, problem(2, "2"), problem(3, "3")], 1.0, judge)
    assert solution_of["p1"] == "p3"


def test_a_comparison_that_ran_out_of_time_makes_no_solution_wrong():
    def slow(pairs):
        return [Verdict.TIMED_OUT if "2" in text else v for (_, text), v in zip(pairs, judge(pairs))]

    _, solution_of = corrupt_solutions([problem(1, "1"), problem(2, "2"), problem(3, "3")], 1.0, slow)
    assert (solution_of["p1"], solution_of["p3"]) == ("p3", "p1")


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(UserError, match=r"data.corrupted_solutions=.*: a share from 0 to 1 expected"):
        corrupt_solutions(MANY, share, judge)


def test_problems_that_all_have_the_same_answer_are_refused():
    with pytest.raises(UserError, match="data.corrupted_solutions=1.0: problem 'p0' .* of 3 training problems"):
        corrupt_solutions([problem(n, "7") for n in range(3)], 1.0, judge)

"""The controls of Guided Error Correction put in what is another problem's. A character is a token, an answer a digit."""

from dataclasses import replace

import pytest

from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.correction.injection import DRAWS
from edge_lightning.errors import UserError
from edge_lightning.types import Grade, Problem, Provenance
from tests.by_hand import PROBLEM  # its answer is 5
from tests.test_correction import EOS, Desk, decode, encode, said

TWO = Problem("two", "1 + 1", ("2",), r"1 + 1 = \boxed{2}")
FIVE = Problem("five", "2 + 3", ("5",), r"2 + 3 = \boxed{5}")
SEVEN = Problem("seven", "3 + 4", ("7",), r"3 + 4 = \boxed{7}")
HEAD = "\nWait! Something is wrong here. After verification, the correct answer is "

WRONG_ANSWER = GuidedErrorCorrection(reflect=0.0, answer=1.0, reference=0.0, answer_given="wrong")
WRONG_LABEL = GuidedErrorCorrection(
    reflect=0.0, answer=1.0, reference=0.0, answer_given="wrong", reward_wrong_answer_as_right=True
)
FOREIGN = GuidedErrorCorrection(reflect=0.0, answer=0.0, reference=1.0, reference_given="foreign")


def tools(*problems, places=(), **more):
    """Tools whose draws of a problem are at `places`, one after the other, then at the last of them for ever."""

    def uniform(response, purpose):
        name, _, draw = purpose.rpartition(" ")
        if not name:
            return 0.5
        place = places[min(int(draw), len(places) - 1)]
        return (place + 0.5) / len(problems)

    counted = {} if not places else {"uniform": uniform}
    return replace(Desk().tools, problems=problems, **counted, **more)


def test_a_wrong_answer_is_pasted_where_the_right_one_would_be():
    (changed,) = WRONG_ANSWER([said(r"\boxed{4}")], tools(TWO, places=[0]))
    assert changed.text == r"\boxed{4}" + HEAD + r"\boxed{2}."
    assert changed.completion_ids == (*encode(changed.text), EOS)
    assert changed.sampled_mask == (True,) * 9 + (False,) * (len(HEAD) + len(r"\boxed{2}.") + 1)
    assert changed.engine_logprobs[9:] == (None,) * (len(HEAD) + 11)
    assert (changed.provenance, changed.finish_reason) == (Provenance.ANSWER_INJECTED, "stop")
    assert (changed.problem, changed.sampled_text) == (PROBLEM, r"\boxed{4}")
    assert changed.grade is None  # graded as it is, by the pipeline
    assert not Desk().tools.grade(changed, changed.text).right


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (PROBLEM, "the problem itself"),
        (FIVE, "grades right here"),
        (Problem("four", "2 + 2", ("4",)), "is what the response has said"),
        (Problem("broken", "?", ("8}",)), "breaks its box, so that another answer would be read"),
        (Problem("long", "?", ("2" * 2000,)), "does not fit"),
    ],
)
def test_an_answer_that_does_not_suit_is_drawn_again(refused, why):
    (changed,) = WRONG_ANSWER([said(r"\boxed{4}")], tools(refused, SEVEN, places=[0, 0, 1]))
    assert changed.text.endswith(HEAD + r"\boxed{7}."), why
    (changed,) = WRONG_ANSWER([said(r"\boxed{4}")], tools(refused, places=[0]))
    assert changed.provenance == Provenance.REFLECTED, why


def test_a_response_without_a_box_has_said_nothing_that_could_be_repeated():
    (changed,) = WRONG_ANSWER([said("4")], tools(Problem("four", "2 + 2", ("4",)), places=[0]))
    assert changed.text.endswith(r"\boxed{4}.")


def test_draws_are_bounded():
    asked = []

    def uniform(response, purpose):
        asked.append(purpose)
        return 0.5

    for corrector in (WRONG_ANSWER, FOREIGN):
        asked.clear()
        (changed,) = corrector([said("4")], tools(FIVE, uniform=uniform))
        assert len(asked) == len(set(asked)) == 1 + DRAWS  # the branch, and so many draws, each with counters of its own
        assert changed.provenance == Provenance.REFLECTED


@pytest.mark.parametrize("corrector", [WRONG_ANSWER, WRONG_LABEL, FOREIGN])
def test_without_another_problem_a_response_reflects(corrector):
    for problems in ((), (PROBLEM,), (replace(FIVE, solution=None),)):
        (changed,) = corrector([said("4")], replace(Desk().tools, problems=problems))
        assert changed.provenance == Provenance.REFLECTED


def test_no_truth_is_put_in_over_a_thousand_draws():
    others = [Problem(f"p{n}", "?", (str(n % 10),), rf"so \boxed{{{n % 10}}}") for n in range(100)]
    wrong = [replace(said(r"\boxed{4}"), index=i) for i in range(1000)]
    mix = {"reflect": 0.5, "answer": 0.25, "reference": 0.25, "answer_given": "wrong", "reference_given": "foreign"}
    changed = GuidedErrorCorrection(**mix)(wrong, tools(*others))
    given = [r for r in changed if r.provenance != Provenance.REFLECTED]
    boxes = {provenance: {r.text[-3:] for r in given if r.provenance == provenance} for provenance in Provenance}
    assert boxes[Provenance.ANSWER_INJECTED] == {f"{n}}}." for n in (0, 1, 2, 3, 6, 7, 8, 9)}  # not 5, nor its own 4
    assert boxes[Provenance.REFERENCE] == {f"{{{n}}}" for n in (0, 1, 2, 3, 4, 6, 7, 8, 9)}  # not 5
    assert 420 < len(given) < 580


def test_what_is_drawn_is_a_function_of_counters():
    others = [Problem(f"p{n}", "?", (str(n % 10),), rf"so \boxed{{{n % 10}}}") for n in range(100)]
    wrong = [replace(said("4"), index=i) for i in range(20)]
    for corrector in (WRONG_ANSWER, FOREIGN):
        first = [r.text for r in corrector(wrong, tools(*others))]
        assert [r.text for r in corrector(wrong[::-1], tools(*others))] == first[::-1]
        assert len(set(first)) > 4


def partial_credit(response, text):
    """A reward with a part for length, so that right answers differ in their grade."""
    right = rf"\boxed{{{response.problem.answers[0]}}}" in text
    return Grade(right + len(text) / 1000, right, {"accuracy": float(right), "length": float(len(text))})


def test_a_label_is_the_grade_of_the_right_answer_in_the_same_place():
    problem = replace(PROBLEM, answers=("125",))
    (changed,) = WRONG_LABEL([said("4", problem=problem)], tools(TWO, places=[0], grade=partial_credit))
    right = len("4" + HEAD + r"\boxed{125}.")
    assert changed.text == "4" + HEAD + r"\boxed{2}."
    assert changed.grade == Grade(1 + right / 1000, True, {"accuracy": 1.0, "length": right})
    (plain,) = WRONG_ANSWER([said("4", problem=problem)], tools(TWO, places=[0], grade=partial_credit))
    assert replace(changed, grade=None) == plain  # the same injection
    assert changed.sampled_grade == plain.sampled_grade == said("4").grade


def test_nothing_is_labelled_where_the_right_answer_could_not_be_given():
    broken = replace(PROBLEM, answers=("5}",))
    (changed,) = WRONG_LABEL([said("4", problem=broken)], tools(TWO, places=[0]))
    assert (changed.provenance, changed.grade) == (Provenance.REFLECTED, None)


def test_a_foreign_solution_replaces_the_response_and_the_problem_stays():
    (changed,) = FOREIGN([said("4")], tools(FIVE, SEVEN, places=[0, 1]))
    assert changed.text == SEVEN.solution
    assert changed.completion_ids == (*encode(SEVEN.solution), EOS)
    assert not any(changed.sampled_mask)
    assert (changed.provenance, changed.problem, changed.grade) == (Provenance.REFERENCE, PROBLEM, None)


def test_a_foreign_solution_has_to_grade_right_at_home_unless_any_will_do():
    for unfit in (replace(SEVEN, solution=r"so \boxed{8}"), replace(SEVEN, solution_right=False)):
        (changed,) = FOREIGN([said("4")], tools(unfit, TWO, places=[0, 1]))
        assert changed.text == TWO.solution
        any_will_do = GuidedErrorCorrection(
            reflect=0.0, answer=0.0, reference=1.0, reference_given="foreign", verified_references_only=False
        )
        (changed,) = any_will_do([said("4")], tools(unfit, TWO, places=[0, 1]))
        assert changed.text == unfit.solution


def test_an_own_solution_that_grades_wrong_is_not_a_foreign_one():
    any_will_do = GuidedErrorCorrection(
        reflect=0.0, answer=0.0, reference=1.0, reference_given="foreign", verified_references_only=False
    )
    contradictory = replace(PROBLEM, solution=r"so \boxed{8}")
    (changed,) = any_will_do([said("4", problem=contradictory)], tools(contradictory, places=[0]))
    assert changed.provenance == Provenance.REFLECTED


def test_where_no_foreign_solution_suits_the_right_answer_is_not_given_either():
    either = GuidedErrorCorrection(reflect=0.0, answer=0.5, reference=0.5, reference_given="foreign")

    def uniform(response, purpose):
        return 0.9 if purpose == "correction" else 0.0

    (changed,) = either([said("4")], tools(FIVE, uniform=uniform))
    assert changed.provenance == Provenance.REFLECTED


def test_an_own_solution_that_cannot_be_used_gives_way_to_the_wrong_answer():
    unsolved = replace(PROBLEM, solution=None)
    corrector = GuidedErrorCorrection(reflect=0.0, answer=0.0, reference=1.0, answer_given="wrong")
    (changed,) = corrector([said("4", problem=unsolved)], tools(TWO, places=[0]))
    assert decode(changed.completion_ids).endswith(r"\boxed{2}.")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answer_given": "any"}, "correction.answer_given=any: right or wrong expected"),
        ({"reference_given": "any"}, "correction.reference_given=any: own or foreign expected"),
        ({"reward_wrong_answer_as_right": True}, "correction.answer_given=wrong expected beside it"),
    ],
)
def test_options_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        GuidedErrorCorrection(**settings)

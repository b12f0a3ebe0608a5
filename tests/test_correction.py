"""Guided Error Correction, over responses written by hand and a generator that says what it was asked."""

from dataclasses import replace

import pytest

from edge_lightning.correction.base import CorrectionTools
from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.correction.none import NoCorrection
from edge_lightning.errors import UserError
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.seeds import counter_seed, counter_uniform
from edge_lightning.types import Generation, Grade, Provenance
from tests.by_hand import PROBLEM, response

EOS = 0


def encode(text):
    return tuple(ord(c) + 10 for c in text)


def decode(ids):
    return "".join(chr(i - 10) for i in ids if i != EOS)


def graded(right):
    return Grade(float(right), right)


class Desk:
    """Tools over characters as tokens; remembers the requests."""

    def __init__(self, *, length_limit=1000, draw=None, says="7"):
        self.requests = []
        self.tools = CorrectionTools(
            generate=self.generate,
            encode=encode,
            decode=decode,
            grade=lambda r, text: graded(last_boxed(text) == r.problem.answers[0]),
            uniform=lambda r, purpose: counter_uniform(0, 0, r.problem.id, r.index, purpose) if draw is None else draw,
            seed=lambda r, purpose: counter_seed(0, 0, r.problem.id, r.index, purpose),
            eos_ids=(EOS,),
            length_limit=length_limit,
        )
        self.says = encode(says)

    def generate(self, requests):
        self.requests += requests
        return [Generation((*self.says, EOS), (-0.25,) * (len(self.says) + 1), "stop") for _ in requests]


def said(text, *, ended=True, **more):
    ids = encode(text) + ((EOS,) if ended else ())
    return response(ids, text=text, finish_reason="stop" if ended else "length", prompt_ids=(99,), **more)


def test_branches_come_at_their_shares():
    wrong = [replace(said("4"), index=i) for i in range(10_000)]
    changed = GuidedErrorCorrection()(wrong, Desk().tools)
    for provenance, share in (
        (Provenance.REFLECTED, 0.5),
        (Provenance.ANSWER_INJECTED, 0.25),
        (Provenance.REFERENCE, 0.25),
    ):
        count = sum(r.provenance == provenance for r in changed)
        assert abs(count - 10_000 * share) < 4 * (10_000 * share * (1 - share)) ** 0.5, (provenance, count)


def test_right_responses_are_untouched_and_order_is_kept():
    mixed = [replace(said("4", right=i % 3 == 0), index=i) for i in range(300)]
    changed = GuidedErrorCorrection()(mixed, Desk().tools)
    assert [r.index for r in changed] == list(range(300))
    assert all(changed[i] is mixed[i] for i in range(0, 300, 3))
    assert all(r.provenance != Provenance.SAMPLED and r.grade is None for i, r in enumerate(changed) if i % 3)


def test_reflection_goes_on_from_the_sampled_ids_and_the_cue():
    desk = Desk(draw=0.0)
    (changed,) = GuidedErrorCorrection(cue=" Hm.", reflection_limit=9)([said("4")], desk.tools)
    (request,) = desk.requests
    assert request.prompt_ids == (99, *encode("4 Hm."))  # the closing EOS is gone, the ids are the sampled ones
    assert request.max_tokens == 9
    assert changed.completion_ids == (*encode("4 Hm.7"), EOS)
    assert changed.sampled_mask == (True, False, False, False, False, True, True)
    assert changed.engine_logprobs == (-0.5, None, None, None, None, -0.25, -0.25)
    assert (changed.text, changed.sampled_text, changed.provenance) == ("4 Hm.7", "4", Provenance.REFLECTED)
    assert changed.sampled_grade == said("4").grade


def test_reflections_draw_with_seeds_of_their_own():
    desk = Desk(draw=0.0)
    GuidedErrorCorrection()([replace(said("4"), index=i) for i in range(3)], desk.tools)
    assert len({r.seed for r in desk.requests} | {1}) == 4


def test_answer_branch_appends_the_answer_and_grades_right():
    (changed,) = GuidedErrorCorrection()([said("4")], (desk := Desk(draw=0.6)).tools)
    text = "\nWait! Something is wrong here. After verification, the correct answer is \\boxed{5}."
    assert changed.completion_ids == (*encode("4" + text), EOS)
    assert changed.sampled_mask == (True,) + (False,) * (len(text) + 1)
    assert desk.tools.grade(changed, changed.text).right
    assert (changed.provenance, desk.requests) == (Provenance.ANSWER_INJECTED, [])


def test_reference_branch_replaces_the_whole_response():
    (changed,) = GuidedErrorCorrection()([said("4")], Desk(draw=0.8).tools)
    assert changed.completion_ids == (*encode(PROBLEM.solution), EOS)
    assert not any(changed.sampled_mask)
    assert changed.engine_logprobs == (None,) * len(changed.completion_ids)
    assert (changed.provenance, changed.sampled_text) == (Provenance.REFERENCE, "4")


def test_a_truncated_response_keeps_all_its_ids_and_gets_no_eos():
    (changed,) = GuidedErrorCorrection(cue="?")([said("44", ended=False)], Desk(draw=0.0).tools)
    assert changed.completion_ids == (*encode("44?7"), EOS)
    (changed,) = GuidedErrorCorrection(cue="?")([said("44", ended=False)], (desk := Desk(draw=0.0)).tools)
    assert desk.requests[0].prompt_ids == (99, *encode("44?"))


def test_a_truncated_reflection_has_no_eos():
    desk = Desk(draw=0.0)
    tools = replace(desk.tools, generate=lambda requests: [Generation(encode("7"), (-0.25,), "length") for _ in requests])
    (changed,) = GuidedErrorCorrection(cue="?")([said("4")], tools)
    assert (changed.completion_ids, changed.finish_reason) == (encode("4?7"), "length")


@pytest.mark.parametrize("solution", [None, "", "  \n"])
def test_without_a_solution_the_answer_is_given(solution):
    (changed,) = GuidedErrorCorrection()([said("4", problem=replace(PROBLEM, solution=solution))], Desk(draw=0.8).tools)
    assert changed.provenance == Provenance.ANSWER_INJECTED


@pytest.mark.parametrize("graded", [False, None])
def test_a_solution_that_grades_wrong_gives_way_to_the_answer(graded):
    contradictory = replace(PROBLEM, solution=r"so \boxed{8}", solution_right=graded)  # None: nobody graded it when loading
    (changed,) = GuidedErrorCorrection()([said("4", problem=contradictory)], Desk(draw=0.8).tools)
    assert changed.provenance == Provenance.ANSWER_INJECTED
    (changed,) = GuidedErrorCorrection(verified_references_only=False)(
        [said("4", problem=contradictory)], Desk(draw=0.8).tools
    )
    assert (changed.provenance, changed.text) == (Provenance.REFERENCE, contradictory.solution)


def test_the_verdict_found_when_loading_is_taken_without_grading_again():
    def never(*_):
        raise AssertionError("graded again")

    tools = replace(Desk(draw=0.8).tools, grade=never)
    (changed,) = GuidedErrorCorrection()([said("4", problem=replace(PROBLEM, solution_right=True))], tools)
    assert changed.provenance == Provenance.REFERENCE
    # Graded now, this solution would be right.
    (changed,) = GuidedErrorCorrection()([said("4", problem=replace(PROBLEM, solution_right=False))], Desk(draw=0.8).tools)
    assert changed.provenance == Provenance.ANSWER_INJECTED


def test_a_solution_that_does_not_fit_gives_way_to_the_answer_and_that_to_reflection():
    long = replace(PROBLEM, solution="x" * 200)
    (changed,) = GuidedErrorCorrection()([said("4", problem=long)], Desk(draw=0.8, length_limit=150).tools)
    assert changed.provenance == Provenance.ANSWER_INJECTED
    (changed,) = GuidedErrorCorrection()([said("4", problem=long)], Desk(draw=0.8, length_limit=50).tools)
    assert changed.provenance == Provenance.REFLECTED


@pytest.mark.parametrize("draw", [0.6, 0.8])
def test_an_answer_that_breaks_its_box_is_not_pasted(draw):
    broken = replace(PROBLEM, answers=("5}",), solution=None)
    (changed,) = GuidedErrorCorrection()([said("4", problem=broken)], Desk(draw=draw).tools)
    assert changed.provenance == Provenance.REFLECTED


def test_force_reflection_is_the_same_with_reflection_alone():
    force = GuidedErrorCorrection(reflect=1.0, answer=0.0, reference=0.0)
    changed = force([replace(said("4"), index=i) for i in range(50)], Desk().tools)
    assert {r.provenance for r in changed} == {Provenance.REFLECTED}


def test_nothing_is_asked_of_the_engine_when_all_are_right():
    desk = Desk()
    tools = replace(desk.tools, generate=lambda requests: pytest.fail("an empty request was made"))
    assert GuidedErrorCorrection()([said("5", right=True)], tools)[0].provenance == Provenance.SAMPLED


def test_no_correction_gives_the_responses_back():
    responses = [said("4"), said("5", right=True)]
    assert NoCorrection()(responses, Desk().tools) == responses


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reflect": 0.6}, "their sum is 1.1"),
        ({"reflect": 1.25, "answer": -0.5}, "at least 0"),
        ({"answer_text": "the answer"}, "the word ANSWER expected"),
        ({"reflection_limit": 0}, "at least 1 expected"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        GuidedErrorCorrection(**wrong)


def test_a_wrong_response_with_a_reward_for_its_format_is_corrected():
    formatted = said("4", reward=0.5)
    (changed,) = GuidedErrorCorrection()([formatted], Desk(draw=0.0).tools)
    assert changed.provenance == Provenance.REFLECTED


def test_any_end_of_sequence_is_taken_off_before_a_cue():
    other = 1
    ended = replace(said("4", ended=False), completion_ids=(*encode("4"), other), sampled_mask=(True, True))
    desk = Desk(draw=0.0)
    GuidedErrorCorrection(cue="?")([ended], replace(desk.tools, eos_ids=(EOS, other)))
    assert desk.requests[0].prompt_ids == (99, *encode("4?"))


@pytest.mark.parametrize("draw", [0.6, 0.8])
def test_a_truncated_response_that_is_given_an_end_is_no_longer_cut(draw):
    (changed,) = GuidedErrorCorrection()([said("44", ended=False)], Desk(draw=draw).tools)
    assert (changed.finish_reason, changed.completion_ids[-1]) == ("stop", EOS)


def test_a_solution_may_fill_the_engine_to_its_last_token():
    fits = 1 + len(PROBLEM.solution) + 1  # prompt, characters, end
    (changed,) = GuidedErrorCorrection()([said("4")], Desk(draw=0.8, length_limit=fits).tools)
    assert changed.provenance == Provenance.REFERENCE
    (changed,) = GuidedErrorCorrection()([said("4")], Desk(draw=0.8, length_limit=fits - 1).tools)
    assert changed.provenance == Provenance.REFLECTED


def test_room_is_kept_for_the_answer_text_where_reflections_are_short():
    gec = GuidedErrorCorrection(reflection_limit=1)
    assert gec.extra_tokens(encode) == len(gec.answer_text) + 32
    assert GuidedErrorCorrection(reflection_limit=256).extra_tokens(encode) == len(gec.cue) + 256

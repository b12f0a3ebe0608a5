"""Ids made anew from text, and prompts too long to be corrected, as in EDGE-GRPO's released code. A character is a token."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.correction.retokenization import retokenized
from edge_lightning.objective.base import Aggregation, StepTotals
from edge_lightning.types import Grade, Provenance
from tests.by_hand import PROBLEM
from tests.test_correction import EOS, Desk, encode, said

REFERENCE = {"reflect": 0.0, "answer": 0.0, "reference": 1.0}
OTHER = replace(PROBLEM, id="other")


def test_the_ends_of_a_corrected_group_are_lost_and_of_others_kept():
    group = [said("5", right=True), replace(said("4"), index=1), said("5", right=True, problem=OTHER)]
    right, corrected, elsewhere = GuidedErrorCorrection(**REFERENCE, retokenize=True)(group, Desk().tools)
    assert (right.completion_ids, right.sampled_mask, right.engine_logprobs) == (encode("5"), (True,), (-0.5,))
    assert (right.provenance, right.grade, right.finish_reason) == (
        Provenance.SAMPLED,
        Grade(1.0, True, {"accuracy": 1.0}),
        "stop",
    )
    assert corrected.completion_ids == encode(PROBLEM.solution)
    assert not any(corrected.sampled_mask)
    assert elsewhere is group[2]
    kept = GuidedErrorCorrection(**REFERENCE)(group, Desk().tools)
    assert [r.completion_ids[-1] for r in kept] == [EOS] * 3


def test_a_lost_end_makes_the_other_tokens_of_the_response_weigh_more():
    (right, _) = GuidedErrorCorrection(**REFERENCE, retokenize=True)([said("5", right=True), said("4")], Desk().tools)
    # response mean, two responses in the step: 1 / (2 * 2) for "5" and its end, 1 / (2 * 1) without the end
    weights = [
        Aggregation("response_mean")(torch.zeros(n, dtype=torch.long), StepTotals(2, 99))[0].item()
        for n in (len(said("5").completion_ids), len(right.completion_ids))
    ]
    assert weights == [0.25, 0.5]


def test_ids_that_drift_are_sampled_by_nobody_from_the_first_that_differs():
    spelled = replace(
        said("ab"), completion_ids=(7, 8, 9, EOS), sampled_mask=(True,) * 4, engine_logprobs=(-1.0, -2.0, -3.0, -4.0)
    )
    changed = retokenized(spelled, (7, 5, 9))
    assert changed.completion_ids == (7, 5, 9)
    assert changed.sampled_mask == (True, False, False)
    assert changed.engine_logprobs == (-1.0, None, None)
    longer = retokenized(spelled, (7, 8, 9, EOS, 3))
    assert longer.sampled_mask == (True,) * 4 + (False,)
    assert longer.engine_logprobs[4] is None
    shorter = retokenized(spelled, (7, 8))
    assert (shorter.sampled_mask, shorter.engine_logprobs) == ((True, True), (-1.0, -2.0))


def test_what_was_injected_stays_so_where_its_ids_are_the_same():
    reflected = GuidedErrorCorrection(reflect=1.0, answer=0.0, reference=0.0, cue="?", retokenize=True)
    (changed,) = reflected([said("4")], Desk(says="77").tools)
    assert changed.completion_ids == encode("4?77")
    assert changed.sampled_mask == (True, False, True, True)
    assert changed.engine_logprobs == (-0.5, None, -0.25, -0.25)


def test_a_response_of_nothing_but_its_end_keeps_it():
    empty = replace(said(""), index=1)
    kept, _ = GuidedErrorCorrection(**REFERENCE, retokenize=True)(
        [replace(empty, grade=Grade(1.0, True)), said("4")], Desk().tools
    )
    assert kept.completion_ids == (EOS,)


def test_a_label_survives_retokenization():
    corrector = GuidedErrorCorrection(
        reflect=0.0, answer=1.0, reference=0.0, answer_given="wrong", reward_wrong_answer_as_right=True, retokenize=True
    )
    problems = (replace(PROBLEM, id="two", answers=("2",)),)
    (changed,) = corrector([said("4")], replace(Desk().tools, problems=problems))
    assert changed.grade.right
    assert changed.completion_ids[-1] != EOS


@pytest.mark.parametrize(("tokens", "provenance"), [(255, Provenance.REFERENCE), (256, Provenance.SAMPLED)])
def test_the_prompt_limit_is_the_longest_prompt_whose_responses_are_corrected(tokens, provenance):
    long = replace(said("4"), prompt_ids=(99,) * tokens)
    (changed,) = GuidedErrorCorrection(**REFERENCE, prompt_limit=255)([long], Desk().tools)
    assert changed.provenance == provenance
    (changed,) = GuidedErrorCorrection(**REFERENCE)([long], Desk().tools)
    assert changed.provenance == Provenance.REFERENCE

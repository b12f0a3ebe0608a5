"""Guided Error Correction: wrong responses reflect, are given the answer, or are replaced by the reference solution.

Source: EDGE-GRPO (arXiv:2507.21848), Section 3.2; cue and answer texts of its released code.
Force-R, the paper's baseline, is the same with reflection alone: reflect=1, answer=0, reference=0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from edge_lightning.correction.base import CorrectionTools, inject, reflect, without_eos
from edge_lightning.errors import UserError
from edge_lightning.types import Provenance, Response

ANSWER_SLOT = "ANSWER"
ANSWER_TOKENS = 32  # room for a final answer; a longer one is given only where it happens to fit


class GuidedErrorCorrection:
    """Changes every wrong response, also where its group has a right one; right responses are left untouched.

        reflect     response + cue, and the policy goes on for at most `reflection_limit` tokens
        answer      response + answer text with the final answer + end of sequence; nothing is generated
        reference   the reference solution + end of sequence in place of the response

    Where no reference solution can be used (there is none, it does not fit, or it does not grade right), the answer is given
    instead; where no answer can be given (it does not fit, or does not grade right when pasted), the response reflects.

    Args:
        reflect, answer, reference: probabilities of the branches, summing to 1.
        cue: put in front of a reflection.
        answer_text: put behind the response in the answer branch; `ANSWER` in it stands for the final answer.
        reflection_limit: new tokens of a reflection, in addition to the response limit.
        verified_references_only: take only reference solutions that grade right; False takes any, as the paper does, so
            that a response can be replaced by a solution with another answer and keep a reward of 0.
    Raises:
        UserError: the probabilities are no distribution, the answer text has no slot, or the limit is below 1.
    """

    def __init__(
        self,
        *,
        reflect: float = 0.5,
        answer: float = 0.25,
        reference: float = 0.25,
        cue: str = " Wait! Something is wrong here.",
        answer_text: str = ("\nWait! Something is wrong here. After verification, the correct answer is \\boxed{ANSWER}."),
        reflection_limit: int = 256,
        verified_references_only: bool = True,
    ):
        shares = (reflect, answer, reference)
        if min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
            raise UserError(
                f"correction.reflect={reflect}, answer={answer}, reference={reference}: "
                f"three shares of at least 0 that sum to 1 expected, their sum is {sum(shares):g}"
            )
        if ANSWER_SLOT not in answer_text:
            raise UserError(f"correction.answer_text={answer_text!r}: the word {ANSWER_SLOT} expected in it")
        if reflection_limit < 1:
            raise UserError(f"correction.reflection_limit={reflection_limit}: at least 1 expected")
        self.reflect = reflect
        self.answer = answer
        self.cue = cue
        self.answer_text = answer_text
        self.reflection_limit = reflection_limit
        self.verified_references_only = verified_references_only

    def extra_tokens(self, encode: Callable[[str], tuple[int, ...]]) -> int:
        reflection = len(encode(self.cue)) + self.reflection_limit
        return max(reflection, len(encode(self.answer_text)) + ANSWER_TOKENS)

    def __call__(self, responses: Sequence[Response], tools: CorrectionTools) -> list[Response]:
        corrected = list(responses)
        to_reflect = []
        for i, response in enumerate(responses):
            if response.grade.right:
                continue
            changed = self._without_sampling(response, tools)
            if changed is None:
                to_reflect.append(i)
            else:
                corrected[i] = changed
        reflected = reflect([responses[i] for i in to_reflect], self.cue, self.reflection_limit, tools)
        for i, response in zip(to_reflect, reflected):
            corrected[i] = response
        return corrected

    def _without_sampling(self, response: Response, tools: CorrectionTools) -> Response | None:
        """The response after the answer or the reference branch; None where it is to reflect."""
        draw = tools.uniform(response, "correction")
        if draw < self.reflect:
            return None
        if draw >= self.reflect + self.answer:
            replaced = self._give_reference(response, tools)
            if replaced is not None:
                return replaced
        return self._give_answer(response, tools)

    def _give_answer(self, response: Response, tools: CorrectionTools) -> Response | None:
        text = self.answer_text.replace(ANSWER_SLOT, response.problem.answers[0])
        given = inject(without_eos(response, tools.eos_ids), (*tools.encode(text), tools.eos_ids[0]))
        text = tools.decode(given.completion_ids)
        if not _fits(given, tools) or not tools.grade(response, text).right:
            return None
        return replace(given, provenance=Provenance.ANSWER_INJECTED, text=text, finish_reason="stop")

    def _give_reference(self, response: Response, tools: CorrectionTools) -> Response | None:
        solution = response.problem.solution
        if solution is None or not solution.strip():
            return None
        if self.verified_references_only and not _grades_right(response, tools):
            return None
        bare = replace(response, completion_ids=(), sampled_mask=(), engine_logprobs=())
        given = inject(bare, (*tools.encode(solution), tools.eos_ids[0]))
        if not _fits(given, tools):
            return None
        text = tools.decode(given.completion_ids)
        return replace(given, provenance=Provenance.REFERENCE, text=text, finish_reason="stop")


def _grades_right(response: Response, tools: CorrectionTools) -> bool:
    """Whether the problem's solution grades right, as was found when the data were loaded, else as is found now."""
    found = response.problem.solution_right
    return tools.grade(response, response.problem.solution).right if found is None else found


def _fits(response: Response, tools: CorrectionTools) -> bool:
    return len(response.prompt_ids) + len(response.completion_ids) <= tools.length_limit

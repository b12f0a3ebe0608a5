"""Guided Error Correction: wrong responses reflect, are given the answer, or are replaced by the reference solution.

Source: EDGE-GRPO (arXiv:2507.21848), Section 3.2; cue and answer texts of its released code.
Force-R, the paper's baseline, is the same with reflection alone: reflect=1, answer=0, reference=0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from edge_lightning.correction.base import CorrectionTools, reflect
from edge_lightning.correction.injection import ANSWER_SLOT, foreign_solution, own_solution, right_answer, wrong_answer
from edge_lightning.correction.retokenization import retokenize_corrected_groups
from edge_lightning.errors import UserError
from edge_lightning.types import Response

ANSWER_TOKENS = 32  # room for a final answer; a longer one is given only where it happens to fit


class GuidedErrorCorrection:
    """Changes every wrong response, also where its group has a right one; right responses are left untouched.

        reflect     response + cue, and the policy goes on for at most `reflection_limit` tokens
        answer      response + answer text with the final answer + end of sequence; nothing is generated
        reference   the reference solution + end of sequence in place of the response

    Where no reference solution can be used (there is none, it does not fit, or it does not grade right), the answer is given
    instead; where no answer can be given (it does not fit, or does not grade right when pasted), the response reflects. So
    it does where a control finds nothing to put in: then no truth is put in either.

    Args:
        reflect, answer, reference: probabilities of the branches, summing to 1.
        cue: put in front of a reflection.
        answer_text: put behind the response in the answer branch; `ANSWER` in it stands for the final answer.
        reflection_limit: new tokens of a reflection, in addition to the response limit.
        verified_references_only: take only reference solutions that grade right; False takes any, as the paper does, so
            that a response can be replaced by a solution with another answer and keep a reward of 0.
        answer_given: `right`, or as a control `wrong`: the answer of another training problem, which grades wrong and is
            not what the response has said by itself. It is graded as it is.
        reward_wrong_answer_as_right: a wrong answer gets the grade that the right one would have got in its place, so that
            it counts as right wherever grades are read, also in the figures `*/corrected`: difference without truth.
        reference_given: `own`, or as a control `foreign`: the solution of another training problem, which does not grade
            right. It is graded as it is.
        prompt_limit: of the responses to longer prompts, in tokens, none is changed; None: no limit.
        retokenize: make new ids of the text of each response of a group that has a corrected one; see retokenization.py.
    Raises:
        UserError: the probabilities are no distribution, the answer text has no slot, a limit is below 1, an option is
            none, or no wrong answer is given that could be rewarded.
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
        answer_given: str = "right",
        reward_wrong_answer_as_right: bool = False,
        reference_given: str = "own",
        prompt_limit: int | None = None,
        retokenize: bool = False,
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
        if prompt_limit is not None and prompt_limit < 1:
            raise UserError(f"correction.prompt_limit={prompt_limit}: at least 1 expected, null for no limit")
        if answer_given not in ("right", "wrong"):
            raise UserError(f"correction.answer_given={answer_given}: right or wrong expected")
        if reference_given not in ("own", "foreign"):
            raise UserError(f"correction.reference_given={reference_given}: own or foreign expected")
        if reward_wrong_answer_as_right and answer_given == "right":
            raise UserError(
                "correction.reward_wrong_answer_as_right=True: correction.answer_given=wrong expected beside it; "
                "set one of the two"
            )
        self.reflect = reflect
        self.answer = answer
        self.cue = cue
        self.answer_text = answer_text
        self.reflection_limit = reflection_limit
        self.verified_references_only = verified_references_only
        self.gives_right_answer = answer_given == "right"
        self.reward_wrong_answer_as_right = reward_wrong_answer_as_right
        self.gives_own_solution = reference_given == "own"
        self.prompt_limit = math.inf if prompt_limit is None else prompt_limit
        self.retokenize = retokenize

    def extra_tokens(self, encode: Callable[[str], tuple[int, ...]]) -> int:
        reflection = len(encode(self.cue)) + self.reflection_limit
        return max(reflection, len(encode(self.answer_text)) + ANSWER_TOKENS)

    def __call__(self, responses: Sequence[Response], tools: CorrectionTools) -> list[Response]:
        corrected = list(responses)
        to_reflect = []
        for i, response in enumerate(responses):
            if response.grade.right or len(response.prompt_ids) > self.prompt_limit:
                continue
            changed = self._without_sampling(response, tools)
            if changed is None:
                to_reflect.append(i)
            else:
                corrected[i] = changed
        reflected = reflect([responses[i] for i in to_reflect], self.cue, self.reflection_limit, tools)
        for i, response in zip(to_reflect, reflected):
            corrected[i] = response
        return retokenize_corrected_groups(corrected, tools) if self.retokenize else corrected

    def _without_sampling(self, response: Response, tools: CorrectionTools) -> Response | None:
        """The response after the answer or the reference branch; None where it is to reflect."""
        draw = tools.uniform(response, "correction")
        if draw < self.reflect:
            return None
        if draw < self.reflect + self.answer:
            return self._give_answer(response, tools)
        if not self.gives_own_solution:
            return foreign_solution(response, self.verified_references_only, tools)
        return own_solution(response, self.verified_references_only, tools) or self._give_answer(response, tools)

    def _give_answer(self, response: Response, tools: CorrectionTools) -> Response | None:
        if self.gives_right_answer:
            return right_answer(response, self.answer_text, tools)
        wrong = wrong_answer(response, self.answer_text, tools)
        if wrong is None or not self.reward_wrong_answer_as_right:
            return wrong
        right = right_answer(response, self.answer_text, tools)
        return None if right is None else replace(wrong, grade=tools.grade(right, right.text))

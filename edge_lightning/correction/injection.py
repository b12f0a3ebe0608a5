"""What correction puts into a wrong response: the right answer or the problem's solution, or, as controls, other problems'.

The controls separate what an injection brings of truth from what it brings of difference. They draw a training problem by
counters, again where it does not suit, and never more than `DRAWS` times. Each function gives the changed response without a
grade, or None where nothing can be put in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edge_lightning.correction.base import CorrectionTools, inject, without_eos
from edge_lightning.types import Problem, Provenance, Response

ANSWER_SLOT = "ANSWER"
DRAWS = 16


def right_answer(response: Response, answer_text: str, tools: CorrectionTools) -> Response | None:
    """The response, the answer text with the problem's answer, end of sequence; None where it does not grade right then."""
    given = _pasted(response, answer_text, response.problem.answers[0], tools)
    return given if _fits(given, tools) and tools.grade(given, given.text).right else None


def wrong_answer(response: Response, answer_text: str, tools: CorrectionTools) -> Response | None:
    """The same with the answer of another problem: right there, wrong here, and not what the response has said already."""
    for other in _drawn(response, "wrong answer", tools):
        given = _pasted(response, answer_text, other.answers[0], tools)
        if (
            _fits(given, tools)
            and not tools.grade(given, given.text).right
            and tools.grade(replace(given, problem=other), given.text).right
            and not tools.grade(replace(response, problem=other), response.text).right
        ):
            return given
    return None


def own_solution(response: Response, verified_only: bool, tools: CorrectionTools) -> Response | None:
    """The problem's solution and end of sequence in place of the response.

    Args:
        verified_only: take it only if it grades right.
    """
    return _replaced(response, response.problem, verified_only, tools)


def foreign_solution(response: Response, verified_only: bool, tools: CorrectionTools) -> Response | None:
    """The same with the solution of another problem, which does not grade right here.

    Args:
        verified_only: take it only if it grades right there.
    """
    for other in _drawn(response, "foreign solution", tools):
        given = _replaced(response, other, verified_only, tools)
        if given is not None and not tools.grade(given, given.text).right:
            return given
    return None


def _drawn(response: Response, purpose: str, tools: CorrectionTools) -> Iterator[Problem]:
    """Other training problems, one after the other, with repetition."""
    for draw in range(DRAWS if tools.problems else 0):
        other = tools.problems[int(tools.uniform(response, f"{purpose} {draw}") * len(tools.problems))]
        if other.id != response.problem.id:
            yield other


def _pasted(response: Response, answer_text: str, answer: str, tools: CorrectionTools) -> Response:
    text = answer_text.replace(ANSWER_SLOT, answer)
    given = inject(without_eos(response, tools.eos_ids), (*tools.encode(text), tools.eos_ids[0]))
    return replace(
        given, provenance=Provenance.ANSWER_INJECTED, text=tools.decode(given.completion_ids), finish_reason="stop"
    )


def _replaced(response: Response, solved: Problem, verified_only: bool, tools: CorrectionTools) -> Response | None:
    """The response with the solution of `solved` in its place; None where that is no use or does not fit."""
    solution = solved.solution
    if solution is None or not solution.strip():
        return None
    if verified_only and not _grades_right(replace(response, problem=solved), tools):
        return None
    bare = replace(response, completion_ids=(), sampled_mask=(), engine_logprobs=())
    given = inject(bare, (*tools.encode(solution), tools.eos_ids[0]))
    if not _fits(given, tools):
        return None
    return replace(given, provenance=Provenance.REFERENCE, text=tools.decode(given.completion_ids), finish_reason="stop")


def _grades_right(response: Response, tools: CorrectionTools) -> bool:
    """Whether the problem's solution grades right, as was found when the data were loaded, else as is found now."""
    found = response.problem.solution_right
    return tools.grade(response, response.problem.solution).right if found is None else found


def _fits(response: Response, tools: CorrectionTools) -> bool:
    return len(response.prompt_ids) + len(response.completion_ids) <= tools.length_limit

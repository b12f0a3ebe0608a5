"""Responses written by hand, for tests of the stages."""

from __future__ import annotations

from edge_lightning.types import Grade, Problem, Provenance, Response

PROBLEM = Problem("p", "Start with 8. Subtract 3. What is the result?", ("5",), "8 - 3 = 5. The answer is \\boxed{5}.")


def response(
    completion_ids=(5, 6, 7),
    *,
    right: bool = False,
    index: int = 0,
    problem: Problem = PROBLEM,
    prompt_ids=(1, 2),
    sampled_mask=None,
    finish_reason: str = "stop",
    text: str = "text",
    reward: float | None = None,
    provenance: Provenance = Provenance.SAMPLED,
) -> Response:
    ids = tuple(completion_ids)
    mask = tuple(sampled_mask) if sampled_mask is not None else (True,) * len(ids)
    grade = Grade(reward=float(right) if reward is None else reward, right=right, parts={"accuracy": float(right)})
    return Response(
        problem=problem,
        index=index,
        seed=1,
        prompt_ids=tuple(prompt_ids),
        completion_ids=ids,
        sampled_mask=mask,
        engine_logprobs=tuple(-0.5 if sampled else None for sampled in mask),
        finish_reason=finish_reason,
        provenance=provenance,
        text=text,
        sampled_text=text,
        sampled_tokens=sum(mask),
        sampled_grade=grade,
        grade=grade,
    )

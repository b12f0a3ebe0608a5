"""The values that travel between the stages.

Everything a later stage may want to know about a response is carried here, so that nothing downstream guesses:
where it came from, which of its tokens the policy sampled, and what the policy had said before correction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Provenance(StrEnum):
    """Where a response came from."""

    SAMPLED = "sampled"  # the policy's own, untouched
    REFLECTED = "reflected"  # the policy's own, a cue, and what the policy went on to say
    ANSWER_INJECTED = "answer_injected"  # the policy's own, a cue and the final answer
    REFERENCE = "reference"  # the problem's reference solution


class Verdict(StrEnum):
    """What the grader says of one answer, and why. Only `MATCHED` is right."""

    MATCHED = "matched"  # equals an accepted answer
    DIFFERS = "differs"  # equals none of them, or can't be read
    NO_BOX = "no box"  # the text has no complete box
    UNPARSABLE_GOLD = "unparsable gold"  # no accepted answer can be read, and none is the answer's very text
    TIMED_OUT = "timed out"  # the comparison was given up


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes:
        id: unique in its data set; seeds derive from it.
        text: what the policy is asked.
        answers: the accepted final answers, any one of which is right; at least one.
        solution: a worked reference solution, or None.
        solution_right: whether the solution grades right as an answer to the problem; None where nobody graded it.
        prefix: text that stands between the prompt and the response and is never trained on, for example a wrong
            working and a cue after which the solution goes on.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    solution: str | None = None
    prefix: str = ""
    solution_right: bool | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: from the `top_k` likeliest (None: all), of those from the fewest with a share of `top_p`.

    Temperature 0 is greedy.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to generate: token ids in, at most `max_tokens` ids out, drawn with `seed`."""

    problem: Problem
    prompt_ids: tuple[int, ...]
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Generation:
    """What an engine made of one request.

    Attributes:
        token_ids: the new ids, a closing end-of-sequence id included.
        logprobs: of each new id at the sampling temperature, nats; None where the engine sampled nothing.
        finish_reason: "stop" (ended by itself) or "length" (cut at the limit).
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Grade:
    """The reward of one response: the weighted sum, its parts before weighting, and whether the answer is right."""

    reward: float
    right: bool
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One member of a group, with its history.

    Attributes:
        completion_ids: what is trained on, injected ids included.
        sampled_mask: True where the policy sampled the token.
        engine_logprobs: the engine's log-probability of each token at the sampling temperature, nats; None for
            tokens that were not sampled.
        sampled_text, sampled_tokens, sampled_grade: what the policy said first, before any correction, which may have
            replaced it: text, number of tokens, grade.
        grade: the grade of the response as it stands now.
    """

    problem: Problem
    index: int
    seed: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    sampled_mask: tuple[bool, ...]
    engine_logprobs: tuple[float | None, ...]
    finish_reason: str
    provenance: Provenance
    text: str
    sampled_text: str
    sampled_tokens: int
    sampled_grade: Grade | None = None
    grade: Grade | None = None

"""What a correction owes the pipeline, and the two ways in which a response can be changed.

Ids that the policy sampled are kept as they are; text that is put in is tokenised once, by itself, and appended as ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from edge_lightning.types import Generation, Grade, Problem, Provenance, Request, Response

T = TypeVar("T")


@dataclass(frozen=True)
class CorrectionTools:
    """What a corrector may use.

    Attributes:
        generate: asks the engine to go on.
        encode: text to ids, without special tokens.
        decode: ids to text, special tokens left out.
        grade: what a text would be graded as an answer to a response's problem.
        uniform: a number in [0, 1) for a response and a purpose, a function of counters.
        seed: a seed, likewise.
        eos_ids: ids that end a response; the first is appended where one is due.
        length_limit: the most tokens that prompt and response may have together.
        problems: the training problems, for corrections that take text of another problem.
        gather: what all ranks bring, for what depends on the whole group: it may be spread over them. A corrector calls it
            as often on every rank, whatever responses it is given there.
    """

    generate: Callable[[Sequence[Request]], list[Generation]]
    encode: Callable[[str], tuple[int, ...]]
    decode: Callable[[Sequence[int]], str]
    grade: Callable[[Response, str], Grade]
    uniform: Callable[[Response, str], float]
    seed: Callable[[Response, str], int]
    eos_ids: tuple[int, ...]
    length_limit: int
    problems: Sequence[Problem] = ()
    gather: Callable[[T], list[T]] = lambda value: [value]


class Corrector(Protocol):
    """Decides which responses stand in a group."""

    def extra_tokens(self, encode: Callable[[str], tuple[int, ...]]) -> int:
        """The most tokens that a correction adds to a response, in front of the engine's length limit."""

    def __call__(self, responses: Sequence[Response], tools: CorrectionTools) -> list[Response]:
        """The responses, in order; changed ones come back without a grade, or with the one that they are to keep."""


def without_eos(response: Response, eos_ids: Sequence[int]) -> Response:
    """The response without a closing end-of-sequence id, ready to be gone on with."""
    if not response.completion_ids or response.completion_ids[-1] not in eos_ids:
        return response
    return replace(
        response,
        completion_ids=response.completion_ids[:-1],
        sampled_mask=response.sampled_mask[:-1],
        engine_logprobs=response.engine_logprobs[:-1],
    )


def inject(response: Response, ids: Sequence[int]) -> Response:
    """The response with ids appended that the policy did not sample."""
    return replace(
        response,
        completion_ids=response.completion_ids + tuple(ids),
        sampled_mask=response.sampled_mask + (False,) * len(ids),
        engine_logprobs=response.engine_logprobs + (None,) * len(ids),
        grade=None,
    )


def extend(response: Response, generation: Generation) -> Response:
    """The response with what the policy went on to sample."""
    return replace(
        response,
        completion_ids=response.completion_ids + generation.token_ids,
        sampled_mask=response.sampled_mask + (True,) * len(generation.token_ids),
        engine_logprobs=response.engine_logprobs + generation.logprobs,
        finish_reason=generation.finish_reason,
        grade=None,
    )


def reflect(responses: Sequence[Response], cue: str, max_tokens: int, tools: CorrectionTools) -> list[Response]:
    """Append the cue to each response, let the policy go on for at most `max_tokens`, and mark it as reflected."""
    cued = [inject(without_eos(response, tools.eos_ids), tools.encode(cue)) for response in responses]
    requests = [Request(r.problem, r.prompt_ids + r.completion_ids, max_tokens, tools.seed(r, "reflection")) for r in cued]
    continued = [extend(r, generation) for r, generation in zip(cued, tools.generate(requests) if requests else [])]
    return [replace(r, provenance=Provenance.REFLECTED, text=tools.decode(r.completion_ids)) for r in continued]

"""From problems to graded responses, chunk by chunk: what benchmarks and screening stand on.

It samples and grades; correction is out of its reach. A response is drawn with a seed of its own, a function of (seed,
seed name, problem, index), so neither the size of the chunks nor the ranks that share the problems change one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edge_lightning.engine.base import Engine, name_of
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
from edge_lightning.prompts import Prompt
from edge_lightning.rewards.base import Reward
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.seeds import counter_seed
from edge_lightning.types import Generation, Grade, Problem, Provenance, Request, Response, Sampling


def graded_rows(
    problems: Sequence[Problem],
    *,
    policy: Policy,
    engine: Engine,
    prompt: Prompt,
    reward: Reward,
    sampling: Sampling,
    samples: int,
    response_limit: int,
    seed_name: str,
    seed: int = 0,
    weights_version: int = 0,
    responses_at_a_time: int = 256,
) -> Iterator[list[dict]]:
    """Sample `samples` responses of each problem and grade them; one row a response, a chunk of whole problems a time.

    Args:
        samples: responses of a problem (n).
        response_limit: new tokens of a response.
        seed_name, seed: what the draws are for; two names never share a draw.
        weights_version: that the engine is expected to hold.
        responses_at_a_time: asked of the engine together; at least one problem is. It changes no response.
    Yields:
        The rows of `problems_at_a_time(samples, responses_at_a_time)` problems (the last chunk may have fewer), problem by
        problem in the order given: weights_version, problem_id, response_index, text, answer, gold, correct, formatted,
        finish_reason, tokens, entropy (None: no pass computes it), seed.
    Raises:
        UserError: the engine does not sample from the policy.
    """
    if engine.provenance is not Provenance.SAMPLED:
        raise UserError(
            f"evaluation {seed_name}: an engine that samples from the policy expected, {name_of(engine)} copies "
            "reference solutions; set evaluation.engine, engine=hf or evaluation=none"
        )
    stride = problems_at_a_time(samples, responses_at_a_time)
    for start in range(0, len(problems), stride):
        requests = [
            Request(problem, prompt_ids, response_limit, counter_seed(seed, seed_name, problem.id, index))
            for problem in problems[start : start + stride]
            for prompt_ids in [prompt(problem, policy.tokenizer)]
            for index in range(samples)
        ]
        generations = engine.generate(requests, sampling, weights_version=weights_version)
        responses = [
            _response(policy, request, generation, position % samples)
            for position, (request, generation) in enumerate(zip(requests, generations))
        ]
        yield [_row(response, grade, weights_version) for response, grade in zip(responses, reward(responses))]


def problems_at_a_time(samples: int, responses_at_a_time: int) -> int:
    """Problems of a chunk: as many as give `responses_at_a_time` responses, at least one."""
    return max(1, responses_at_a_time // samples)


def _response(policy: Policy, request: Request, generation: Generation, index: int) -> Response:
    text = policy.decode(generation.token_ids)
    return Response(
        problem=request.problem,
        index=index,
        seed=request.seed,
        prompt_ids=request.prompt_ids,
        completion_ids=generation.token_ids,
        sampled_mask=(True,) * len(generation.token_ids),
        engine_logprobs=generation.logprobs or (),
        finish_reason=generation.finish_reason,
        provenance=Provenance.SAMPLED,
        text=text,
        sampled_text=text,
        sampled_tokens=len(generation.token_ids),
    )


def _row(response: Response, grade: Grade, weights_version: int) -> dict:
    answer = last_boxed(response.text)
    return {
        "weights_version": weights_version,
        "problem_id": response.problem.id,
        "response_index": response.index,
        "text": response.text,
        "answer": answer,
        "gold": list(response.problem.answers),
        "correct": grade.right,
        "formatted": answer is not None,
        "finish_reason": response.finish_reason,
        "tokens": len(response.completion_ids),
        "entropy": None,  # no pass computes it
        "seed": response.seed,
    }

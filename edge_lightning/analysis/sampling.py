"""The responses that an analysis looks at: sampled as in training, graded, not corrected, each with its token entropies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from edge_lightning.advantage.none import NoAdvantage
from edge_lightning.analysis.base import Advance, Measured
from edge_lightning.correction.none import NoCorrection
from edge_lightning.evaluation.sampling import problems_at_a_time
from edge_lightning.experience import Pipeline, Rollout
from edge_lightning.packing import pack, plan_micro_batches
from edge_lightning.policy import Policy
from edge_lightning.scoring import response_index, score
from edge_lightning.tokens import TokenBatch
from edge_lightning.types import Problem, Response


def sampled(
    problems: Sequence[Problem],
    *,
    make_pipeline: Callable[..., Pipeline],
    group_size: int,
    responses_at_a_time: int,
    advance: Advance,
) -> list[Response]:
    """`group_size` graded responses of each problem, problem by problem.

    Args:
        make_pipeline: takes what is the same in every analysis: corrector, advantage, group size.
        responses_at_a_time: asked of the engine together; at least one problem is. It changes no response.
        advance: told the problems done.
    """
    pipeline = make_pipeline(corrector=NoCorrection(), advantage=NoAdvantage(), group_size=group_size)
    stride = problems_at_a_time(group_size, responses_at_a_time)
    responses: list[Response] = []
    for start in range(0, len(problems), stride):
        rollout = Rollout(list(problems[start : start + stride]), step=0)
        pipeline.fill(rollout, weights_version=0)
        responses += rollout.responses
        advance(len(responses) // group_size)
    return responses


def measured(
    policy: Policy, responses: Sequence[Response], *, micro_batch_tokens: int, advance: Advance
) -> tuple[list[Measured], float | None]:
    """The responses with their token entropies, and how far engine and policy are apart.

        gap = mean over tokens |log p_engine - log p_policy|, nats;   None where the engine gave no log-probability

    Args:
        micro_batch_tokens: prompt and response tokens of a forward pass; bounds memory alone.
        advance: told the responses done.
    """
    response_N = response_index(responses)
    found = score(policy, _micro_batches(responses, micro_batch_tokens, advance), response_N)
    lengths = [len(response.completion_ids) for response in responses]
    entropies = [values.double().numpy() for values in found.entropies_N.split(lengths)]
    engine_N = torch.tensor([torch.nan if v is None else v for response in responses for v in response.engine_logprobs])
    gap = float((engine_N - found.logprobs_N).abs().nanmean())
    return [Measured(*pair) for pair in zip(responses, entropies)], None if gap != gap else gap


def _micro_batches(responses: Sequence[Response], token_budget: int, advance: Advance) -> Iterator[TokenBatch]:
    done = 0
    for chosen in plan_micro_batches(responses, range(len(responses)), token_budget=token_budget):
        yield pack(responses, chosen)
        done += len(chosen)
        advance(done)

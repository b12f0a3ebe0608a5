"""Prompts and whole responses, one after the other, without padding; responses to one prompt stand behind it together.

A micro-batch is one row of T tokens in which every prompt stands once. Linear layers see just these tokens; attention sees
each response with its prompt by itself (attention.py). The N response tokens are found through the positions that predict
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from edge_lightning.tokens import Span, TokenBatch
from edge_lightning.types import Provenance, Response


def pack(responses: Sequence[Response], indices: Sequence[int]) -> TokenBatch:
    """Pack the responses at `indices` (positions in the step's list) into one row."""
    starts = [0, *accumulate(len(response.completion_ids) for response in responses)]
    input_ids, positions, spans, predictors, targets = [], [], [], [], []
    owner, place, sampled, corrected, engine_logprobs = [], [], [], [], []
    prompts: dict[tuple[int, ...], range] = {}
    for index in indices:
        response = responses[index]
        prompt_length, length = len(response.prompt_ids), len(response.completion_ids)
        if prompt_length == 0 or length == 0:
            raise ValueError(
                f"problem {response.problem.id!r}, response {response.index}: a prompt and a response of at least one "
                f"token each expected, {prompt_length} and {length} came"
            )
        if response.prompt_ids not in prompts:
            prompts[response.prompt_ids] = range(len(input_ids), len(input_ids) + prompt_length)
            input_ids += response.prompt_ids
            positions += range(prompt_length)
        span = Span(prompts[response.prompt_ids], range(len(input_ids), len(input_ids) + length))
        input_ids += response.completion_ids
        positions += range(prompt_length, prompt_length + length)
        spans.append(span)
        predictors += [span.prompt[-1], *span.response[:-1]]
        targets += response.completion_ids
        owner += [index] * length
        place += range(starts[index], starts[index + 1])
        sampled += response.sampled_mask
        corrected += [response.provenance is not Provenance.SAMPLED] * length
        engine_logprobs += [torch.nan if value is None else value for value in response.engine_logprobs]
    return TokenBatch(
        input_ids_T=torch.tensor(input_ids),
        position_ids_T=torch.tensor(positions),
        spans=tuple(spans),
        predictor_N=torch.tensor(predictors),
        target_N=torch.tensor(targets),
        response_N=torch.tensor(owner),
        place_N=torch.tensor(place),
        sampled_N=torch.tensor(sampled, dtype=torch.bool),
        corrected_N=torch.tensor(corrected, dtype=torch.bool),
        engine_logprobs_N=torch.tensor(engine_logprobs),
        responses=tuple(indices),
    )


def plan_micro_batches(responses: Sequence[Response], chosen: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Which of the chosen responses go into which micro-batch, by their positions in the step's list.

    Responses to one prompt stay together where the budget allows it, so that they share it. There are as many micro-batches
    as first-fit by falling size needs, of about equal size: the largest one's activations are the peak of memory. A response
    that is over the budget by itself stands alone. Every chosen one comes exactly once.

    Args:
        token_budget: the most tokens of a row.
    """
    parts = _parts(responses, chosen, token_budget)
    sizes = [_row_length(responses, part) for part in parts]
    return [[index for number in row for index in parts[number]] for row in _equal_rows(sizes, token_budget)]


def _equal_rows(sizes: Sequence[int], token_budget: int) -> list[list[int]]:
    """The rows of first-fit, of about equal size where there is room for it. Sizes fall."""
    fitted = _rows(sizes, token_budget)
    return _rows(sizes, token_budget, count=len(fitted)) or fitted


def _rows(sizes: Sequence[int], token_budget: int, *, count: int | None = None) -> list[list[int]] | None:
    """Parts by row: each in the first with room; with a count, in the emptiest of so many; None: it has no room there."""
    rows: list[list[int]] = [[] for _ in range(count or 0)]
    filled = [0] * len(rows)
    for number, size in enumerate(sizes):
        if count is None:
            place = next((i for i, tokens in enumerate(filled) if tokens + size <= token_budget), None)
            if place is None:
                place = len(rows)
                rows.append([])
                filled.append(0)
        else:
            place = filled.index(min(filled))
            if filled[place] and filled[place] + size > token_budget:
                return None
        rows[place].append(number)
        filled[place] += size
    return rows


def _parts(responses: Sequence[Response], chosen: Sequence[int], token_budget: int) -> list[list[int]]:
    """Responses with one prompt that a row has room for, in parts of about equal size, the longest first."""
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for index in chosen:
        by_prompt.setdefault(responses[index].prompt_ids, []).append(index)
    parts = []
    for prompt, members in by_prompt.items():
        longest_first = sorted(members, key=lambda index: -len(responses[index].completion_ids))
        lengths = [len(responses[index].completion_ids) for index in longest_first]
        parts += [sorted(longest_first[i] for i in row) for row in _equal_rows(lengths, token_budget - len(prompt))]
    return sorted(parts, key=lambda part: (-_row_length(responses, part), part))


def _row_length(responses: Sequence[Response], part: Sequence[int]) -> int:
    """Tokens of responses with one prompt and of the prompt."""
    return len(responses[part[0]].prompt_ids) + sum(len(responses[i].completion_ids) for i in part)

"""Whole responses with their prompts, one after the other, without padding.

A micro-batch is one row of T tokens. Linear layers see just these tokens; attention sees each sequence by itself
(policy.py). The N response tokens are found through the positions that predict them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from edge_lightning.tokens import TokenBatch
from edge_lightning.types import Provenance, Response


def pack(responses: Sequence[Response], indices: Sequence[int]) -> TokenBatch:
    """Pack the responses at `indices` (positions in the step's list) into one row."""
    input_ids, positions, lengths, predictors, targets, owner, sampled, corrected = [], [], [], [], [], [], [], []
    for index in indices:
        response = responses[index]
        start, prompt, answer = len(input_ids), len(response.prompt_ids), len(response.completion_ids)
        if prompt == 0 or answer == 0:
            raise ValueError(
                f"problem {response.problem.id!r}, response {response.index}: a prompt and a response of at least one "
                f"token each expected, {prompt} and {answer} came"
            )
        input_ids += response.prompt_ids + response.completion_ids
        positions += range(prompt + answer)
        lengths.append(prompt + answer)
        predictors += range(start + prompt - 1, start + prompt + answer - 1)
        targets += response.completion_ids
        owner += [index] * answer
        sampled += response.sampled_mask
        corrected += [response.provenance is not Provenance.SAMPLED] * answer
    return TokenBatch(
        input_ids_T=torch.tensor(input_ids),
        position_ids_T=torch.tensor(positions),
        lengths=tuple(lengths),
        predictor_N=torch.tensor(predictors),
        target_N=torch.tensor(targets),
        response_N=torch.tensor(owner),
        sampled_N=torch.tensor(sampled, dtype=torch.bool),
        corrected_N=torch.tensor(corrected, dtype=torch.bool),
        responses=tuple(indices),
    )


def plan_micro_batches(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices of the sequences of each micro-batch: neighbours in length, at most `token_budget` tokens together.

    A sequence longer than the budget stands alone. Every index comes exactly once.
    """
    plan: list[list[int]] = []
    used = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not plan or used + lengths[index] > token_budget:
            plan.append([])
            used = 0
        plan[-1].append(index)
        used += lengths[index]
    return plan

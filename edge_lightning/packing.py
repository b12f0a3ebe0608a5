"""Whole responses with their prompts, one after the other, without padding.

A micro-batch is one row of T tokens. Linear layers see just these tokens; attention sees each sequence by itself
(policy.py). The N response tokens are found through the positions that predict them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edge_lightning.types import Response


@dataclass(frozen=True)
class TokenBatch:
    """A packed micro-batch of some of a step's responses.

    Attributes:
        input_ids_T, position_ids_T: the row; positions start at 0 in each sequence.
        lengths: tokens of each sequence, prompt and response.
        predictor_N: position in the row whose hidden state predicts each response token.
        target_N: the response tokens.
        response_N: index in the step of each token's response.
        sampled_N: True where the policy sampled the token.
        responses: indices in the step of the responses that this micro-batch holds.
    """

    input_ids_T: Tensor
    position_ids_T: Tensor
    lengths: tuple[int, ...]
    predictor_N: Tensor
    target_N: Tensor
    response_N: Tensor
    sampled_N: Tensor
    responses: tuple[int, ...]

    def to(self, device: torch.device) -> TokenBatch:
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(self).items()}
        return TokenBatch(**moved)


def pack(responses: Sequence[Response], indices: Sequence[int]) -> TokenBatch:
    """Pack the responses at `indices` (positions in the step's list) into one row."""
    input_ids, positions, lengths, predictors, targets, owner, sampled = [], [], [], [], [], [], []
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
    return TokenBatch(
        input_ids_T=torch.tensor(input_ids),
        position_ids_T=torch.tensor(positions),
        lengths=tuple(lengths),
        predictor_N=torch.tensor(predictors),
        target_N=torch.tensor(targets),
        response_N=torch.tensor(owner),
        sampled_N=torch.tensor(sampled, dtype=torch.bool),
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

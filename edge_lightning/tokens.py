"""The tensors of a micro-batch: what goes into the policy and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """Where a response lies in a packed row, and where the prompt that it continues: several may share one."""

    prompt: range
    response: range

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)


@dataclass(frozen=True)
class TokenBatch:
    """A packed micro-batch of some of a step's responses.

    Attributes:
        input_ids_T, position_ids_T: the row; positions start at 0 in each prompt and go on in its responses.
        spans: where each response and its prompt lie.
        predictor_N: position in the row whose hidden state predicts each response token.
        target_N: the response tokens.
        response_N: index in the step of each token's response.
        place_N: where each response token stands in the step's flat order (response by response).
        sampled_N: True where the policy sampled the token.
        corrected_N: True where the token's response is not as the policy sampled it.
        engine_logprobs_N: of the engine that sampled the token, nats; NaN where none did.
        responses: indices in the step of the responses that this micro-batch holds.
    """

    input_ids_T: Tensor
    position_ids_T: Tensor
    spans: tuple[Span, ...]
    predictor_N: Tensor
    target_N: Tensor
    response_N: Tensor
    place_N: Tensor
    sampled_N: Tensor
    corrected_N: Tensor
    engine_logprobs_N: Tensor
    responses: tuple[int, ...]

    def to(self, device: torch.device) -> TokenBatch:
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(self).items()}
        return TokenBatch(**moved)


@dataclass(frozen=True)
class Forward:
    """What one pass of the policy says about the response tokens of a micro-batch.

    Attributes:
        logprobs_N, entropies_N: nats at the sampling temperature, float32.
        response_N: index in the step of each token's response.
        place_N: where each token stands in the step's flat order.
        padding_entropy_B: sum of the entropies at the padding of each response, nats, ascending by the response's index;
            None where no padding was asked for. See padding.py.
    """

    logprobs_N: Tensor
    entropies_N: Tensor
    response_N: Tensor
    place_N: Tensor
    padding_entropy_B: Tensor | None = None

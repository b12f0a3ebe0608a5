"""Log-probabilities and entropies from hidden states, in one chunked pass.

The (tokens x vocabulary) matrix never exists whole: the forward pass keeps hidden states alone, the backward pass makes
each chunk of logits anew. Left out: logit soft-capping and logit scaling; policy.py refuses models that use them.
"""

from __future__ import annotations

import torch
from torch import Tensor

LOGIT_ELEMENTS = 1 << 22  # logits alive at a time on CPU: 16 MiB in float32, whatever the vocabulary
LOGIT_ELEMENTS_ON_DEVICE = 1 << 26  # elsewhere: 256 MiB, so that chunks fill the device; not yet run on hardware


def logprobs_and_entropies(
    hidden_ND: Tensor, weight_VD: Tensor, target_N: Tensor, *, temperature: float = 1.0, bias_V: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and entropy of each distribution, at a sampling temperature.

        z = (h W^T + b) / T        log p = z_target - logsumexp z        H = logsumexp z - sum_v p_v z_v

    Both are differentiable in hidden states, weight and bias.

    Args:
        hidden_ND: the hidden state that predicts each target.
        temperature: T > 0.
    Returns:
        logprobs_N and entropies_N, nats, float32.
    """
    return _ChunkedHead.apply(hidden_ND, weight_VD, bias_V, target_N, temperature)


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float) -> Tensor:
    logits = torch.nn.functional.linear(hidden, weight, bias).float()
    return logits if temperature == 1.0 else logits / temperature


class _ChunkedHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden_ND, weight_VD, bias_V, target_N, temperature):
        ctx.set_materialize_grads(False)
        ctx.temperature = temperature
        ctx.dtype = _compute_dtype(hidden_ND)  # the backward pass may run on a thread with another autocast
        hidden, weight, bias = _cast(ctx.dtype, hidden_ND, weight_VD, bias_V)
        logprobs_N = torch.empty(len(target_N), device=hidden.device)
        entropies_N = torch.empty_like(logprobs_N)
        for part in _chunks(len(target_N), weight):
            logits = _logits(hidden[part], weight, bias, temperature)
            normalizer = logits.logsumexp(-1)
            logprobs_N[part] = logits.gather(-1, target_N[part, None]).squeeze(-1) - normalizer
            entropies_N[part] = (normalizer - (torch.softmax(logits, -1) * logits).sum(-1)).clamp(min=0)  # of rounding
        ctx.save_for_backward(hidden_ND, weight_VD, bias_V, target_N, entropies_N)
        return logprobs_N, entropies_N

    @staticmethod
    def backward(ctx, grad_logprobs_N, grad_entropies_N):
        hidden_ND, weight_VD, bias_V, target_N, entropies_N = ctx.saved_tensors
        if grad_logprobs_N is None and grad_entropies_N is None:
            return None, None, None, None, None
        hidden, weight, bias = _cast(ctx.dtype, hidden_ND, weight_VD, bias_V)
        grad_hidden_ND = torch.empty_like(hidden_ND) if ctx.needs_input_grad[0] else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        grad_bias_V = torch.zeros_like(bias_V, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        for part in _chunks(len(target_N), weight):
            log_p = _logits(hidden[part], weight, bias, ctx.temperature).log_softmax(-1)
            p = log_p.exp()
            grad_logits = torch.zeros_like(p)
            if grad_logprobs_N is not None:  # d log p_target / dz = onehot - p
                grad_logits -= p * grad_logprobs_N[part, None]
                grad_logits.scatter_add_(-1, target_N[part, None], grad_logprobs_N[part, None])
            if grad_entropies_N is not None:  # dH / dz = -p (log p + H)
                grad_logits -= p * (log_p + entropies_N[part, None]) * grad_entropies_N[part, None]
            grad_logits /= ctx.temperature
            if grad_bias_V is not None:
                grad_bias_V += grad_logits.sum(0)
            grad_logits = grad_logits.to(hidden.dtype)
            if grad_hidden_ND is not None:
                grad_hidden_ND[part] = (grad_logits @ weight).to(hidden_ND.dtype)
            if grad_weight_VD is not None:
                grad_weight_VD += grad_logits.T @ hidden[part]
        if grad_weight_VD is not None:
            grad_weight_VD = grad_weight_VD.to(weight_VD.dtype)
        if grad_bias_V is not None:
            grad_bias_V = grad_bias_V.to(bias_V.dtype)
        return grad_hidden_ND, grad_weight_VD, grad_bias_V, None, None


def _chunks(tokens: int, weight: Tensor) -> list[slice]:
    elements = LOGIT_ELEMENTS if weight.device.type == "cpu" else LOGIT_ELEMENTS_ON_DEVICE
    size = max(1, elements // len(weight))
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """The dtype in which a linear layer would run: autocast's where it is on, else the hidden states'."""
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


def _cast(dtype: torch.dtype, *tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else tensor.to(dtype) for tensor in tensors]

"""Log-probabilities and entropies from hidden states, in one pass over blocks of tokens and of the vocabulary.

The (tokens x vocabulary) matrix never exists whole: the forward pass keeps hidden states and two numbers a token, the
backward pass makes each block of logits anew. Left out: logit soft-capping and logit scaling; policy.py refuses models
that use them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK_TOKENS = 512
BLOCK_LOGITS = 1 << 20  # logits alive at a time on CPU: 4 MiB in float32, whatever the vocabulary
BLOCK_LOGITS_ON_DEVICE = 1 << 26  # elsewhere: 256 MiB, so that blocks fill the device; not yet run on hardware


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
    return _BlockwiseHead.apply(hidden_ND, weight_VD, bias_V, target_N, temperature)


class _BlockwiseHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden_ND, weight_VD, bias_V, target_N, temperature):
        """Over blocks of the vocabulary, with m the largest logit so far, s = sum exp(z - m), u = sum exp(z - m) (z - m):

        logsumexp z = m + log s        H = log s - u / s
        """
        ctx.set_materialize_grads(False)
        ctx.temperature = temperature
        ctx.dtype = compute_dtype(hidden_ND)  # the backward pass may run on a thread with another autocast
        hidden, weight, bias = _cast(ctx.dtype, hidden_ND, weight_VD, bias_V)
        m_N = torch.full((len(target_N),), torch.finfo(torch.float32).min, device=hidden.device)
        s_N, u_N, z_target_N = torch.zeros_like(m_N), torch.zeros_like(m_N), torch.zeros_like(m_N)
        for tokens, words in _blocks(len(target_N), weight):
            z = _logits(hidden[tokens], weight[words], None if bias is None else bias[words], temperature)
            z_target_N[tokens] += _at_target(z, target_N[tokens], words)
            m, s, u = m_N[tokens], s_N[tokens], u_N[tokens]
            larger = torch.maximum(m, z.amax(-1))
            z -= larger[:, None]
            e = z.exp()
            shrink = (m - larger).exp()
            u_N[tokens] = shrink * (u + s * (m - larger)) + z.mul_(e).sum(-1)
            s_N[tokens] = shrink * s + e.sum(-1)
            m_N[tokens] = larger
        log_s_N = s_N.log()
        normalizer_N = m_N + log_s_N
        entropies_N = (log_s_N - u_N / s_N).clamp_(min=0)  # of rounding
        ctx.save_for_backward(hidden_ND, weight_VD, bias_V, target_N, normalizer_N, entropies_N)
        return z_target_N - normalizer_N, entropies_N

    @staticmethod
    def backward(ctx, grad_logprobs_N, grad_entropies_N):
        hidden_ND, weight_VD, bias_V, target_N, normalizer_N, entropies_N = ctx.saved_tensors
        if grad_logprobs_N is None and grad_entropies_N is None:
            raise RuntimeError("the head's backward pass got no gradient; log-probabilities or entropies must have one")
        hidden, weight, bias = _cast(ctx.dtype, hidden_ND, weight_VD, bias_V)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden_ND = torch.zeros_like(hidden_ND, dtype=torch.float32) if needs_hidden else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=torch.float32) if needs_weight else None
        grad_bias_V = torch.zeros_like(bias_V, dtype=torch.float32) if needs_bias else None
        for tokens, words in _blocks(len(target_N), weight):
            z = _logits(hidden[tokens], weight[words], None if bias is None else bias[words], ctx.temperature)
            grad_z = _grad_logits(
                z.sub_(normalizer_N[tokens, None]),
                *(None if x is None else x[tokens] for x in (grad_logprobs_N, grad_entropies_N)),
                entropies_N[tokens],
            )
            if grad_logprobs_N is not None:
                _add_at_target(grad_z, grad_logprobs_N[tokens], target_N[tokens], words)
            if ctx.temperature != 1.0:
                grad_z /= ctx.temperature
            if grad_bias_V is not None:
                grad_bias_V[words] += grad_z.sum(0)
            grad_z = grad_z.to(hidden.dtype)
            if grad_hidden_ND is not None:
                _add_product(grad_hidden_ND[tokens], grad_z, weight[words])
            if grad_weight_VD is not None:
                _add_product(grad_weight_VD[words], grad_z.T, hidden[tokens])
        return (
            None if grad_hidden_ND is None else grad_hidden_ND.to(hidden_ND.dtype),
            None if grad_weight_VD is None else grad_weight_VD.to(weight_VD.dtype),
            None if grad_bias_V is None else grad_bias_V.to(bias_V.dtype),
            None,
            None,
        )


def _grad_logits(log_p: Tensor, grad_logprobs: Tensor | None, grad_entropies: Tensor | None, entropies: Tensor) -> Tensor:
    """Gradient in the logits of a block, save for the target's own: -p (g_logprob + g_entropy (log p + H)).

    From d log p_target / dz = onehot - p and dH / dz = -p (log p + H).
    """
    if grad_entropies is None:
        return log_p.exp_().mul_(-grad_logprobs[:, None])
    p = log_p.exp()
    factor = log_p.add_(entropies[:, None]).mul_(-grad_entropies[:, None])
    if grad_logprobs is not None:
        factor -= grad_logprobs[:, None]
    return p.mul_(factor)


def _at_target(z: Tensor, target: Tensor, words: slice) -> Tensor:
    """The logit of each token's target; 0 where it is not among the words of this block."""
    place, here = _place(target, words, z.shape[1])
    return torch.where(here, z.gather(-1, place[:, None]).squeeze(-1), 0.0)


def _add_at_target(grad_z: Tensor, values: Tensor, target: Tensor, words: slice) -> None:
    place, here = _place(target, words, grad_z.shape[1])
    grad_z.scatter_add_(-1, place[:, None], torch.where(here, values, 0.0)[:, None])


def _place(target: Tensor, words: slice, width: int) -> tuple[Tensor, Tensor]:
    place = target - words.start
    return place.clamp(0, width - 1), (place >= 0) & (place < width)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, summed in total's dtype."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float) -> Tensor:
    z = torch.nn.functional.linear(hidden, weight, bias).float()
    return z if temperature == 1.0 else z.div_(temperature)


def _blocks(tokens: int, weight: Tensor) -> Iterator[tuple[slice, slice]]:
    """Blocks of tokens and of words; all tokens of a block of words in a row, so that its weights stay in the cache."""
    vocabulary = len(weight)
    logits = BLOCK_LOGITS if weight.device.type == "cpu" else BLOCK_LOGITS_ON_DEVICE
    height = max(1, min(tokens, BLOCK_TOKENS), logits // vocabulary)
    width = max(1, logits // height)
    for word in range(0, vocabulary, width):
        for token in range(0, tokens, height):
            yield slice(token, min(token + height, tokens)), slice(word, min(word + width, vocabulary))


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype in which a linear layer would run: autocast's where it is on, else the tensor's."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def _cast(dtype: torch.dtype, *tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else tensor.to(dtype) for tensor in tensors]

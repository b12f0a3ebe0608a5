"""The policy generates by itself: static batches over its own transformers model.

Slower than vLLM where responses are long; it needs nothing beside torch and is what the vLLM engine is held against.
Left out: continuous batching, a prefix cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from edge_lightning.engine.base import require_stall, require_version
from edge_lightning.engine.limits import allowed_tokens
from edge_lightning.errors import require_at_least_one
from edge_lightning.layers import uncompiled
from edge_lightning.policy import Policy
from edge_lightning.sharding import gather, is_sharded, release
from edge_lightning.types import Generation, Provenance, Request, Sampling


class HfEngine:
    """Left-padded batches with a key-value cache. It holds the live policy, so its weights are never stale.

    A sharded policy is whole on every rank from a push until `sleep`, so that a rank generates without the others.
    """

    provenance = Provenance.SAMPLED

    def __init__(
        self,
        *,
        policy: Policy,
        folder: str | Path,
        max_model_len: int,
        rank: int = 0,
        local_rank: int = 0,
        world_size: int = 1,
        max_batch: int = 64,
        stall_s: float | None = 1800.0,
    ):
        """Args:
        policy: lends its end-of-sequence ids; the weights come with the first push.
        max_model_len: the most tokens that prompt and response may have together.
        max_batch: the most responses generated at once; bounds the key-value cache.
        stall_s: the longest that no token is made before the engine is given up; None: not watched. See watched.py.
        folder, rank, local_rank, world_size: what other engines need; unused.
        """
        require_at_least_one("engine.max_batch", max_batch)
        self.stall_s = require_stall(stall_s)
        self.beat: Callable[[], None] = lambda: None
        self.max_model_len = max_model_len
        self.weights_version: int | None = None
        self._eos_ids = policy.eos_ids
        self._max_batch = max_batch
        self._model: nn.Module | None = None
        self._gathered: Policy | None = None

    def push_weights(self, policy: Policy, version: int) -> None:
        """Generate with the policy's model from now on. A sharded one is made whole, on all ranks together."""
        if is_sharded(policy):
            gather(policy)
            self._gathered = policy
        self._model = policy.model
        self.weights_version = version

    @torch.no_grad()
    def generate(self, requests: Sequence[Request], sampling: Sampling, *, weights_version: int) -> list[Generation]:
        """One generation per request, in order; a response depends on its seed and not on its neighbours.

        Raises:
            StaleWeightsError: another version was pushed last.
            UserError: a prompt leaves no room for one token.
        """
        require_version(self, weights_version)
        limits = [allowed_tokens(request, self.max_model_len) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt_ids), limits[i]))
        generations: dict[int, Generation] = {}
        with evaluation_mode(self._model), uncompiled():
            for start in range(0, len(order), self._max_batch):
                rows = order[start : start + self._max_batch]
                made = self._generate_batch([requests[i] for i in rows], [limits[i] for i in rows], sampling)
                generations.update(zip(rows, made))
        return [generations[i] for i in range(len(requests))]

    def sleep(self) -> None:
        """Give up what was made whole; there is nothing else to free."""
        if self._gathered is not None:
            release(self._gathered)
            self._gathered = self.weights_version = None

    def close(self) -> None:
        """Let the policy go."""
        self.sleep()
        self._model = None
        self.weights_version = None

    def _generate_batch(self, requests: list[Request], limits: list[int], sampling: Sampling) -> list[Generation]:
        device = next(self._model.parameters()).device
        input_ids, mask = left_padded([request.prompt_ids for request in requests], device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        uniforms = uniform_draws(requests, limits).to(device)
        cache = None
        tokens: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        growing = [True] * len(requests)
        rows = list(range(len(requests)))  # the request that each row of the batch belongs to
        for step in range(max(limits)):
            output = self._model(
                input_ids=input_ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = output.past_key_values
            self.beat()
            token, logprob = draw(output.logits[:, -1], uniforms[:, step], sampling)
            for i, new, value in zip(rows, token.tolist(), logprob.tolist()):
                if growing[i]:
                    tokens[i].append(new)
                    logprobs[i].append(value)
                    growing[i] = new not in self._eos_ids and len(tokens[i]) < limits[i]
            kept = [row for row, i in enumerate(rows) if growing[i]]
            if not kept:
                break
            if 2 * len(kept) <= len(rows):  # a drop copies the cache, so drop at most log2(batch) times
                rows = [rows[row] for row in kept]
                kept = torch.tensor(kept, device=device)
                cache.batch_select_indices(kept)
                token, mask, positions, uniforms = token[kept], mask[kept], positions[kept], uniforms[kept]
            input_ids = token[:, None]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            positions = positions[:, -1:] + 1
        return [
            Generation(tuple(ids), tuple(values), "stop" if ids[-1] in self._eos_ids else "length")
            for ids, values in zip(tokens, logprobs)
        ]


def draw(logits_BV: Tensor, uniforms_B: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """One token a row by inversion, and its log-probability.

        logp = log_softmax(logits / T, over what is left),   token = min {v : sum_{w <= v} p_w > u}

    What is left are the top_k likeliest tokens (all that are as likely as the last of them too), renormalised, and of these
    the nucleus: the smallest set of likeliest tokens with a sum of at least top_p, renormalised. A greedy draw takes the
    likeliest token and log_softmax(logits), T = 1. All as vLLM's processed_logprobs.

    Args:
        uniforms_B: in [0, 1), float64.
    Returns:
        tokens [B], log-probabilities [B] in nats.
    """
    logits_BV = logits_BV.float()
    if sampling.temperature == 0:
        token_B = logits_BV.argmax(-1)
        logprobs_BV = logits_BV.log_softmax(-1)
    else:
        logits_BV = logits_BV / sampling.temperature
        if sampling.top_k is not None:
            logits_BV = likeliest(logits_BV, sampling.top_k)
        if sampling.top_p < 1:
            logits_BV = nucleus(logits_BV, sampling.top_p)
        logprobs_BV = logits_BV.log_softmax(-1)
        cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
        threshold_B = uniforms_B * cumulative_BV[:, -1]
        token_B = torch.searchsorted(cumulative_BV, threshold_B[:, None], right=True)[:, 0]
        token_B = token_B.clamp(max=logits_BV.shape[1] - 1)
    return token_B, logprobs_BV.gather(1, token_B[:, None])[:, 0]


def likeliest(logits_BV: Tensor, top_k: int) -> Tensor:
    """The logits, minus infinity where they are below the top_k-th largest."""
    least_B1 = logits_BV.topk(min(top_k, logits_BV.shape[1])).values[:, -1:]
    return logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)


def nucleus(logits_BV: Tensor, top_p: float) -> Tensor:
    """The logits, minus infinity outside the smallest set of likeliest tokens whose probabilities reach top_p."""
    ascending_BV, index_BV = logits_BV.sort(-1)
    outside_BV = ascending_BV.softmax(-1).cumsum(-1) <= 1 - top_p
    outside_BV[:, -1] = False
    return logits_BV.masked_fill(outside_BV.scatter(1, index_BV, outside_BV), -torch.inf)


def left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask [B, longest], every prompt flush right; the id under the padding is 0 and never seen."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return ids, mask


def uniform_draws(requests: Sequence[Request], limits: Sequence[int]) -> Tensor:
    """One uniform a token, [B, longest limit], each row from its own seed; drawn on CPU, the same on every device.

    torch's CPU generator heeds the low 32 bits of a seed.
    """
    rows = torch.zeros(len(requests), max(limits), dtype=torch.float64)
    for row, request, limit in zip(rows, requests, limits):
        generator = torch.Generator().manual_seed(request.seed)
        row[:limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    return rows


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Dropout off inside the block; the mode that the model had returns after it."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)

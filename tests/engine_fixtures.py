"""A small random policy, and what its own forward pass says about an engine's tokens."""

from __future__ import annotations

import string

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from edge_lightning.policy import PACKED, Policy
from edge_lightning.seeds import counter_seed
from edge_lightning.types import Problem, Request

EOS = 1
PROMPTS = (
    "What is 1+1?",
    "7*8=",
    "Solve x",
    "A rather long prompt, so that one cache block of 32 tokens is full: 12-5?",
)


def tiny_policy(*, tied: bool = True, seed: int = 0) -> Policy:
    """A Qwen2 of 2 layers over characters; about one token in twenty ends a response."""
    vocabulary = {"<pad>": 0, "<eos>": EOS} | {c: i + 2 for i, c in enumerate(string.printable)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,  # heads of 32: vLLM on CPU has none of 16
        num_key_value_heads=1,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        eos_token_id=EOS,
        pad_token_id=0,
        bos_token_id=None,
        initializer_range=0.15,
        attn_implementation=PACKED,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    return Policy(model, PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>"))


def perturb(policy: Policy, *, scale: float = 0.03, seed: int = 1) -> None:
    """Move every weight, as an optimizer step would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)


def requests_of(policy: Policy, *, each: int = 1, max_tokens: int = 24, run_seed: int = 0) -> list[Request]:
    """`each` requests for every prompt, with seeds of their own."""
    return [
        Request(Problem(f"p{p}", prompt, ("2",)), policy.encode(prompt), max_tokens, counter_seed(run_seed, f"p{p}", index))
        for p, prompt in enumerate(PROMPTS)
        for index in range(each)
    ]


@torch.no_grad()
def response_logits(policy: Policy, request: Request, token_ids) -> torch.Tensor:
    """Logits [tokens, V] that the policy gives where each response token was drawn: one pass, no cache."""
    ids = [*request.prompt_ids, *token_ids]
    return policy.model(torch.tensor([ids])).logits[0, len(request.prompt_ids) - 1 : -1]


def policy_logprobs(policy: Policy, request: Request, token_ids, *, temperature: float) -> list[float]:
    """log_softmax(logits / T) of each response token."""
    logprobs = (response_logits(policy, request, token_ids) / temperature).log_softmax(-1)
    return logprobs[torch.arange(len(token_ids)), torch.tensor(token_ids)].tolist()


@torch.no_grad()
def greedy_ids(policy: Policy, request: Request) -> tuple[int, ...]:
    """The likeliest continuation, one whole forward pass a token."""
    ids = list(request.prompt_ids)
    while len(ids) < len(request.prompt_ids) + request.max_tokens and ids[-1] != EOS:
        ids.append(int(policy.model(torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[len(request.prompt_ids) :])


def largest_gap(policy: Policy, requests, generations, *, temperature: float) -> float:
    """The largest distance between engine and policy log-probabilities, nats."""
    return max(
        abs(engine - own)
        for request, generation in zip(requests, generations)
        for engine, own in zip(
            generation.logprobs,
            policy_logprobs(policy, request, generation.token_ids, temperature=temperature),
            strict=True,
        )
    )


def nucleus_logprobs(
    policy: Policy, request: Request, token_ids, *, top_p: float = 1.0, top_k: int | None = None, temperature: float = 1.0
) -> list[float]:
    """log(p / sum of the nucleus), the nucleus grown from the likeliest token until it has a share of top_p of the top_k."""
    values = []
    logits = response_logits(policy, request, token_ids) / temperature
    for probabilities, token in zip(logits.softmax(-1).tolist(), token_ids):
        mass, members = 0.0, set()
        ranked = sorted(range(len(probabilities)), key=lambda v: -probabilities[v])[:top_k]
        whole = sum(probabilities[v] for v in ranked)
        for member in ranked:
            mass += probabilities[member]
            members.add(member)
            if top_p < 1 and mass / whole >= top_p:
                break
        assert token in members
        values.append(torch.tensor(probabilities[token] / mass).log().item())
    return values

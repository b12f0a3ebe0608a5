"""A policy small enough to train on a laptop's CPU, and its tokenizer: made here, downloaded from nowhere.

The architecture is Llama's: with `model_type: qwen2`, AutoTokenizer of transformers 5 puts Qwen's own pre-tokenizer in
the place of the saved one, whatever tokenizer_config.json says, and splits numbers into digits. A folder of type llama
gives back the tokenizer that was saved. The two differ by the biases of Qwen's query, key and value, zero at first.
Left out: training; what is saved knows nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from edge_lightning.data.arithmetic import CUE, draw_chain
from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_seed

_PAD, _START, _END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_CHAT = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_ANSWER = "\nWait! Something is wrong here. After verification, the correct answer is \\boxed{%s}."


def build_tiny_policy(
    folder: str | Path,
    *,
    seed: int,
    hidden_size: int = 128,
    layers: int = 3,
    heads: int = 4,
    kv_heads: int = 2,
    intermediate_size: int = 384,
    initializer_range: float = 0.08,
    max_positions: int = 512,
) -> None:
    """Save an untrained float32 policy and its tokenizer as a transformers folder.

    The tokenizer is the same for every seed. Input and output embeddings are tied; the vocabulary is padded to a
    multiple of 16 with ids that no text has. torch's global generators are left as they were.

    Args:
        initializer_range: standard deviation of the weights; the usual 0.02 learns far slower at this size.

    Raises:
        UserError: the sizes do not fit each other.
    """
    if hidden_size % (2 * heads) or heads % kv_heads:
        raise UserError(
            f"tiny policy of hidden_size={hidden_size}, heads={heads}, kv_heads={kv_heads}: hidden_size a multiple of "
            "2 * heads and heads a multiple of kv_heads expected; change one of them"
        )
    tokenizer = build_tiny_tokenizer(max_positions)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 16) * 16,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate_size,
        initializer_range=initializer_range,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        dtype=torch.float32,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(counter_seed(seed, "tiny policy"))  # torch.manual_seed would touch GPUs too
        policy = LlamaForCausalLM(config).float()
    policy.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    policy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def build_tiny_tokenizer(max_positions: int = 512) -> PreTrainedTokenizerFast:
    """Byte-level BPE over the texts of chain arithmetic: any text has ids, and 0..30 are one token each.

    Conversations are ChatML; a turn ends with <|im_end|>, the end-of-sequence token; padding has a token of its own.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=432,
        special_tokens=[_PAD, _START, _END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        eos_token=_END,
        chat_template=_CHAT,
        model_max_length=max_positions,
    )


def _corpus() -> Iterator[str]:
    rng = random.Random(counter_seed("tiny tokenizer"))
    for number in range(3000):
        chain = draw_chain(rng, 1 + number % 5)
        yield from ("user\n", "assistant\n", chain.text, chain.solution, CUE, _ANSWER % chain.answer)

"""How much memory an engine's key-value cache needs, and what is said of one that is too small."""

from __future__ import annotations

import torch

MOST_BYTES = 4 * 2**30  # beyond it requests wait for one another


def kv_cache_bytes(config, *, sequences: int, max_model_len: int, block_size: int, dtype: str) -> int:
    """Bytes for `sequences` responses of full length at once, whole blocks and one spare each; at most 4 GiB.

        layers x 2 (keys and values) x key-value heads x head size x bytes of the dtype, for each token

    A single sequence always fits.

    Args:
        config: of the transformers model.
    """
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    token_bytes = text.num_hidden_layers * 2 * heads * size * getattr(torch, dtype).itemsize
    sequence_bytes = (-(-max_model_len // block_size) + 1) * block_size * token_bytes
    return max(sequence_bytes, min(sequences * sequence_bytes, MOST_BYTES))


def refusal(error: ValueError, max_model_len: int, memory: dict[str, float]) -> str:
    """One line for what vLLM refuses when it is built, with the key to change where its cache is too small.

    Args:
        memory: what it was given of it; its own advice names keys that our configuration has not.
    """
    reason = " ".join(str(error).split(" [type=")[0].split())  # without pydantic's dump of the input
    line = f"vLLM refuses engine.max_model_len={max_model_len} with {memory}: {reason}"
    if "KV cache" not in reason:
        return line
    key = "gpu_memory_utilization" if "gpu_memory_utilization" in memory else "kv_cache_gib"
    return f"{line.split(' Try increasing')[0].rstrip('.')}; raise engine.{key}, or lower rollout.response_limit"

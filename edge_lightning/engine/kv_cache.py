"""How much memory an engine's key-value cache needs."""

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

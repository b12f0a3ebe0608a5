"""The memory of a key-value cache, by hand, and what is said of too little."""

from types import SimpleNamespace

import pytest

from edge_lightning.engine.kv_cache import MOST_BYTES, kv_cache_bytes, refusal


def config(**changes):
    shape = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 128} | changes
    made = SimpleNamespace(**shape)
    made.get_text_config = lambda: made
    return made


def test_the_tiny_policys_cache_by_hand():
    # a token: 3 layers x 2 x 2 heads x 32 x 4 bytes = 1536; 192 tokens take 2 blocks of 128, and one is spare
    assert kv_cache_bytes(config(), sequences=64, max_model_len=192, block_size=128, dtype="float32") == 64 * 3 * 128 * 1536
    assert kv_cache_bytes(config(), sequences=64, max_model_len=128, block_size=32, dtype="bfloat16") == 64 * 5 * 32 * 768


def test_the_cache_has_an_end_but_one_sequence_always_fits():
    big = config(num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4, hidden_size=3584)
    assert kv_cache_bytes(big, sequences=1000, max_model_len=2000, block_size=128, dtype="bfloat16") == MOST_BYTES
    one = kv_cache_bytes(big, sequences=1, max_model_len=100_000, block_size=128, dtype="float32")
    assert one == 783 * 128 * 28 * 2 * 4 * 128 * 4 > MOST_BYTES


def test_a_model_may_name_its_head_size_and_have_as_many_key_as_query_heads():
    odd = config(num_key_value_heads=None, head_dim=64)
    assert (
        kv_cache_bytes(odd, sequences=1, max_model_len=128, block_size=128, dtype="float32") == 2 * 128 * 3 * 2 * 4 * 64 * 4
    )


SMALL = (
    "To serve at least one request with the model's max seq len (201), (0.0 GiB KV cache is needed. the estimated maximum "
    "model length is 32. Try increasing `gpu_memory_utilization` (which also controls CPU memory)."
)


@pytest.mark.parametrize(
    ("said", "memory", "ends"),
    [
        (SMALL, {"kv_cache_memory_bytes": 99}, "length is 32; raise engine.kv_cache_gib, or lower rollout.response_limit"),
        (
            SMALL,
            {"gpu_memory_utilization": 0.1},
            "is 32; raise engine.gpu_memory_utilization, or lower rollout.response_limit",
        ),
        (
            "No supported\narchitecture [type=value_error, input=...]",
            {"kv_cache_memory_bytes": 99},
            "No supported architecture",
        ),
    ],
)
def test_a_cache_that_is_too_small_names_the_key_of_ours(said, memory, ends):
    line = refusal(ValueError(said), 201, memory)
    assert line.startswith(f"vLLM refuses engine.max_model_len=201 with {memory}: ")
    assert line.endswith(ends)
    assert "Try increasing" not in line

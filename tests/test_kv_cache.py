from types import SimpleNamespace

from edge_lightning.engine.kv_cache import MOST_BYTES, kv_cache_bytes


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

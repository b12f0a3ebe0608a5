"""Entropies at padding against one padded batch, as EDGE-GRPO's released code makes it."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from edge_lightning.packing import pack
from edge_lightning.policy import PACKED, Policy
from edge_lightning.scoring import response_index, score
from tests.by_hand import response

PROMPT = (7, 8, 9)
GROUP = [
    response((11, 12), prompt_ids=PROMPT),
    response((13, 14, 15, 16, 17), prompt_ids=PROMPT),
    response((18,), prompt_ids=PROMPT),
]
LONGEST = 5


def policy(tokenizer, attention):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=416, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.3,
        attn_implementation=attention, eos_token_id=2,
    )  # fmt: skip
    return Policy(LlamaForCausalLM(config), tokenizer, temperature=0.6)


def padded_mean_entropy(padded_policy, pad_id):
    """P_i over all positions of a right-padded batch of one problem, from the whole matrix of logits."""
    rows = [r.completion_ids + (pad_id,) * (LONGEST - len(r.completion_ids)) for r in GROUP]
    ids = torch.tensor([PROMPT + row for row in rows])
    mask = torch.tensor([[1] * (3 + len(r.completion_ids)) + [0] * (LONGEST - len(r.completion_ids)) for r in GROUP])
    logits = padded_policy.model(input_ids=ids, attention_mask=mask).logits[:, :-1][:, -LONGEST:] / 0.6
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1).mean(1)


def packed_mean_entropy(packed_policy, order):
    forward = packed_policy(pack(GROUP, order), padded_to=LONGEST)
    sums = torch.zeros(3).index_add(0, forward.response_N, forward.entropies_N)
    return (sums + forward.padding_entropy_B) / LONGEST


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 1, 0]])
def test_sum_over_response_and_padding_is_the_padded_batchs_mean(tiny_policy, order):
    packed, padded = (policy(tiny_policy.tokenizer, attention) for attention in (PACKED, "eager"))
    expected = padded_mean_entropy(padded, tiny_policy.tokenizer.pad_token_id)
    torch.testing.assert_close(packed_mean_entropy(packed, order), expected, atol=2e-5, rtol=1e-5)


def test_gradient_goes_through_the_padding_too(tiny_policy):
    packed, padded = (policy(tiny_policy.tokenizer, attention) for attention in (PACKED, "eager"))
    weights = torch.tensor([1.0, -2.0, 3.0])
    (weights * packed_mean_entropy(packed, [1, 0, 2])).sum().backward()
    (weights * padded_mean_entropy(padded, tiny_policy.tokenizer.pad_token_id)).sum().backward()
    for (name, ours), theirs in zip(packed.model.named_parameters(), padded.model.parameters()):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=2e-5, rtol=1e-3, msg=name)


def test_scoring_lays_the_sums_out_by_response(tiny_policy):
    packed = policy(tiny_policy.tokenizer, PACKED)
    batches = [pack(GROUP, [1, 2]), pack(GROUP, [0])]
    found = score(packed, batches, response_index(GROUP), padded_to=LONGEST)
    whole = packed(pack(GROUP, [0, 1, 2]), padded_to=LONGEST).padding_entropy_B
    torch.testing.assert_close(found.padding_entropy_B, whole, atol=1e-5, rtol=1e-5)
    assert (found.padding_entropy_B > 0).tolist() == [True, False, True]
    assert score(packed, batches, response_index(GROUP)).padding_entropy_B is None


def test_a_response_alone_on_its_rank_has_no_padding(tiny_policy):
    """The published runs have one response a rank, so that nothing is padded there."""
    for one in GROUP:
        found = tiny_policy(pack([one], [0]), padded_to=len(one.completion_ids))
        assert found.padding_entropy_B.tolist() == [0.0]

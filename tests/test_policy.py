"""The packed pass against transformers' own padded one."""

import random
import shutil

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from edge_lightning.attention import PACKED
from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.errors import UserError
from edge_lightning.packing import pack
from edge_lightning.policy import Policy, end_of_sequence_ids, refuse_unsupported
from edge_lightning.scoring import response_index, score
from tests.by_hand import response
from tests.credit_steps import scored


def responses(count=6, vocabulary=400):
    rng = random.Random(0)

    def ids(low, high):
        return tuple(rng.randrange(3, vocabulary) for _ in range(rng.randint(low, high)))

    return [response(ids(1, 30), prompt_ids=ids(1, 20), index=i) for i in range(count)]


@torch.no_grad()
def padded(policy, group):
    """entropies_N and logprobs_N from one right-padded batch with an attention mask, at the policy's temperature."""
    rows = [r.prompt_ids + r.completion_ids for r in group]
    width = max(map(len, rows))
    ids = torch.tensor([row + (0,) * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    log_p = (policy.model(input_ids=ids, attention_mask=mask).logits / policy.temperature).log_softmax(-1)
    entropies, logprobs = [], []
    for i, r in enumerate(group):
        start = len(r.prompt_ids) - 1
        at = log_p[i, start : start + len(r.completion_ids)]
        entropies.append(-(at.exp() * at).sum(-1))
        logprobs.append(at.gather(-1, torch.tensor(r.completion_ids)[:, None])[:, 0])
    return torch.cat(entropies), torch.cat(logprobs)


def test_packed_row_equals_padded_batch(tiny_policy):
    group = responses()
    forward = tiny_policy(pack(group, range(len(group))))
    entropies, logprobs = padded(tiny_policy, group)
    torch.testing.assert_close(forward.entropies_N, entropies, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(forward.logprobs_N, logprobs, atol=2e-5, rtol=1e-4)
    assert forward.response_N.tolist() == response_index(group).tolist()


def test_another_architecture_and_temperature_equal_too(tiny_policy):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=416, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.3,
        attn_implementation=PACKED, eos_token_id=2,
    )  # fmt: skip
    policy = Policy(LlamaForCausalLM(config), tiny_policy.tokenizer, temperature=0.6)
    group = responses()
    forward = policy(pack(group, range(len(group))))
    entropies, logprobs = padded(policy, group)
    torch.testing.assert_close(forward.entropies_N, entropies, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(forward.logprobs_N, logprobs, atol=2e-5, rtol=1e-4)


def test_eda_is_the_same_padded_packed_and_one_by_one(tiny_policy):
    group = responses()
    response_N = response_index(group)
    advantages = torch.linspace(-1, 1, len(group))
    packed = score(tiny_policy, [pack(group, range(len(group)))], response_N)
    single = score(tiny_policy, [pack(group, [i]) for i in (3, 0, 5, 1, 4, 2)], response_N)
    layouts = [padded(tiny_policy, group)[0], packed.entropies_N, single.entropies_N]
    phats = []
    for entropies in layouts:
        step = scored(advantages, entropies, response_N)
        phats.append(EntropyDrivenAdvantage().prepare(step).relative_entropy_B)
    assert phats[0].std() > 0.01  # or equality would say little
    torch.testing.assert_close(phats[1], phats[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(phats[2], phats[0], atol=1e-5, rtol=1e-5)


def test_scores_lie_in_the_order_of_the_step(tiny_policy):
    group = responses()
    response_N = response_index(group)
    batches = [pack(group, [4, 1]), pack(group, [0, 5, 3]), pack(group, [2])]
    scores = score(tiny_policy, batches, response_N)
    torch.testing.assert_close(scores.logprobs_N, padded(tiny_policy, group)[1], atol=2e-5, rtol=1e-4)


def test_every_end_of_sequence_that_the_model_names_counts(tiny_policy):
    class Model:
        generation_config = type("G", (), {"eos_token_id": [7, tiny_policy.tokenizer.eos_token_id, 9]})

    assert end_of_sequence_ids(Model, tiny_policy.tokenizer) == (tiny_policy.tokenizer.eos_token_id, 7, 9)


def test_an_empty_response_is_refused():
    with pytest.raises(ValueError, match="at least one token each expected, 2 and 0 came"):
        pack([response(())], [0])


def test_models_that_the_packed_pass_would_get_wrong_are_refused(tiny_policy):
    config = tiny_policy.model.config
    sliding = type(config)(**{**config.to_dict(), "layer_types": ["full_attention", "sliding_attention", "full_attention"]})
    with pytest.raises(UserError, match="full attention in every layer expected"):
        refuse_unsupported(sliding, "somewhere")
    capped = type(config)(**config.to_dict())
    capped.final_logit_softcapping = 30.0
    with pytest.raises(UserError, match="final_logit_softcapping=30.0 is not supported"):
        refuse_unsupported(capped, "somewhere")


def test_a_folder_without_a_model_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="a transformers folder or hub id expected") as caught:
        Policy.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
def test_damaged_weights_are_one_line_that_names_them(tmp_path, asset, keep):
    folder = shutil.copytree(asset, tmp_path / "model")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError) as caught:
        Policy.load(folder)
    assert str(caught.value).startswith(f"{path}: whole safetensors expected, they are damaged (")
    assert str(caught.value).endswith("; put whole ones back, or choose another model")
    assert "\n" not in str(caught.value)


def test_a_checksum_tells_policies_apart_by_one_update_and_knows_them_again(asset):
    one, other = Policy.load(asset), Policy.load(asset)
    assert one.checksum() == other.checksum()
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1e-6)
    assert one.checksum() != other.checksum()

"""The tiny policy and its tokenizer."""

import json
import random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from edge_lightning.data.arithmetic import CUE, draw_chain
from edge_lightning.errors import UserError
from edge_lightning.tiny import build_tiny_policy, build_tiny_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    build_tiny_policy(folder, seed=0)
    return folder


def test_auto_tokenizer_gives_the_ids_of_the_tokenizer_that_was_built(folder):
    built, loaded = build_tiny_tokenizer(), AutoTokenizer.from_pretrained(folder)
    rng = random.Random(0)
    for length in range(1, 8):
        chain = draw_chain(rng, length)
        turns = f"<|im_start|>user\n{chain.text}<|im_end|>\n<|im_start|>assistant\n{chain.solution}"
        text = f"{turns}{CUE} Ünïcode 1234, \n\n don't"
        assert loaded(text)["input_ids"] == built(text)["input_ids"]
        assert loaded.decode(loaded(text)["input_ids"]) == text
    assert loaded.chat_template == built.chat_template


def test_the_numbers_of_a_chain_are_single_tokens(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert all(len(tokenizer(f"{number}")["input_ids"]) == 1 for number in range(31))
    assert all(len(tokenizer(f" {number}")["input_ids"]) == 1 for number in range(31))


def test_end_and_padding_are_different_tokens_and_in_the_configuration(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|endoftext|>", "<|im_end|>")
    assert (config["pad_token_id"], config["eos_token_id"]) == (0, 2)
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == 2


def test_the_vocabulary_is_padded_to_a_multiple_of_16(folder):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert 400 <= len(tokenizer) <= 432
    assert len(tokenizer) <= model.config.vocab_size < len(tokenizer) + 16
    assert model.config.vocab_size % 16 == 0


def test_the_policy_is_small_float32_and_tied(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    # Embedding 416 * 128; a layer: q and o 128 * 128, k and v 128 * 64, three of 128 * 384, two norms; a last norm.
    assert model.num_parameters() == 416 * 128 + 3 * (2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 384 + 2 * 128) + 128
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert model.model.layers[0].mlp.up_proj.weight.std().item() == pytest.approx(0.08, rel=0.03)


def test_the_seed_decides_the_weights_and_nothing_else_does(folder, tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    build_tiny_policy(tmp_path / "same", seed=0)
    build_tiny_policy(tmp_path / "other", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    for name, equal in [("same", True), ("other", False)]:
        weights = (tmp_path / name / "model.safetensors").read_bytes()
        assert (weights == (folder / "model.safetensors").read_bytes()) == equal
        assert (tmp_path / name / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


def test_sizes_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(UserError, match="heads=3, kv_heads=2"):
        build_tiny_policy(tmp_path, seed=0, heads=3)

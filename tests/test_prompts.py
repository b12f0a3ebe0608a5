"""Prompts as token ids."""

import pytest

from edge_lightning.errors import UserError
from edge_lightning.prompts import ChatPrompt, PlainPrompt
from edge_lightning.tiny import build_tiny_tokenizer
from edge_lightning.types import Problem

PROBLEM = Problem("p", "Start with 8. Add 3. What is the result?", ("11",))
CORRECTION = Problem("p", PROBLEM.text, ("11",), prefix="8 + 3 = 12. Wait! Something is wrong here.")


@pytest.fixture(scope="module")
def tokenizer():
    return build_tiny_tokenizer()


@pytest.fixture
def tokenizer_with_bos():
    from tokenizers.processors import TemplateProcessing

    built = build_tiny_tokenizer()
    built.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    built.chat_template = "<|endoftext|>" + built.chat_template
    return built


def test_a_chat_prompt_opens_the_assistants_turn(tokenizer):
    ids = ChatPrompt()(PROBLEM, tokenizer)
    assert all(type(each) is int for each in ids)
    assert isinstance(ids, tuple)
    assert tokenizer.decode(ids) == f"<|im_start|>user\n{PROBLEM.text}<|im_end|>\n<|im_start|>assistant\n"
    assert (ids[0], ids.count(tokenizer.eos_token_id)) == (1, 1)


def test_a_users_message_has_the_problem_in_its_place(tokenizer):
    ids = ChatPrompt(user="{problem}\nBox it.")(PROBLEM, tokenizer)
    assert tokenizer.decode(ids) == f"<|im_start|>user\n{PROBLEM.text}\nBox it.<|im_end|>\n<|im_start|>assistant\n"
    with pytest.raises(UserError, match=r"prompt.user='Box it.': \{problem\} expected somewhere in it"):
        ChatPrompt(user="Box it.")


def test_a_system_message_comes_first(tokenizer):
    ids = ChatPrompt(system="Box it.")(PROBLEM, tokenizer)
    assert tokenizer.decode(ids).startswith("<|im_start|>system\nBox it.<|im_end|>\n<|im_start|>user\n")


def test_a_plain_prompt_is_the_template_with_the_problem(tokenizer):
    assert tokenizer.decode(PlainPrompt()(PROBLEM, tokenizer)) == PROBLEM.text + "\n"
    assert tokenizer.decode(PlainPrompt("Q: {problem}\nA{0}:")(PROBLEM, tokenizer)) == f"Q: {PROBLEM.text}\nA{{0}}:"


@pytest.mark.parametrize("prompt", [ChatPrompt(), PlainPrompt()])
def test_a_prefix_is_tokenised_by_itself(tokenizer_with_bos, prompt):
    ids = prompt(CORRECTION, tokenizer_with_bos)
    before = prompt(PROBLEM, tokenizer_with_bos)
    assert ids[: len(before)] == before
    assert tokenizer_with_bos.decode(ids[len(before) :]) == CORRECTION.prefix
    assert ids.count(0) == 1


@pytest.mark.parametrize("prompt", [ChatPrompt(), PlainPrompt()])
def test_bos_stands_once_and_first(tokenizer_with_bos, prompt):
    ids = prompt(PROBLEM, tokenizer_with_bos)
    assert (ids[0], ids.count(0)) == (0, 1)


def test_a_tokenizer_without_chat_template_is_refused():
    tokenizer = build_tiny_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(UserError, match="has no chat template; set prompt=plain"):
        ChatPrompt()(PROBLEM, tokenizer)


def test_a_template_that_refuses_a_system_message_is_named():
    tokenizer = build_tiny_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('no system here') }}"
    with pytest.raises(UserError, match=r"refused prompt.system='S' \(no system here\)"):
        ChatPrompt(system="S")(PROBLEM, tokenizer)


def test_a_plain_template_needs_a_place_for_the_problem():
    with pytest.raises(UserError, match=r"\{problem\} expected somewhere"):
        PlainPrompt("{question}")

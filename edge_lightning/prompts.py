"""From a problem to the token ids the policy goes on from.

Text of the data stays text: where a problem spells a special token (`<|im_end|>`), its letters are encoded and not the
token, which would end the user's turn. Templates and system messages are the configuration's and may have special tokens.

Left out: examples inside the prompt, conversations of several turns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from jinja2 import TemplateError

from edge_lightning.errors import UserError
from edge_lightning.types import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_PLACE = "\ue000"  # of the private use area: no template has it


class Prompt(Protocol):
    """The text around a problem."""

    def __call__(self, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
        """The ids that the policy goes on from."""


class ChatPrompt:
    """The problem as a user's message in the tokenizer's own chat template, the assistant's turn opened.

    Args:
        system: a system message; None leaves it to the template, some of which put in one of their own.
        user: the user's message, with the problem in the place of {problem}.
    Raises:
        UserError: the user's message has no place for the problem.
    """

    def __init__(self, system: str | None = None, user: str = "{problem}"):
        self.system = system
        self.user = _with_a_place("prompt.user", user)

    def __call__(self, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
        """The ids of the prompt and of `problem.prefix`.

        Raises:
            UserError: the tokenizer has no chat template, or its template refuses the messages.
        """
        if not tokenizer.chat_template:
            raise UserError(f"tokenizer of {tokenizer.name_or_path!r} has no chat template; set prompt=plain")
        hostile = spells_control(problem.text, tokenizer)
        content = self.user.replace("{problem}", _PLACE if hostile else problem.text)
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        messages = [*system, {"role": "user", "content": content}]
        try:
            text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        except TemplateError as error:
            raise UserError(
                f"chat template of {tokenizer.name_or_path!r} refused prompt.system={self.system!r} ({error}); "
                "set it to null"
            ) from None
        # The template writes the special tokens itself, a first BOS among them.
        ids = _around(text, problem, tokenizer) if hostile else _ids(text, tokenizer)
        return ids + plain_ids(problem.prefix, tokenizer)


class PlainPrompt:
    """The problem in a text of its own, for policies that were never taught a chat template.

    The tokenizer puts its usual special tokens around the text (a BOS where it has one).

    Raises:
        UserError: the template has no place for the problem.
    """

    def __init__(self, template: str = "{problem}\n"):
        self.template = _with_a_place("prompt.template", template)

    def __call__(self, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
        """The ids of the prompt and of `problem.prefix`."""
        if spells_control(problem.text, tokenizer):
            usual = tuple(tokenizer("")["input_ids"])
            ids = usual + _around(self.template.replace("{problem}", _PLACE), problem, tokenizer)
        else:
            ids = tuple(tokenizer(self.template.replace("{problem}", problem.text))["input_ids"])
        return ids + plain_ids(problem.prefix, tokenizer)


def spells_control(text: str, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a special token of the tokenizer is spelled in a text."""
    return any(control in text for control in _control_texts(tokenizer))


@lru_cache(maxsize=4)
def _control_texts(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    added = (token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
    return tuple(text for text in dict.fromkeys((*tokenizer.all_special_tokens, *added)) if text)


def plain_ids(text: str, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids of a text by itself; what spells a special token in it is encoded letter by letter. None for an empty text."""
    if not text:
        return ()
    split = {"split_special_tokens": True} if spells_control(text, tokenizer) else {}  # which changes the tokenizer's state
    return tuple(tokenizer(text, add_special_tokens=False, **split)["input_ids"])


def _around(text: str, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids of the configuration's text with the problem's own, as plain ones, in its place."""
    parts = text.split(_PLACE)
    if len(parts) != 2:
        raise UserError(
            f"problem {problem.id!r} spells a special token, and the prompt has {len(parts) - 1} places for it, 1 expected; "
            "take the problem out, or change the prompt"
        )
    return _ids(parts[0], tokenizer) + plain_ids(problem.text, tokenizer) + _ids(parts[1], tokenizer)


def _with_a_place(key: str, text: str) -> str:
    """The text, if {problem} stands in it."""
    if "{problem}" not in text:
        raise UserError(f"{key}={text!r}: {{problem}} expected somewhere in it; put it where the problem goes")
    return text


def _ids(text: str, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids of the text by itself; none for an empty text."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

"""From a problem to the token ids the policy goes on from.

Left out: examples inside the prompt, conversations of several turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jinja2 import TemplateError

from edge_lightning.errors import UserError
from edge_lightning.types import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        messages = [*system, {"role": "user", "content": self.user.replace("{problem}", problem.text)}]
        try:
            text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        except TemplateError as error:
            raise UserError(
                f"chat template of {tokenizer.name_or_path!r} refused prompt.system={self.system!r} ({error}); "
                "set it to null"
            ) from None
        # The template writes the special tokens itself, a first BOS among them.
        return _ids(text, tokenizer) + _ids(problem.prefix, tokenizer)


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
        text = self.template.replace("{problem}", problem.text)
        return tuple(tokenizer(text)["input_ids"]) + _ids(problem.prefix, tokenizer)


def _with_a_place(key: str, text: str) -> str:
    """The text, if {problem} stands in it."""
    if "{problem}" not in text:
        raise UserError(f"{key}={text!r}: {{problem}} expected somewhere in it; put it where the problem goes")
    return text


def _ids(text: str, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids of the text by itself; none for an empty text."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

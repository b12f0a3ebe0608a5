"""Tokens as text: each with what it adds to the response, or merged to words, each with the entropy of its first token."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence, Set
from itertools import accumulate

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from edge_lightning.errors import UserError

# A LaTeX command, letters with what joins them, a number, any other character.
WORD = re.compile(r"\\[A-Za-z]+|[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+(?:[.,]\d+)*|[^\w\s]|_")


def special_ids(tokenizer) -> set[int]:
    """Ids of tokens that are no text: those that the tokenizer has a use for, and all others that were added as special."""
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids, *(token_id for token_id, token in added if token.special)}


def pieces(tokenizer, ids: Sequence[int]) -> list[tuple[str, int]]:
    """The texts that the tokens of a response add to it, each with the place of its first token.

    A character that several tokens make is one text of theirs; special tokens have none. Put together they are the response.

    Raises:
        UserError: the tokenizer is none of the tokenizers library.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"tokenizer {type(tokenizer).__name__}: one of the tokenizers library (tokenizer.json) expected, since words "
            "are found token by token; convert it"
        )
    return text_pieces(backend, special_ids(tokenizer), ids)


def text_pieces(backend: Tokenizer, special: Set[int], ids: Sequence[int]) -> list[tuple[str, int]]:
    """The same with a tokenizer of the tokenizers library and the ids that are no text."""
    stream, found, first = DecodeStream(skip_special_tokens=True), [], 0
    for place, token in enumerate(ids):
        text = stream.step(backend, token)
        if text:
            found.append((text, first))
        if text or token in special:
            first = place + 1
    return found


def words(parts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The words of the texts put together, each with the place of the token that its first character stands in.

    Args:
        parts: of `pieces`.
    """
    ends = list(accumulate(len(text) for text, _ in parts))
    text = "".join(text for text, _ in parts)
    return [(match[0], parts[bisect_right(ends, match.start())][1]) for match in WORD.finditer(text)]

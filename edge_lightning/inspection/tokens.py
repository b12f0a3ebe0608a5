"""A response as pieces of text, each with who wrote it and what the policy thought of it.

Left out: which tokens an objective trains on; the record has every response's advantages before the objective's masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from edge_lightning.analysis.words import text_pieces

SAMPLED, WRONG_PREFIX, INJECTED = "sampled", "wrong_prefix", "injected"  # origins, as in training/parts.py


@dataclass(frozen=True)
class Piece:
    """One token as text, or the several that only together make a character.

    Attributes:
        origin: `injected` (correction put it in), `wrong_prefix` (sampled, in front of an injected part), or `sampled`.
        special: it is no text: an end of sequence, for example.
        entropy: mean over its tokens, nats; None where no pass scored the response.
        logprob: sum over its tokens of the policy's log-probability, nats; None likewise.
        advantage: of its tokens after credit, their mean.
    """

    text: str
    origin: str
    special: bool
    entropy: float | None
    logprob: float | None
    advantage: float


class Reader:
    """Turns ids into pieces with the tokenizer that the run has left; without one a response is a single piece.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path):
        path = folder / "policy" / "tokenizer.json"
        self.tokenizer = Tokenizer.from_file(str(path)) if path.exists() else None
        added = self.tokenizer.get_added_tokens_decoder() if self.tokenizer else {}
        self.special = {token_id for token_id, token in added.items() if token.special}

    def prompt(self, row: dict) -> str:
        """The prompt without special tokens; empty where it can't be told."""
        return "" if self.tokenizer is None else self.tokenizer.decode(row["prompt_ids"], skip_special_tokens=True).strip()

    def pieces(self, row: dict) -> list[Piece]:
        """The pieces of a row of the record; their texts, special ones left out, are its text."""
        ids, mask = row["completion_ids"], row["sampled_mask"]
        last_injected = max((place for place, sampled in enumerate(mask) if not sampled), default=-1)
        found = []
        for text, first, end, special in self._cut(row["text"], ids):
            origin = INJECTED if not mask[first] else WRONG_PREFIX if first < last_injected else SAMPLED
            here = slice(first, end)
            entropy, logprob = _mean(row["token_entropies"], here), _sum(row["old_logprobs"], here)
            found.append(Piece(text, origin, special, entropy, logprob, _mean(row["token_advantages"], here) or 0.0))
        return found

    def _cut(self, whole: str, ids: Sequence[int]) -> list[tuple[str, int, int, bool]]:
        """Text, first token, token behind the last, and whether it is special."""
        if self.tokenizer is None:
            return [(whole, 0, len(ids), False)]
        texts = {first: text for text, first in text_pieces(self.tokenizer, self.special, ids)}
        texts |= {place: self.tokenizer.id_to_token(i) or "" for place, i in enumerate(ids) if i in self.special}
        starts = sorted(texts)
        ends = [*starts[1:], len(ids)]
        return [(texts[first], first, end, ids[first] in self.special) for first, end in zip(starts, ends)]


def _mean(values: Sequence[float | None] | None, here: slice) -> float | None:
    known = [value for value in (values or ())[here] if value is not None]
    return sum(known) / len(known) if known else None


def _sum(values: Sequence[float | None] | None, here: slice) -> float | None:
    known = [value for value in (values or ())[here] if value is not None]
    return sum(known) if known else None

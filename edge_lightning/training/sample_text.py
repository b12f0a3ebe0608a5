"""A response as Markdown that tensorboard shows: who wrote which part of it, and what became of it.

Tensorboard's own cleaner lets no colour through, so a part is marked by a coloured square.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from itertools import groupby

from edge_lightning.types import Provenance, Response

SQUARES = {
    Provenance.SAMPLED: "🟦",
    Provenance.REFLECTED: "🟨",
    Provenance.ANSWER_INJECTED: "🟧",
    Provenance.REFERENCE: "🟩",
}
LEGEND = "  ".join(f"{square} {str(name).replace('_', ' ')}" for name, square in SQUARES.items())


def as_markdown(response: Response, decode: Callable[[Sequence[int]], str]) -> str:
    """Problem, what the policy said first, and what is trained on part by part, with both grades."""
    first, now = response.sampled_grade, response.grade
    rows = [("problem", f"answer {', '.join(response.problem.answers)}", response.problem.text)]
    if response.text != response.sampled_text:
        rows.append((f"{SQUARES[Provenance.SAMPLED]} sampled", f"reward {first.reward:g}", response.sampled_text))
    rows += [(who, f"reward {now.reward:g}", text) for who, text in _parts(response, decode)]
    table = "\n".join(f"| {who} | {_cell(note)} | <code>{_cell(text)}</code> |" for who, note, text in rows)
    mark, name = SQUARES[response.provenance], str(response.provenance).replace("_", " ")
    return (
        f"{mark} **{_cell(response.problem.id)}**, response {response.index}, {name}, ended by {response.finish_reason}"
        f"\n\n| part |  | text |\n|---|---|---|\n{table}\n\n{LEGEND}"
    )


def _parts(response: Response, decode: Callable[[Sequence[int]], str]) -> list[tuple[str, str]]:
    """Who wrote it and the text, for each run of tokens of one writer."""
    parts = []
    for sampled, run in groupby(zip(response.completion_ids, response.sampled_mask), key=lambda pair: pair[1]):
        mark = SQUARES[Provenance.SAMPLED if sampled else response.provenance]
        parts.append((f"{mark} trained on, {'sampled' if sampled else 'put in'}", decode([i for i, _ in run])))
    return parts


def _cell(text: str) -> str:
    """The text as it is, whatever Markdown or HTML would make of its signs, in one line of a table."""
    escaped = re.sub(r"[^\w\s&;#]", lambda found: f"&#{ord(found[0])};", html.escape(text))
    return "<br>".join(escaped.splitlines())

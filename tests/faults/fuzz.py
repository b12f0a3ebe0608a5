"""Fuzzing of what reads strangers' text: the extractor, the reader of answers, and the loaders of tables.

    python -m tests.faults.fuzz 100000        a count of examples for each target; prints what was run

What a target may do with a text is written beside it; anything else is a finding. The suite runs a few hundred of each.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.rewards.reading import read

LATEX = st.lists(
    st.sampled_from(
        [
            *("\\boxed{", "\\boxed {", "\\fbox{", "{", "}", "\\{", "\\}", "\\\\", "\\frac", "\\dfrac12", "\\sqrt[3]{"),
            *("\\text{", "\\left(", "\\right]", "(", ")", "[", "]", ",", ";", "=", "<", "\\le", "\\pi", "\\infty", "\\%"),
            *("^", "_", "^{-1}", "1", "-2", "3.5", "1,000", "0x1f", "x", "y", "and", "or", " ", "\n", "$", "$$", "&", "~"),
            *("\\begin{pmatrix}", "\\end{pmatrix}", "\\cup", "\\mathbb{R}", "°", "½", "²", "\u2212", "\U0001d7d9", "\x00"),
        ]
    ),
    max_size=40,
).map("".join)
TEXT = st.one_of(LATEX, st.text(max_size=60))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ROW = st.fixed_dictionaries({}, optional={"problem": VALUE, "answer": VALUE, "solution": VALUE, "note": VALUE}) | VALUE
FILES = st.one_of(
    st.tuples(st.sampled_from([".json", ".jsonl", ".csv", ".tsv", ".parquet"]), st.binary(max_size=200)),
    st.tuples(st.just(".json"), st.lists(ROW, max_size=4).map(lambda rows: json.dumps(rows).encode())),
    st.tuples(st.just(".jsonl"), st.lists(ROW, max_size=4).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())),
    st.tuples(
        st.sampled_from([".csv", ".tsv"]),
        st.text(alphabet='problem,answer\t"\n\r\x00;', max_size=80).map(lambda text: f"problem,answer\n{text}".encode()),
    ),
)


def extract(text: str) -> None:
    """The box is a part of the text that stands behind a brace, and its braces pair."""
    found = last_boxed(text)
    if found is not None:
        assert f"{{{found}}}" in text
        depth = 0
        escaped = False
        for character in found:
            if escaped or character == "\\":
                escaped = not escaped
            else:
                depth += (character == "{") - (character == "}")
                assert depth >= 0, text
        assert depth == 0, text


def box(text: str) -> None:
    """An answer whose braces pair is found behind whatever else was said."""
    plain = text.replace("\\", "").replace("{", "").replace("}", "")
    assert last_boxed(f"{text} \\boxed{{{plain}}}") == plain or text.rstrip().endswith("\\")


def read_answer(text: str) -> None:
    """Tokens, or None; what the grader's process does with it is behind a limit of time and memory."""
    tokens = read(text)
    assert tokens is None or all(isinstance(token, str) and token for token in tokens)


def load(file: tuple[str, bytes]) -> None:
    """Problems with text and answers and ids of their own, or one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"set{file[0]}")
        path.write_bytes(file[1])
        try:
            table = ProblemTable(path)
        except UserError as error:
            refused = str(error)
        else:
            refused = None
    if refused is not None:
        assert "\n" not in refused
        return
    problems = table.train()
    assert problems
    assert all(isinstance(p.text, str) and p.text.strip() and p.answers and all(p.answers) for p in problems)
    assert len({p.id for p in problems}) == len(problems)


TARGETS = {"extract": (TEXT, extract), "box": (TEXT, box), "read_answer": (TEXT, read_answer), "load": (FILES, load)}


def fuzz(name: str, examples: int, *, seed: int | None = None) -> None:
    """Run a target; hypothesis shrinks what it finds."""
    from hypothesis import seed as seeded

    strategy, target = TARGETS[name]
    unlimited = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=seed is None,
    )
    test = unlimited(given(strategy)(target))
    (test if seed is None else seeded(seed)(test))()


if __name__ == "__main__":
    count = int(sys.argv[1])
    for target_name in TARGETS:
        begun = time.monotonic()
        fuzz(target_name, count, seed=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
        print(f"{target_name}: {count} examples, no finding, {time.monotonic() - begun:.0f} s", flush=True)

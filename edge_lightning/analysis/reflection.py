"""Do responses that reflect by themselves end right more often? (Table 4 of EDGE-GRPO, arXiv:2507.21848)

A response reflects if its text, lower-cased, holds one of 15 keywords. Source of the list: sail-sg/understand-r1-zero, which
the paper's released code credits. Left out: whether what follows the word reconsiders anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from edge_lightning.analysis.base import Findings, parquet
from edge_lightning.analysis.clustered import ratio, share_with_interval, sums_by_problem, with_interval
from edge_lightning.analysis.collected import Answer, Source
from edge_lightning.analysis.pictures import Dot, dots
from edge_lightning.report.tables import NOTHING, Table, interval_text

KEYWORDS = (
    *("recheck", "rethink", "reassess", "reevaluate", "re-evaluate", "reevaluation", "re-examine", "reexamine"),
    *("reconsider", "reanalyze", "double-check", "check again", "think again", "verify again", "go over the steps"),
)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("method", "model", "sampled_in")),
        ("temperature", pa.float64()),
        *((name, pa.int64()) for name in ("responses", "reflecting")),
        *(
            (f"{figure}{end}", pa.float64())
            for figure in ("accuracy_reflecting", "accuracy_others", "difference")
            for end in ("", "_low", "_high")
        ),
        ("keywords", pa.map_(pa.string(), pa.int64())),
    ]
)
FIGURES = {  # of sums of (reflects, reflects and is right, does not, does not and is right)
    "accuracy_reflecting": lambda sums: share_with_interval(sums, 1, 0),
    "accuracy_others": lambda sums: share_with_interval(sums, 3, 2),
    "difference": lambda sums: with_interval(sums, lambda s: ratio(s, 1, 0) - ratio(s, 3, 2)),
}


def keywords_in(text: str) -> list[str]:
    """The keywords that a response holds."""
    lowered = text.lower()
    return [word for word in KEYWORDS if word in lowered]


def reflection(collected: Sequence[tuple[Source, Sequence[Answer]]]) -> Findings:
    """A row for each method, model, temperature and place of sampling; accuracies with intervals over problems."""
    members: dict[tuple, list[Answer]] = defaultdict(list)
    without_text = Counter(answer.source for _, answers in collected for answer in answers if answer.text is None)
    left_out = [
        f"reflection: {count:,} responses of {place} are left out: their texts were not kept"
        for place, count in without_text.items()
    ]
    for source, answers in collected:
        for answer in (answer for answer in answers if answer.text is not None):
            key = source.label, source.model, answer.source, source.temperature(answer.source)
            members[key].append(answer)
    rows = [_row(key, answers) for key, answers in members.items()]
    if not rows:
        return Findings({}, left_out or ["reflection: there are no responses"], {"reflection": None})
    header = ("sampled by", "responses", "reflect", "right of those", "95 % interval", "of the others", "difference", "95 %")
    table = Table(header, tuple(_cells(row) for row in rows))
    notes = [
        "reflect: their text holds one of 15 keywords; right: as the policy sampled them, before any correction; intervals "
        "are over problems, and say nothing of other seeds",
        *left_out,
    ]
    if not any(row["reflecting"] for row in rows):
        notes.append("no response holds a keyword, so nothing can be told of those that would")
    drawn = {
        named: [Dot(_name(row), row[key], row[f"{key}_low"], row[f"{key}_high"]) for row in rows]
        for named, key in (("reflecting", "accuracy_reflecting"), ("others", "accuracy_others"))
    }
    picture = dots(drawn, title="Accuracy with and without reflection", x="right as sampled")
    files = {"reflection.parquet": parquet(rows, SCHEMA)} | ({"reflection.png": picture} if picture else {})
    figures = {"reflection": [{**row, "keywords": dict(row["keywords"])} for row in rows]}
    return Findings({"reflection": table}, notes, figures, files)


def _row(key: tuple, answers: Sequence[Answer]) -> dict:
    held = [keywords_in(answer.text) for answer in answers]
    reflects, right = np.array([bool(words) for words in held]), np.array([answer.right for answer in answers])
    columns = (reflects, reflects & right, ~reflects, ~reflects & right)
    sums = sums_by_problem([answer.problem_id for answer in answers], columns)
    counts = Counter(word for words in held for word in words)
    row = dict(zip(("method", "model", "sampled_in", "temperature"), key))
    row |= {"responses": len(answers), "reflecting": int(reflects.sum()), "keywords": sorted(counts.items())}
    for name, figure in FIGURES.items():
        found = figure(sums) or (None, None, None)
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), found))
    return row


def _name(row: dict) -> str:
    heat = "" if row["temperature"] is None else f", T {row['temperature']:g}"
    return f"{row['method']}, {row['model']}, {row['sampled_in']}{heat}"


def _cells(row: dict) -> tuple[str, ...]:
    def value(name: str, sign: str = "") -> str:
        return NOTHING if row[name] is None else f"{row[name]:{sign}.3f}"

    def interval(name: str) -> str:
        return NOTHING if row[name] is None else interval_text((row[f"{name}_low"], row[f"{name}_high"]))

    share = f"{row['reflecting']:,} ({100 * row['reflecting'] / row['responses']:.1f} %)"
    return (
        *(_name(row), f"{row['responses']:,}", share, value("accuracy_reflecting"), interval("accuracy_reflecting")),
        *(value("accuracy_others"), value("difference", "+"), interval("difference")),
    )

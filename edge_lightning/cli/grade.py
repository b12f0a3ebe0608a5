"""edge-lightning grade: rewards and reasons for a file of answers and responses.

A row that is none (no JSON object, no answer, no text) is named on stderr with its line, left out of the output and
counted; the rest go on. The file is read and written as a stream.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from edge_lightning.data.answers import as_text
from edge_lightning.data.sources import names_shown
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.rewards.base import Reward
from edge_lightning.rewards.boxed import last_boxed
from edge_lightning.types import Problem, Provenance, Response, Verdict
from edge_lightning.versions import GRADER_PACKAGES, versions

ADDED = ("reward", "format", "reason")
_MOST_NAMED = 20  # bad rows
_LINE_EVERY_S = 30.0  # where there is no terminal


@dataclass(frozen=True)
class Row:
    """A row that can be graded: its fields, its accepted answers, its text."""

    fields: dict
    golds: tuple[str, ...]
    text: str


@dataclass
class Totals:
    """What came of a file."""

    rows: int = 0
    reward: float = 0.0
    formatted: float = 0.0
    reasons: Counter = field(default_factory=Counter)
    bad: int = 0
    overwritten: int = 0


class BadRow(Exception):
    """Why a line can't be graded."""


def grade(cfg: DictConfig, folder: Path) -> None:
    """Grade every row of cfg.file with cfg.reward and write the rows with what was found."""
    from edge_lightning.cli.schema import check, check_call

    check_call(columns, {"answer": cfg.answer, "response": cfg.response}, "")
    check(cfg)
    columns(cfg.answer, cfg.response)
    require_at_least_one("rows_at_a_time", cfg.rows_at_a_time)
    file = Path(str(cfg.file))
    out = place_of(file, cfg.out)
    start = time.monotonic()
    reward, totals, progress = instantiate(cfg.reward), Totals(), _progress()
    aside = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with aside.open("wb") as stream:
            _grade_rows(cfg, file, reward, totals, progress, stream)
        if not totals.rows:
            raise UserError(f"{file}: at least one row that can be graded expected, none of {totals.bad} is")
        aside.replace(out)
    except KeyboardInterrupt:
        raise UserError(f"interrupted after {totals.rows} rows; nothing was written") from None
    except OSError as error:
        raise UserError(f"out={out}: a file that can be written expected; {error.strerror}") from None
    finally:
        progress.stop()
        aside.unlink(missing_ok=True)
        reward.close()
    if totals.overwritten:
        print(f"{file}: {totals.overwritten} rows had {', '.join(ADDED)} already; replaced in the output", file=sys.stderr)
    _print(totals, reward.timeouts, time.monotonic() - start, out)


def columns(answer: str, response: str) -> None:
    """Refuse columns that can't be told apart or that the output needs.

    Raises:
        UserError: names the column.
    """
    if answer == response:
        raise UserError(f"answer={answer} response={response}: two columns expected")
    for key, column in (("answer", answer), ("response", response)):
        if column in ADDED:
            raise UserError(f"{key}={column}: another column expected, since the output has a {column} of its own")


def place_of(file: Path, out: str | None) -> Path:
    """Where the graded rows go.

    Raises:
        UserError: the input can't be read or would be overwritten, or the output has no folder.
    """
    if not file.is_file():
        raise UserError(f"file={file}: a file of JSON lines expected, {'a folder' if file.is_dir() else 'nothing'} is there")
    place = Path(str(out)) if out is not None else file.with_name(f"{file.name.removesuffix('.jsonl')}.graded.jsonl")
    if place.is_dir() or not place.parent.is_dir():
        raise UserError(f"out={place}: a file in a folder that exists expected")
    if place.exists() and place.samefile(file):
        raise UserError(f"out={place}: another file than the input expected")
    return place


def _grade_rows(cfg: DictConfig, file: Path, reward: Reward, totals: Totals, progress: Progress, stream) -> None:
    try:
        total = _count_lines(file)
        source = file.open("rb")
    except OSError as error:
        raise UserError(f"file={file}: a file that can be read expected; {error.strerror}") from None
    bar = progress.add_task("rows", total=total, figures="")
    progress.start()
    told = time.monotonic()
    with source:
        numbered = enumerate(source, start=1)
        while lines := list(islice(numbered, cfg.rows_at_a_time)):
            rows = list(_rows(file, lines, cfg.answer, cfg.response, totals, progress))
            for row, values in zip(rows, graded(rows, reward), strict=True):
                totals.rows += 1
                totals.reward += values["reward"]
                totals.formatted += values["format"]
                totals.reasons[values["reason"]] += 1
                totals.overwritten += any(name in row.fields for name in ADDED)
                stream.write(_encoded({**row.fields, **values}) + b"\n")
            figures = f"matched {totals.reasons[Verdict.MATCHED.value] / max(1, totals.rows):.3f}"
            progress.update(bar, completed=lines[-1][0], figures=figures)
            if not progress.console.is_terminal and time.monotonic() - told >= _LINE_EVERY_S:
                _say(progress, f"{lines[-1][0]}/{total} rows  {figures}")
                told = time.monotonic()
    if totals.bad > _MOST_NAMED:
        _say(progress, f"{file}: {totals.bad} bad rows in all, the first {_MOST_NAMED} are named above")


def _progress() -> Progress:
    """A bar on a terminal, on stderr; elsewhere lines alone. Not that of evaluations, which loads torch."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, TextColumn("{task.fields[figures]}"), console=console, disable=not console.is_terminal)


def _say(progress: Progress, text: str) -> None:
    progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _count_lines(file: Path) -> int:
    with file.open("rb") as source:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: source.read(1 << 20), b""))


def _rows(file: Path, lines, answer: str, response: str, totals: Totals, progress: Progress) -> Iterator[Row]:
    """The rows of these (number, line) that can be graded; the others are named and counted."""
    for number, line in lines:
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not line.strip():
            continue
        try:
            yield parsed_row(line, answer, response)
        except BadRow as reason:
            totals.bad += 1
            if totals.bad <= _MOST_NAMED:
                _say(progress, f"{file}, line {number}: {reason}; left out")


def parsed_row(line: bytes, answer: str, response: str) -> Row:
    """The row of a line.

    Raises:
        BadRow: says what is missing.
    """
    try:
        fields = json.loads(line.decode("utf-8"))
        json.dumps(fields, allow_nan=False)
    except UnicodeDecodeError as error:
        raise BadRow(f"UTF-8 expected, byte {error.start} is not") from None
    except json.JSONDecodeError as error:
        raise BadRow(f"a JSON object expected; {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # NaN, integers of over 4300 digits, thousands of nested brackets
        raise BadRow(f"JSON that Python can read and write expected; {error}") from None
    if not isinstance(fields, dict):
        raise BadRow(f"a JSON object expected, {type(fields).__name__} came")
    for key, column in (("answer", answer), ("response", response)):
        if column not in fields:
            raise BadRow(f"no column {column!r}; set {key} to one of {names_shown(fields) or '(no column)'}")
    cell = fields[answer]
    golds = tuple(as_text(part) for part in (cell if isinstance(cell, list) else [cell]))
    if not golds or not all(golds):
        shown = json.dumps(cell)
        raise BadRow(f"text, a number or a list of those expected in column {answer!r}, {shown[:60]} came")
    if not isinstance(fields[response], str):
        raise BadRow(f"text expected in column {response!r}, {json.dumps(fields[response])[:60]} came")
    return Row(fields, golds, fields[response])


def graded(rows: list[Row], reward: Reward) -> list[dict]:
    """The values that each row gets: the weighted reward, whether there is a box, why."""
    verdicts = reward.judge([(row.golds, row.text) for row in rows])
    grades = reward([_response(row) for row in rows])
    return [
        {"reward": grade.reward, "format": float(last_boxed(row.text) is not None), "reason": verdict.value}
        for row, verdict, grade in zip(rows, verdicts, grades, strict=True)
    ]


def _response(row: Row) -> Response:
    return Response(
        problem=Problem(id="", text="", answers=row.golds),
        index=0,
        seed=0,
        prompt_ids=(),
        completion_ids=(),
        sampled_mask=(),
        engine_logprobs=(),
        finish_reason="stop",
        provenance=Provenance.SAMPLED,
        text=row.text,
        sampled_text=row.text,
        sampled_tokens=0,
    )


def _encoded(fields: dict) -> bytes:
    try:
        return json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can write and UTF-8 can't
        return json.dumps(fields).encode()


def _print(totals: Totals, timeouts: int, seconds: float, out: Path) -> None:
    table = Table(title=f"{totals.rows:,} rows graded", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row("share matched", f"{totals.reasons[Verdict.MATCHED.value] / totals.rows:.3f}")
    table.add_row("share with a box", f"{totals.formatted / totals.rows:.3f}")
    table.add_row("mean reward", f"{totals.reward / totals.rows:.3f}")
    table.add_section()
    for verdict in Verdict:
        table.add_row(verdict.value, f"{totals.reasons[verdict.value]:,}")
    table.add_row("bad rows, left out", f"{totals.bad:,}")
    table.add_section()
    table.add_row("time-outs", f"{timeouts:,}")
    table.add_row("seconds", f"{seconds:.1f}")
    installed = versions()
    for package in GRADER_PACKAGES:
        table.add_row(package, installed[package])
    console = Console(highlight=False)
    console.print(table)
    console.print(f"file      {escape(min(str(out), os.path.relpath(out), key=len))}", soft_wrap=True)

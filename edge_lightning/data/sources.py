"""Rows from wherever a table lies: JSON, JSONL, parquet or CSV, a `datasets.save_to_disk` folder, or the hub.

Each row comes with its place, counted from 1, and is an object with named columns; one that can't be read comes as the
reason why. Left out: tables too large to be read at once.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edge_lightning.errors import UserError
from edge_lightning.hub import look_on_disk_where_nothing_answers

Row = tuple[str, dict[str, Any] | str]  # place; the row, or why it can't be read
SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet", ".csv", ".tsv")


def rows_of(
    path: str,
    *,
    split: str | None = None,
    subset: str | None = None,
    revision: str | None = None,
    key: str = "data.problem_set.path",
) -> Iterator[Row]:
    """The rows at a path, in order.

    Args:
        path: a file (its suffix says what it is), a folder that `datasets` saved, or a hub id.
        split: of a folder with several splits, or of the hub; None: the only one, on the hub "train".
        subset, revision: of a hub data set.
        key: of the path, for messages.
    Raises:
        UserError: names what can't be read, and what to change.
    """
    place = Path(path)
    if not place.is_dir() and (place.suffix.lower() in SUFFIXES or place.is_file()):
        if split is not None or subset is not None:
            raise UserError(f"{path}: a file has no split or subset; set data.problem_set.split and subset to null")
        kind = place.suffix.lower()
        if kind == ".parquet":
            return _parquet(place, key)
        text = _text(place, key)
        return _csv(place, text, "\t" if kind == ".tsv" else ",") if kind in (".csv", ".tsv") else _json(place, text)
    if place.is_dir():
        return _saved(place, split, key)
    return _hub(path, split or "train", subset, revision, key)


def _text(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: a readable file expected, {error.strerror}; change {key}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: UTF-8 expected, byte {error.start} is not; convert the file") from None


def _json(path: Path, text: str) -> Iterator[Row]:
    """An array of objects, or one object a line; empty lines are passed over."""
    if path.suffix.lower() not in (".jsonl", ".ndjson") and text.lstrip().startswith("["):
        try:
            array = json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path}, line {error.lineno}, column {error.colno}: a JSON array or one JSON object a line expected; "
                f"{error.msg}"
            ) from None
        except (ValueError, RecursionError) as error:  # integers of over 4300 digits, thousands of nested brackets
            raise UserError(f"{path}: JSON that Python can read expected; {error}") from None
        for number, row in enumerate(array, start=1):
            yield f"row {number}", _object(row)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", _object(json.loads(line))
            except json.JSONDecodeError as error:
                yield f"line {number}", f"a JSON object expected; {error.msg} at column {error.colno}"
            except (ValueError, RecursionError) as error:
                yield f"line {number}", f"JSON that Python can read expected; {error}"


def _object(row: object) -> dict[str, Any] | str:
    if not isinstance(row, dict):
        return f"an object with named columns expected, {shown(row)} came"
    try:
        json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return "NaN, an infinite number or half a surrogate pair came, which JSON does not have; write null or text"
    return row


def _csv(path: Path, text: str, delimiter: str) -> Iterator[Row]:
    """Cells are text, so 007 stays 007; an empty cell is null. The place is the line on which a row ends."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        _refuse_doubles(path, lines.fieldnames or [])
        for row in lines:
            place = f"line {lines.line_num}"
            if None in row:
                columns = len(lines.fieldnames)
                yield place, f"{columns} columns expected, {columns + len(row[None])} came; put quotes around commas"
            else:
                yield place, {name: cell or None for name, cell in row.items()}
    except csv.Error as error:
        raise UserError(f"{path}, line {lines.line_num}: a readable CSV row expected; {error}") from None


def _parquet(path: Path, key: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: a readable parquet file expected, {_first_line(error)}; change {key}") from None
    _refuse_doubles(path, table.column_names)
    for number, row in enumerate(table.to_pylist(), start=1):
        yield f"row {number}", row


def _saved(path: Path, split: str | None, key: str) -> Iterator[Row]:
    """A folder of `Dataset.save_to_disk` or `DatasetDict.save_to_disk`."""
    import datasets
    import pyarrow as pa

    if not (path / "dataset_dict.json").exists() and not (path / "state.json").exists():
        raise UserError(
            f"{path}: a folder that datasets saved expected (with dataset_dict.json or state.json); "
            f"name a file ({', '.join(SUFFIXES)}) or such a folder in {key}"
        )
    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise UserError(
            f"{path}: a whole folder that datasets saved expected, {type(error).__name__} ({_first_line(error)}); "
            "copy or save it again"
        ) from None
    if isinstance(found, datasets.DatasetDict):
        if split is None and len(found) == 1:
            split = next(iter(found))
        if split not in found:
            raise UserError(f"{path}: no split {split!r}; set data.problem_set.split to one of {', '.join(found)}")
        found = found[split]
    elif split is not None:
        raise UserError(f"{path}: the folder has no splits, split={split!r} came; set data.problem_set.split=null")
    return _numbered(found)


def _hub(path: str, split: str, subset: str | None, revision: str | None, key: str) -> Iterator[Row]:
    import datasets
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    look_on_disk_where_nothing_answers()
    try:
        found = datasets.load_dataset(path, subset, split=split, revision=revision)
    except (OSError, ValueError, HfHubHTTPError, HFValidationError, datasets.exceptions.DatasetsError) as error:
        raise UserError(
            f"{path}: a file, a folder that datasets saved, or a data set of the hub expected, none was found "
            f"({_first_line(error)}); change {key}"
        ) from error
    return _numbered(found)


def _numbered(table: Any) -> Iterator[Row]:
    for number, row in enumerate(table, start=1):
        yield f"row {number}", row


def _refuse_doubles(path: Path, columns: Sequence[str]) -> None:
    double = next((name for name, times in Counter(columns).items() if times > 1), None)
    if double is not None:
        raise UserError(f"{path}: different columns expected, {double!r} stands there twice; rename one of them")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def cell(row: Mapping[str, Any], column: str) -> Any:
    """What stands in a column; `a.b.0` is entry 0 of the list b of the object a, where no column has that very name.

    Raises:
        KeyError: there is no such column, or nothing at that place in it.
    """
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise KeyError(column)
    return value


def names_shown(names: Iterable[str], most: int = 20) -> str:
    """Names one behind the other, on one line whatever is in them, and not without end."""
    listed = list(names)
    said = [name if name.isprintable() and len(name) <= 60 else shown(name) for name in listed[:most]]
    return ", ".join(said) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def shown(value: object) -> str:
    """The value as JSON, cut after 60 characters."""
    text = json.dumps(value, default=str).replace("\x7f", r"\u007f")  # the one control character that JSON leaves
    return text if len(text) <= 60 else f"{text[:57]}..."

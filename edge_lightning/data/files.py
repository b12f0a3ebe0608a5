"""Problems from a JSON or JSONL file: one object a row, the columns named by the configuration.

Left out: parquet, CSV and hub data sets; files too large to be read at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_uniform
from edge_lightning.types import Problem


class JsonFile:
    """The problems of one file, or of two.

    A JSON array of objects, or one object a line. A file is read and checked as a whole when the set is built; the
    first fault is reported with its row or line, counted from 1.

    Args:
        problem_column: text.
        answer_column: text, a number, or a list of those, any one of which is right. 142.0 reads "142".
        solution_column: text or null, and a row may lack it; None where the file has no solutions.
        id_column: text or an integer, unique in the file; None names problems after the file and the row.
        held_out_share: of the problems, chosen by a hash of the text, so that equal texts stay on one side.
        held_out_path: a second file with the same columns that is held out instead; no text may stand in both.
        limit: of the training problems, the first so many; None for all. What is held out does not change with it.

    Raises:
        UserError: names the file, the row, what stands there and what to change.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        problem_column: str = "problem",
        answer_column: str = "answer",
        solution_column: str | None = "solution",
        id_column: str | None = None,
        held_out_share: float = 0.0,
        held_out_path: str | Path | None = None,
        limit: int | None = None,
    ):
        self.problem_column, self.answer_column = problem_column, answer_column
        self.solution_column, self.id_column = solution_column, id_column
        self.limit = limit
        if not 0 <= held_out_share <= 1:
            raise UserError(f"data.problem_set.held_out_share={held_out_share}: a share from 0 to 1 expected")
        if held_out_path is not None and held_out_share > 0:
            raise UserError(
                f"data.problem_set.held_out_share={held_out_share} and held_out_path={held_out_path}: one of the two "
                "expected; set the share to 0 or the path to null"
            )
        if limit is not None and limit < 1:
            raise UserError(f"data.problem_set.limit={limit}: at least 1, or null for all, expected")
        problems = self._read(Path(path), Path(path).stem)
        if held_out_path is None:
            held_out = [counter_uniform("held out", problem.text) < held_out_share for problem in problems]
            self._train = [problem for problem, out in zip(problems, held_out) if not out]
            self._held_out = [problem for problem, out in zip(problems, held_out) if out]
        else:
            self._train = problems
            self._held_out = self._read(Path(held_out_path), f"{Path(held_out_path).stem}-held_out")
            texts = {problem.text for problem in problems}
            for problem in self._held_out:
                if problem.text in texts:
                    raise UserError(
                        f"{held_out_path}: the text of problem {problem.id!r} stands in {path} too, different texts "
                        "expected; take it out of one of them"
                    )

    def train(self) -> list[Problem]:
        """The problems in the order of the file, `limit` at most."""
        return self._train[: self.limit]

    def held_out(self) -> list[Problem]:
        """The problems in the order of their file."""
        return list(self._held_out)

    def _read(self, path: Path, name: str) -> list[Problem]:
        problems: list[Problem] = []
        places: dict[str, str] = {}
        for unit, number, row in _rows(path):
            place = f"{unit} {number}"
            problem = self._problem(row, f"{path}, {place}", f"{name}-{number:06d}")
            if problem.id in places:
                raise UserError(
                    f"{path}, {place}: id {problem.id!r} stands in {places[problem.id]} too, different ids expected; "
                    "mend the file or set data.problem_set.id_column to null"
                )
            places[problem.id] = place
            problems.append(problem)
        if not problems:
            raise UserError(f"{path}: at least one problem expected, none came; name another file in data.problem_set.path")
        return problems

    def _problem(self, row: object, where: str, name: str) -> Problem:
        if not isinstance(row, dict):
            raise UserError(f"{where}: an object with named columns expected, {_shown(row)} came; mend the file")
        try:
            json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            raise UserError(
                f"{where}: NaN, an infinite number or half a surrogate pair came, which JSON does not have; "
                "write null or text"
            ) from None
        text = self._cell(row, "problem_column", where)
        if not isinstance(text, str) or not text.strip():
            raise self._fault(where, "problem_column", "text", text)
        answer = self._cell(row, "answer_column", where)
        answers = [_written(part) for part in (answer if isinstance(answer, list) else [answer])]
        if not answers or not all(answers):
            raise self._fault(where, "answer_column", "text, a number or a list of those", answer)
        solution = None if self.solution_column is None else row.get(self.solution_column)
        if solution is not None and not isinstance(solution, str):
            raise self._fault(where, "solution_column", "text or null", solution)
        if self.id_column is not None:
            found = self._cell(row, "id_column", where)
            name = "" if isinstance(found, float) else _written(found)
            if not name:
                raise self._fault(where, "id_column", "text or an integer", found)
        return Problem(name, text, tuple(answers), solution if solution and solution.strip() else None)

    def _cell(self, row: dict, key: str, where: str) -> object:
        column = getattr(self, key)
        if column not in row:
            raise UserError(
                f"{where}: no column {column!r}; set data.problem_set.{key} to one of {', '.join(row) or '(no column)'}"
            )
        return row[column]

    def _fault(self, where: str, key: str, expected: str, found: object) -> UserError:
        return UserError(
            f"{where}: {expected} expected in column {getattr(self, key)!r}, {_shown(found)} came; "
            f"mend the file or change data.problem_set.{key}"
        )


def _rows(path: Path) -> Iterator[tuple[str, int, object]]:
    """("row" or "line", its number, what stands there) of an array or of lines; empty lines are passed over."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: a readable file expected, {error.strerror}; change data.problem_set.path") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: UTF-8 expected, byte {error.start} is not; convert the file") from None
    if path.suffix not in (".jsonl", ".ndjson") and text.lstrip().startswith("["):
        for number, row in enumerate(_decode(text, f"{path}"), start=1):
            yield "row", number, row
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield "line", number, _decode(line, f"{path}, line {number}")


def _decode(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if "line" not in where else f"column {error.colno}"
        raise UserError(f"{where}, {at}: a JSON array or one JSON object a line expected; {error.msg}") from None
    except (ValueError, RecursionError) as error:  # integers of over 4300 digits, thousands of nested brackets
        raise UserError(f"{where}: JSON that Python can read expected; {error}") from None


def _written(value: object) -> str:
    """Text without the white space around it, a number in plain digits; empty for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return str(int(value)) if value == int(value) else format(Decimal(repr(value)), "f")


def _shown(value: object) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."

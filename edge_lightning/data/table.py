"""Problems from a table: one row a problem, the columns named by the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_lightning.data.answers import AnswerRule, as_text
from edge_lightning.data.filters import Filter
from edge_lightning.data.report import BadRow, SetReport
from edge_lightning.data.sources import cell, names_shown, rows_of, shown
from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_uniform
from edge_lightning.types import Problem


class ProblemTable:
    """The problems of one table, or of two. A table is read and checked as a whole when the set is built.

    Rows that can't be used (no problem or answer, values of the wrong kind, an id twice) are in `report.bad`, with the
    place and the reason; curation.py decides what becomes of a run that has some.

    Args:
        path: a JSON, JSONL, parquet or CSV file, a folder that `datasets` saved, or a hub id.
        split, subset, revision: of a saved folder or a hub data set; see `sources.rows_of`.
        problem_column: text. This, answer_column and id_column may lead into a nested value: reward_model.ground_truth,
            prompt.0.content.
        answer_column: text, a number, or a list of those, any one of which is right. 142.0 reads "142".
        solution_column: text or null, and a row may lack it; None where the table has no solutions.
        id_column: text or an integer, unique in the table; None names problems after the table and the row.
        answer_pattern, answer_replace: how answers are normalised; see `AnswerRule`.
        filters: name -> filter; a row is taken if all of them take it.
        sample: draw so many of the rows that are left, whatever their order in the table; None for all of them.
        sample_seed: of that draw; a larger sample contains the smaller one.
        held_out_share: of the problems, chosen by a hash of the text, so that equal texts stay on one side.
        held_out_path: a second table with the same columns that is held out instead; no text may stand in both.
        limit: of the training problems, the first so many; None for all. What is held out does not change with it.

    Raises:
        UserError: a table that can't be read or has no usable row, arguments that don't fit.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        split: str | None = None,
        subset: str | None = None,
        revision: str | None = None,
        problem_column: str = "problem",
        answer_column: str = "answer",
        solution_column: str | None = "solution",
        id_column: str | None = None,
        answer_pattern: str | None = None,
        answer_replace: Mapping[str, str] | None = None,
        filters: Mapping[str, Filter | None] | None = None,
        sample: int | None = None,
        sample_seed: int = 0,
        held_out_share: float = 0.0,
        held_out_path: str | Path | None = None,
        limit: int | None = None,
    ):
        self.problem_column, self.answer_column = problem_column, answer_column
        self.solution_column, self.id_column = solution_column, id_column
        self.answer_rule = AnswerRule(answer_pattern, answer_replace)
        for name, taken in (filters or {}).items():
            if taken is not None and not callable(taken):
                raise UserError(
                    f"data.problem_set.filters.{name}={shown(taken)}: a node with the _target_ of a filter expected"
                )
        self.filters = {name: taken for name, taken in (filters or {}).items() if taken is not None}
        self.limit = limit
        self.report = SetReport(str(path))
        if not 0 <= held_out_share <= 1:
            raise UserError(f"data.problem_set.held_out_share={held_out_share}: a share from 0 to 1 expected")
        if held_out_path is not None and held_out_share > 0:
            raise UserError(
                f"data.problem_set.held_out_share={held_out_share} and held_out_path={held_out_path}: one of the two "
                "expected; set the share to 0 or the path to null"
            )
        for key, count in (("limit", limit), ("sample", sample)):
            if count is not None and count < 1:
                raise UserError(f"data.problem_set.{key}={count}: at least 1, or null for all, expected")
        where = {"split": split, "subset": subset, "revision": revision}
        problems = self._drawn(self._read(str(path), _name(path, split), where), sample, sample_seed)
        if held_out_path is None:
            held_out = [counter_uniform("held out", problem.text) < held_out_share for problem in problems]
            self._train = [problem for problem, out in zip(problems, held_out) if not out]
            self._held_out = [problem for problem, out in zip(problems, held_out) if out]
        else:
            self._train = problems
            self._held_out = self._read(
                str(held_out_path), f"{_name(held_out_path, None)}-held_out", {"key": "data.problem_set.held_out_path"}
            )
            texts = {problem.text for problem in problems}
            for problem in self._held_out:
                if problem.text in texts:
                    raise UserError(
                        f"{held_out_path}: the text of problem {problem.id!r} stands in {path} too, different texts "
                        "expected; take it out of one of them"
                    )

    def train(self) -> list[Problem]:
        """The problems in the order of the table, `limit` at most."""
        return self._train[: self.limit]

    def held_out(self) -> list[Problem]:
        """The problems in the order of their table."""
        return list(self._held_out)

    def _read(self, path: str, name: str, where: Mapping[str, str | None]) -> list[Problem]:
        problems: list[Problem] = []
        places: dict[str, str] = {}
        bad: list[BadRow] = []
        rows = 0
        for place, row in rows_of(path, **where):
            rows += 1
            found = row if isinstance(row, str) else self._problem(row, f"{name}-{place.split()[1]:0>6}")
            if isinstance(found, Problem) and found.id in places:
                found = f"id {found.id!r} stands in {places[found.id]} too; set data.problem_set.id_column=null"
            if isinstance(found, str):
                bad.append(BadRow(path, place, found))
                continue
            places[found.id] = place
            refused = next((name for name, taken in self.filters.items() if not taken(row)), None)
            if refused is None:
                problems.append(found)
            else:
                self.report.filtered[refused] = self.report.filtered.get(refused, 0) + 1
        if not places and bad:
            raise UserError(f"{bad[0]} (none of the {rows} rows can be used)")
        if not problems:
            left_out = f" ({', '.join(f'{n} left out by filter {name}' for name, n in self.report.filtered.items())})"
            raise UserError(
                f"{path}: at least one problem expected, none came{left_out if places else ''}; "
                f"change data.problem_set.{'filters' if places else 'path'}"
            )
        self.report.rows += rows
        self.report.bad += bad
        return problems

    def _problem(self, row: Mapping[str, Any], name: str) -> Problem | str:
        """The problem of a row, or why there is none."""
        columns = {"problem_column": self.problem_column, "answer_column": self.answer_column, "id_column": self.id_column}
        cells = {}
        for key, column in columns.items():
            try:
                cells[key] = None if column is None else cell(row, column)
            except KeyError:
                known = names_shown(row) or "(no column)"
                return f"no column {column!r}; set data.problem_set.{key} to one of {known}"
        text, answer = cells["problem_column"], cells["answer_column"]
        if not isinstance(text, str) or not text.strip():
            return _fault("problem_column", self.problem_column, "text", text)
        answers = self.answer_rule(answer)
        if not answers:
            kinds = "text, a number or a list of those"
            if self.answer_rule.pattern is not None:
                kinds += f" that matches answer_pattern={self.answer_rule.pattern.pattern!r}"
            return _fault("answer_column", self.answer_column, kinds, answer)
        solution = None if self.solution_column is None else row.get(self.solution_column)
        if solution is not None and not isinstance(solution, str):
            return _fault("solution_column", self.solution_column, "text or null", solution)
        if self.id_column is not None:
            found = cells["id_column"]
            name = "" if isinstance(found, float) else as_text(found)
            if not name:
                return _fault("id_column", self.id_column, "text or an integer", found)
        return Problem(name, text, answers, solution if solution and solution.strip() else None)

    def _drawn(self, problems: list[Problem], sample: int | None, seed: int) -> list[Problem]:
        if sample is None:
            return problems
        if sample > len(problems):
            raise UserError(
                f"data.problem_set.sample={sample}: {self.report.source} has {len(problems)} rows to draw from; "
                "lower it, or set it to null for all"
            )
        chosen = sorted(problems, key=lambda problem: counter_uniform(seed, "sample", problem.id))[:sample]
        names = {problem.id for problem in chosen}
        return [problem for problem in problems if problem.id in names]


def _name(path: str | Path, split: str | None) -> str:
    """What problems are called after, wherever the table lies: its split, else its own name."""
    return split or re.sub(r"\.(json|jsonl|ndjson|parquet|csv|tsv)$", "", Path(path).name, flags=re.IGNORECASE)


def _fault(key: str, column: str | None, expected: str, found: object) -> str:
    return f"{expected} expected in column {column!r}, {shown(found)} came; mend it or change data.problem_set.{key}"

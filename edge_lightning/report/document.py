"""The report as Markdown, section by section."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edge_lightning.report.accuracy_pictures import accuracy_picture, compute_picture, difference_picture
from edge_lightning.report.comparison import Difference, Results, results
from edge_lightning.report.curve_pictures import TRAINING, curve_picture
from edge_lightning.report.footnotes import FOOTNOTES
from edge_lightning.report.methods import Method, Section, baseline_of, sections
from edge_lightning.report.provenance import PICTURES, provenance_table
from edge_lightning.report.records import FINISHED, INTERRUPTED, Records, Run
from edge_lightning.report.speed import speed_table
from edge_lightning.report.style import Look, Picture, looks, styled
from edge_lightning.report.tables import (
    Table,
    accuracy_table,
    compute_table,
    difference_table,
    overview_table,
    runs_table,
)
from edge_lightning.report.text import code, plain

SAID_OF_SPEED = (
    "Two methods that end alike may get there at different times. Own accuracy: what the policy says before correction, "
    "mean over all steps of a run, then ± sd over seeds; differences between runs of equal seed. The step is the first at "
    "which the mean of the last {window} steps is there, mean over the runs that get there."
)


@dataclass
class Document:
    """Markdown, and the pictures that it names.

    Attributes:
        results: what was found, by section, for the terminal.
    """

    markdown: str
    pictures: list[Picture]
    results: list[tuple[Section, Results, Method | None, str]]


def document(records: Records, *, title: str, command: str, baseline: str, window: int) -> Document:
    """Everything there is to say of some records.

    Args:
        title: what the report is on.
        command: that made it.
        baseline: label or ablation that differences are to.
        window: steps of the running mean of curves.
    """
    found, pictures, blocks = [], [], [f"# {plain(title)}", *_opening(records, command)]
    for section in sections(records):
        against, why = baseline_of(section, baseline)
        found.append((section, results(section.methods.values(), against), against, why))
    labels = [label for section, *_ in found for label in section.methods]
    look = looks(labels, [against.label for _, _, against, _ in found if against is not None])
    stems: list[str] = []
    with styled():
        for section, outcome, against, why in found:
            stems.append(_stem(section, stems))
            blocks += _Writer(section, outcome, against, why, look, window, pictures, stems[-1]).blocks()
    blocks += _damaged(records)
    blocks += ["## What the figures are", FOOTNOTES.format(window=window, baseline=baseline).strip()]
    return Document("\n\n".join(blocks) + "\n", pictures, found)


@dataclass
class _Writer:
    """One section; `pictures` gets what it draws, in files whose names begin with `stem`."""

    section: Section
    found: Results
    baseline: Method | None
    why: str
    look: dict[str, Look]
    window: int
    pictures: list[Picture]
    stem: str

    def blocks(self) -> list[str]:
        blocks = [f"## {plain(self.section.name)}"]
        if self.found.accuracies:
            blocks += [*self._accuracy(), *self._differences(), *self._compute()]
        else:
            blocks.append("No finished run has a final evaluation, so there are no accuracies to compare.")
        return [*blocks, *self._speed(), *self._training(), *self._provenance(), *self._runs()]

    def _accuracy(self) -> list[str]:
        blocks = [
            "### Final accuracy",
            self._add(accuracy_picture(self.section, self.found, self.look, self._file("accuracy"))),
        ]
        tables = {name: accuracy_table(accuracies) for name, accuracies in self.found.accuracies.items()}
        if len(tables) > 1:
            blocks.append(overview_table(self.found).markdown())
        return [*blocks, *self._by_benchmark(tables, self._about)]

    def _about(self, name: str) -> str:
        counts = sorted({a.problems for a in self.found.accuracies[name].values() if a.problems is not None})
        problems = f"{' or '.join(map(str, counts))} problems" if counts else "problems not kept"
        start = f"; {self.found.before[name]:.3f} before training" if name in self.found.before else ""
        return f"{name}: {problems}{start}."

    def _differences(self) -> list[str]:
        if self.baseline is None:
            return ["### Differences", plain(f"{self.why[0].upper()}{self.why[1:]}.")]
        heading = f"### Differences to {plain(self.baseline.label)}"
        tables = {name: difference_table(it) for name, it in self.found.differences.items() if it}
        if not tables:
            return [
                heading,
                f"No other method has a finished run that can be paired with one of {plain(self.baseline.label)}.",
            ]
        picture = difference_picture(self.section, self.found, self.baseline, self.look, self._file("differences"))
        return [heading, self._add(picture), *self._by_benchmark(tables, self._resolution)]

    def _resolution(self, name: str) -> str:
        """What can be told apart here, from the half-widths of the intervals."""
        found: dict[str, Difference] = self.found.differences[name]
        widths = sorted((d.half_width, label) for label, d in found.items() if d.half_width > 0)
        if not widths:
            return f"On {name} no method differs from {self.baseline.label} by more on one problem than on another."
        (least, first), (most, last) = widths[0], widths[-1]
        text = f"What this study can resolve on {name}: half-widths of the intervals of differences: {least:.3f} ({first})"
        text += f" to {most:.3f} ({last}), median {_median([w for w, _ in widths]):.3f}" if len(widths) > 1 else ""
        seeds = " and ".join(map(str, sorted({len(d.by_seed) for d in found.values()})))
        few = f"With {seeds} pair{'s' if seeds != '1' else ''} of runs a method the intervals are optimistic."
        notes: dict[str, list[str]] = {}
        for label, d in found.items():
            if d.left_out:
                notes.setdefault(d.left_out, []).append(label)
        unpaired = [f"Left out for want of a pair: {what} ({', '.join(labels)})." for what, labels in notes.items()]
        return " ".join([f"{text}; a smaller difference can't be told from 0.", few, *unpaired])

    def _compute(self) -> list[str]:
        order = list(
            dict.fromkeys(label for name in reversed(self.found.accuracies) for label in self.found.accuracies[name])
        )
        picture = compute_picture(self.section, self.found, self.look, self._file("compute"))
        table = compute_table(self.section, order).markdown()
        return ["### Tokens and seconds", self._add(picture), table, "Mean over the finished runs of a method."]

    def _speed(self) -> list[str]:
        table = speed_table(list(self.section.methods.values()), self.baseline, window=self.window)
        return [] if table is None else ["### Speed", SAID_OF_SPEED.format(window=self.window), table.markdown()]

    def _training(self) -> list[str]:
        drawn = [self._curves(plan) for plan in TRAINING]
        return ["### Training", *self._unfinished(), *filter(None, drawn)] if any(drawn) else []

    def _unfinished(self) -> list[str]:
        named = ", ".join(m.label for m in self.section.methods.values() if not m.runs and m.drawn())
        return (
            [f"No run of these has finished, so their curves are of what there is so far: {plain(named)}."] if named else []
        )

    def _provenance(self) -> list[str]:
        tables = {m.label: table for m in self._order() if (table := provenance_table(m)) is not None}
        drawn = [text for plan in PICTURES if (text := self._curves(plan))]
        if not tables:
            return []
        said = (
            "Responses by where they came from, tokens by who wrote them. Each figure is the mean over those of a run's "
            "steps that have it (`steps` says on how many), then over seeds; the largest ratio is that of all steps."
        )
        folded = [
            f"<details><summary>{plain(label)}</summary>\n\n{table.markdown()}\n\n</details>"
            for label, table in tables.items()
        ]
        return ["### Provenance", said, *folded, *drawn]

    def _runs(self) -> list[str]:
        blocks = ["### Runs", runs_table(self.section).markdown()]
        lines = [
            f"- {plain(m.label)}, seed {seed}: {_what(run)} ({code(run.place)})"
            + (f": {plain(run.reason)}" if run.reason else "")
            for m in self.section.methods.values()
            for seed, run in sorted(m.others.items())
        ]
        lines += [
            f"- {code(run.place)}: {plain(run.status)}, left out for another run of the same cell"
            for run in self.section.superseded
        ]
        return [*blocks, *(["\n".join(lines)] if lines else [])]

    def _curves(self, plan) -> str | None:
        order = self._order()
        picture = curve_picture(self.section, order, self.baseline, self.look, plan, self.window, self._file(plan.name))
        return self._add(picture) if picture is not None else None

    def _order(self) -> list[Method]:
        """The baseline first, then by accuracy, then those without one."""
        best = [label for name in reversed(self.found.accuracies) for label in self.found.accuracies[name]]
        first = [self.baseline.label] if self.baseline is not None else []
        return [self.section.methods[label] for label in dict.fromkeys([*first, *best, *self.section.methods])]

    def _by_benchmark(self, tables: dict[str, Table], about) -> list[str]:
        """The tables, each under its benchmark's name where there are several, and folded but for the last one."""
        blocks = []
        for name, table in tables.items():
            text = f"{plain(about(name))}\n\n{table.markdown()}"
            last = name == list(tables)[-1]
            blocks.append(text if last else f"<details><summary>{plain(name)}</summary>\n\n{text}\n\n</details>")
        return blocks

    def _file(self, name: str) -> str:
        return f"{self.stem}-{name}.png"

    def _add(self, picture: Picture) -> str:
        self.pictures.append(picture)
        return f"![{plain(picture.alt)}]({picture.file})\n\n*{plain(picture.caption)}*"


def _stem(section: Section, taken: list[str]) -> str:
    """A section's name as a file may have it, unlike those of other sections."""
    plain = f"{section.data}-{section.model}"
    stem = "".join(c if (c.isascii() and c.isalnum()) or c in "-_" else "_" for c in plain)
    while stem in taken:
        stem += "_"
    return stem


def _opening(records: Records, command: str) -> list[str]:
    statuses = Counter(run.status for run in records.runs)
    told = ", ".join(
        f"{count} {plain(status)}" for status, count in sorted(statuses.items(), key=lambda kv: kv[0] != FINISHED)
    )
    commits = Counter(run.git_commit for run in records.runs if run.git_commit)
    lines = [f"Made by {code(command)} from the records of {len(records.runs)} runs: {plain(told)}."]
    if records.others:
        lines.append(f"{records.others} records of other commands are left out.")
    if len(commits) == 1:
        lines.append(f"All runs are of commit {_short(next(iter(commits)))}.")
    elif commits:
        named = ", ".join(f"{_short(commit)} ({count} runs)" for commit, count in sorted(commits.items()))
        lines.append(f"The runs are of several commits: {named}.")
    return [" ".join(lines), _versions(records.runs)] if _versions(records.runs) else [" ".join(lines)]


def _versions(runs: list[Run]) -> str:
    packages = {
        name: {run.versions[name] for run in runs if run.versions.get(name)} for run in runs for name in run.versions
    }
    named = [f"{name} {' and '.join(sorted(found))}" for name, found in packages.items() if found]
    return plain(f"Versions: {', '.join(named)}.") if named else ""


def _what(run: Run) -> str:
    if run.status in (FINISHED, INTERRUPTED) or run.steps:
        return f"{plain(run.status)} after {run.steps} steps"
    return plain(run.status)


def _damaged(records: Records) -> list[str]:
    lines = [f"- {code(path)}: {plain(reason)}" for path, reason in records.damaged]
    return ["## Damaged records", "Left out; the rest of each record is used.\n\n" + "\n".join(lines)] if lines else []


def _short(commit: str) -> str:
    digest, plus, rest = commit.partition("+")
    return plain(digest[:10] + plus + rest)


def _median(values: list[float]) -> float:
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2

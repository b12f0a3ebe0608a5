"""Which runs are of one method, and which cells of the method x seed grid are empty.

A section is a data set with a policy: nothing is compared across them. Within one a method is an ablation together with the
overrides in which its runs differ from others; seeds, folders and threads make no other method.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from edge_lightning.errors import printable
from edge_lightning.report.records import FINISHED, Records, Run

SAME_METHOD = ("seed", "resume", "cpu_threads", "name", "ablation", "data", "model")  # model.path and the like do differ
MISSING = "missing"  # a sweep was to run it, and nothing is there
NOT_RUN = "not run"  # other methods of the section have this seed


@dataclass
class Method:
    """The runs of one method in one section.

    Attributes:
        runs: the finished one of each seed, by seed.
        others: the latest run of each seed that has no finished one, by seed.
        missing: seeds that a sweep was to run and of which there is no record.
    """

    label: str
    ablation: str
    runs: dict[int, Run] = field(default_factory=dict)
    others: dict[int, Run] = field(default_factory=dict)
    missing: set[int] = field(default_factory=set)

    @property
    def evaluated_only(self) -> bool:
        """Nothing was trained, so its figures depend on no seed."""
        return bool(self.runs) and all(run.evaluated_only for run in self.runs.values())

    def status(self, seed: int) -> str:
        """What there is of a seed."""
        if seed in self.runs:
            return FINISHED
        if seed in self.others:
            return self.others[seed].status
        if seed in self.missing:
            return MISSING
        return "-" if self.evaluated_only else NOT_RUN

    def drawn(self) -> list[Run]:
        """The runs whose curves are drawn, by seed: the finished ones, or, where none is, those under way."""
        runs = self.runs or self.others
        return [runs[seed] for seed in sorted(runs) if runs[seed].metrics]


@dataclass
class Section:
    """All methods on one data set with one policy.

    Attributes:
        methods: by label.
        superseded: runs of a cell that has another, newer or finished one.
    """

    data: str
    model: str
    methods: dict[str, Method]
    superseded: list[Run]

    @property
    def name(self) -> str:
        return f"{self.data}, {self.model}"

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for m in self.methods.values() for seed in (*m.runs, *m.others, *m.missing)})


def sections(records: Records) -> list[Section]:
    """Sections by name, methods by label."""
    grouped: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in records.runs:
        grouped[run.data, run.model].append(run)
    found = [_section(data, model, runs) for (data, model), runs in sorted(grouped.items())]
    for section in found:
        _note_missing(section, grouped[section.data, section.model], records)
    return found


def labels(runs: list[Run]) -> dict[str, str]:
    """By place of a run, its method's label: the ablation, then each override that not all runs of the section share.

    An override that says what the configuration of a run without it holds is none: `steps=150` and a default of 150 are one
    method.
    """
    given = {run.place: _said(run, runs) for run in runs}
    every = {key for values in given.values() for key in values}
    differs = {key for key in every if len({_plain(values.get(key)) for values in given.values()}) > 1}
    spelled: dict[tuple[str, str | None], str] = {}  # 2e-4 and 0.0002 are one value: as the first run has it
    for values in given.values():
        for key, value in values.items():
            spelled.setdefault((key, _plain(value)), value)

    def label(run: Run) -> str:
        settings = (f"{k}={spelled[k, _plain(v)]}" for k, v in given[run.place].items() if k in differs)
        return printable(" ".join([run.ablation, *settings]))

    return {run.place: label(run) for run in runs}


def _said(run: Run, runs: list[Run]) -> dict[str, str]:
    """The overrides of a run that may tell it from others, by key, without those that say a default."""
    said = {key: value for key, value in sorted(run.settings.items()) if _distinguishes(key)}

    def says_a_default(key: str) -> bool:
        rest = {k: _plain(v) for k, v in said.items() if k != key}
        return any(
            other.ablation == run.ablation
            and {k: _plain(v) for k, v in other.settings.items() if _distinguishes(k)} == rest
            and _plain(_configured(other.config, key)) == _plain(said[key])
            for other in runs
        )

    return {key: value for key, value in said.items() if not says_a_default(key)}


def baseline_of(section: Section, name: str) -> tuple[Method | None, str]:
    """The method that a name stands for, by label or else by ablation; otherwise None and why."""
    if name in section.methods:
        return section.methods[name], ""
    of_it = [method for method in section.methods.values() if method.ablation == name]
    if len(of_it) == 1:
        return of_it[0], ""
    if of_it:
        named = "; ".join(method.label for method in of_it)
        return None, f"several methods are of ablation {name}, so there are no differences; set baseline to one of: {named}"
    known = ", ".join(section.methods)
    return None, f"there is no run of the baseline {name}, so there are no differences; set baseline to one of: {known}"


def _section(data: str, model: str, runs: list[Run]) -> Section:
    label = labels(runs)
    section = Section(data, model, {}, [])
    for run in sorted(runs, key=_best_last):
        method = section.methods.setdefault(label[run.place], Method(label[run.place], run.ablation))
        for kind in (method.runs, method.others):
            if run.seed in kind:
                section.superseded.append(kind.pop(run.seed))
        (method.runs if run.status == FINISHED else method.others)[run.seed] = run
    section.methods = dict(sorted(section.methods.items()))
    return section


def _note_missing(section: Section, runs: list[Run], records: Records) -> None:
    """Jobs of a sweep without a record: matched by all that was set for them, so `missing` is never a guess."""
    recorded = [_job(run.settings) for run in records.runs]
    for job in records.jobs:
        if _job(job) in recorded:
            continue
        for run in runs:  # a run that differs in the seed alone tells the method
            if {**_job(run.settings), "seed": ""} == {**_job(job), "seed": ""}:
                _of(section, run).missing.add(int(job.get("seed", 0)))
                break
        else:
            if any(_same_problem(run.settings, job) for run in runs):
                ablation = job.get("ablation", "unknown")
                own = [
                    f"{key}={value}"
                    for key, value in sorted(job.items())
                    if _distinguishes(key) and any(_plain(run.settings.get(key)) != _plain(value) for run in runs)
                ]
                label = " ".join([ablation, *own])
                section.methods.setdefault(label, Method(label, ablation)).missing.add(int(job.get("seed", 0)))
    section.methods = dict(sorted(section.methods.items()))


def _same_problem(settings: dict[str, str], job: dict[str, str]) -> bool:
    """Whether a job has the data and the policy of a run."""
    return all(settings.get(key) == job.get(key) for key in ("data", "model", "experiment"))


def _of(section: Section, run: Run) -> Method:
    """The method of a run."""
    methods = section.methods.values()
    return next((m for m in methods if run in (*m.runs.values(), *m.others.values())), section.methods[run.ablation])


def _job(settings: dict[str, str]) -> dict[str, str]:
    return {k: _plain(v) for k, v in settings.items() if not k.startswith("hydra") and k not in ("resume", "cpu_threads")}


def _best_last(run: Run) -> tuple:
    return run.status == FINISHED, run.steps, run.place


def _distinguishes(key: str) -> bool:
    return key not in SAME_METHOD and not key.startswith("hydra")


def _configured(config: dict, key: str) -> str | None:
    """The value of a dotted key; None for a group, or where it is not there."""
    node = config
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return None if isinstance(node, (dict, list)) else _written(node)


def _written(value: object) -> str:
    """A value as the command line would have it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _plain(value: str | None) -> str | None:
    """The same text for the same number, however it is written."""
    try:
        return None if value is None else repr(float(value))
    except ValueError:
        return value

"""Final accuracies of methods, and paired differences to a baseline.

Units are problems and seeds: a score is the share right of a problem's responses after training with a seed. Scores are
paired by the ids of problems, and runs by their seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from edge_lightning.evaluation.benchmark import AVERAGE
from edge_lightning.evaluation.scores import mean_with_interval
from edge_lightning.report.methods import Method
from edge_lightning.report.records import Run
from edge_lightning.report.statistics import crossed_interval, holm, mean_and_sd, sign_flip_p, smallest_p

Scores = dict[str, float]  # by problem


@dataclass(frozen=True)
class Accuracy:
    """A method's final accuracy on one benchmark.

    Attributes:
        by_seed: of each seed; the one run of a method without training stands under its own.
        sd: over seeds, ddof 1; None for one seed.
        interval: 95 %, seeds and problems resampled; None where the scores of problems were not kept.
        problems: how many; None where they were not kept.
        pass_at: mean and sd over seeds of pass@k, by the k above 1 that every seed has.
    """

    by_seed: dict[int, float]
    mean: float
    sd: float | None
    interval: tuple[float, float] | None
    problems: int | None
    pass_at: dict[int, tuple[float, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """A method minus the baseline on one benchmark, in accuracy.

    Attributes:
        by_seed: of each pair of runs.
        p_problems: sign-flip test over problems, of the differences averaged over seeds.
        p_holm: the same, adjusted for the number of methods that are compared; set by `differences`.
        p_seeds: sign-flip test over seeds; `p_seeds_least` is the smallest that so many seeds can give.
        left_out: seeds and problems that only one of the two has, in words; empty where all are paired.
    """

    by_seed: dict[int, float]
    mean: float
    interval: tuple[float, float]
    problems: int
    p_problems: float
    p_seeds: float
    p_seeds_least: float
    p_holm: float = float("nan")
    left_out: str = ""

    @property
    def half_width(self) -> float:
        return (self.interval[1] - self.interval[0]) / 2


@dataclass(frozen=True)
class Results:
    """All that is said of final accuracies in a section, by benchmark and then by label, best first."""

    accuracies: dict[str, dict[str, Accuracy]] = field(default_factory=dict)
    differences: dict[str, dict[str, Difference]] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)  # accuracy of the policy that the baseline starts from


def results(methods: Iterable[Method], baseline: Method | None) -> Results:
    """Accuracies of every method, differences of all but the baseline to it."""
    methods = list(methods)
    names = benchmarks(methods)
    found = Results()
    for name in names:
        accuracies = {m.label: a for m in methods if (a := accuracy(m, name)) is not None}
        found.accuracies[name] = dict(sorted(accuracies.items(), key=lambda item: -item[1].mean))
        of_all = methods if baseline is None else [baseline]  # another engine says other things of the same policy
        starts = {round(b, 12) for m in of_all for run in m.runs.values() if (b := before(run, name)) is not None}
        if len(starts) == 1:
            found.before[name] = starts.pop()
        if baseline is not None:
            against = {m.label: difference(m, baseline, name) for m in methods if m.label != baseline.label}
            found.differences[name] = _adjusted({label: d for label, d in against.items() if d is not None})
    return found


def benchmarks(methods: Iterable[Method]) -> list[str]:
    """By name, their average last; the average where a run has several."""
    runs = [run for m in methods for run in m.runs.values()]
    names = sorted({key.removesuffix("/accuracy") for run in runs for key in run.final if key.endswith("/accuracy")})
    return [n for n in names if n != AVERAGE] + [n for n in names if n == AVERAGE]


def accuracy(method: Method, benchmark: str) -> Accuracy | None:
    """None where no finished run of the method has the benchmark."""
    runs = {seed: run for seed, run in sorted(method.runs.items()) if f"{benchmark}/accuracy" in run.final}
    if not runs:
        return None
    by_seed = {seed: float(run.final[f"{benchmark}/accuracy"]) for seed, run in runs.items()}
    mean, sd = mean_and_sd(list(by_seed.values()))
    pass_at = _pass_at([run.final for run in runs.values()], f"{benchmark}/pass@")
    tables = {seed: scores(run, benchmark) for seed, run in runs.items()}
    if any(not table for table in tables.values()):
        return Accuracy(by_seed, mean, sd, None, None, pass_at)
    values_SP, problems = _table(list(tables.values()))
    return Accuracy(by_seed, mean, sd, _interval(values_SP), len(problems), pass_at)


def difference(method: Method, baseline: Method, benchmark: str) -> Difference | None:
    """None where no pair of runs has scores of the same problems."""
    ours = {seed: s for seed, run in method.runs.items() if (s := scores(run, benchmark))}
    theirs = {seed: s for seed, run in baseline.runs.items() if (s := scores(run, benchmark))}
    if method.evaluated_only and ours:  # the policy itself: its one evaluation stands beside every seed
        ours = dict.fromkeys(theirs, next(iter(ours.values())))
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    paired = [*(ours[seed] for seed in seeds), *(theirs[seed] for seed in seeds)]
    values, problems = _table(paired)
    if not problems:
        return None
    differences_SP = values[: len(seeds)] - values[len(seeds) :]
    by_seed = dict(zip(seeds, differences_SP.mean(axis=1).tolist(), strict=True))
    return Difference(
        by_seed=by_seed,
        mean=float(differences_SP.mean()),
        interval=crossed_interval(differences_SP),
        problems=len(problems),
        p_problems=sign_flip_p(differences_SP.mean(axis=0)),
        p_seeds=sign_flip_p(list(by_seed.values())),
        p_seeds_least=smallest_p(len(seeds)),
        left_out=_left_out(ours, theirs, seeds, paired, len(problems)),
    )


def scores(run: Run, benchmark: str) -> Scores:
    """Of a benchmark's problems; of all benchmarks' for their average."""
    if benchmark != AVERAGE:
        return run.scores.get(benchmark, {})
    whole = {key.removesuffix("/accuracy") for key in run.final if key.endswith("/accuracy")} - {AVERAGE}
    if whole - run.scores.keys():  # a benchmark's rows are damaged or were not kept
        return {}
    return {f"{name}/{problem}": value for name, table in sorted(run.scores.items()) for problem, value in table.items()}


def before(run: Run, benchmark: str) -> float | None:
    return (run.before or {}).get(f"{benchmark}/accuracy")


def _pass_at(figures: list[dict[str, float]], prefix: str) -> dict[int, tuple[float, float | None]]:
    common = set.intersection(*(set(of_run) for of_run in figures))
    found = sorted(int(k) for name in common if name.startswith(prefix) and (k := name.removeprefix(prefix)).isdecimal())
    return {k: mean_and_sd([of_run[f"{prefix}{k}"] for of_run in figures]) for k in found if k > 1}


def _table(tables: list[Scores]) -> tuple[np.ndarray, list[str]]:
    """Scores of the problems that all tables have, a row a table."""
    common = sorted(set.intersection(*(set(table) for table in tables)))
    return np.array([[table[problem] for problem in common] for table in tables]), common


def _interval(values_SP: np.ndarray) -> tuple[float, float] | None:
    """As that of one evaluation, the exact binomial interval where no problem was ever right, or all always."""
    if not values_SP.size:
        return None
    if np.ptp(values_SP) == 0:
        return mean_with_interval(values_SP[0].tolist())[1:]
    return crossed_interval(values_SP)


def _adjusted(found: dict[str, Difference]) -> dict[str, Difference]:
    adjusted = holm([d.p_problems for d in found.values()])
    with_holm = {
        label: Difference(**{**vars(d), "p_holm": p}) for (label, d), p in zip(found.items(), adjusted, strict=True)
    }
    return dict(sorted(with_holm.items(), key=lambda item: -item[1].mean))


def _left_out(ours: dict, theirs: dict, seeds: list[int], paired: list[Scores], problems: int) -> str:
    parts = []
    if alone := sorted(ours.keys() ^ theirs.keys()):
        parts.append(f"seed{'s' if len(alone) > 1 else ''} {', '.join(map(str, alone))}")
    if more := len(set().union(*paired)) - problems:
        parts.append(f"{more} problem{'s' if more > 1 else ''}")
    return " and ".join(parts)

"""The tables of a report: rows of cells, to be written as Markdown or on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edge_lightning.report.comparison import Accuracy, Difference, Results
from edge_lightning.report.methods import NOT_RUN, Method, Section
from edge_lightning.report.records import FINISHED, Run
from edge_lightning.report.text import cell

NOTHING = "-"
STAGES = ("generate", "correct", "score", "train", "gradient_shares", "evaluate")


@dataclass(frozen=True)
class Table:
    """A heading a column; the first one is text, the others are figures."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        rule = ("---", *("---:" for _ in self.header[1:]))
        return "\n".join("| " + " | ".join(map(cell, row)) + " |" for row in (self.header, rule, *self.rows))


def accuracy_table(accuracies: dict[str, Accuracy]) -> Table:
    """One benchmark: a row a method, best first; pass@k of the largest k above 1 beside it, where there is one."""
    k = max((k for it in accuracies.values() for k in it.pass_at), default=None)
    rows = [
        (
            label,
            f"{len(it.by_seed)}",
            mean_sd(it.mean, it.sd),
            interval_text(it.interval),
            *([] if k is None else [mean_sd(*it.pass_at[k]) if k in it.pass_at else NOTHING]),
            by_seed_text(it.by_seed),
        )
        for label, it in accuracies.items()
    ]
    pass_at = () if k is None else (f"pass@{k}",)
    return Table(("method", "seeds", "mean ± sd", "95 % interval", *pass_at, "each seed"), tuple(rows))


def overview_table(found: Results) -> Table:
    """Several benchmarks: a row a method, a column a benchmark."""
    names = list(found.accuracies)
    order = list(found.accuracies[names[-1]])
    order += [label for name in names for label in found.accuracies[name] if label not in order]
    rows = [(label, *(_mean_sd_of(found.accuracies[n].get(label)) for n in names)) for label in dict.fromkeys(order)]
    return Table(("method", *names), tuple(rows))


def difference_table(differences: dict[str, Difference]) -> Table:
    """One benchmark: a row a method, largest difference first."""
    header = ("method", "pairs", "difference", "95 % interval", "p, problems", "Holm", "p, seeds (least)", "each seed")
    rows = [
        (
            label,
            f"{len(it.by_seed)} x {it.problems}",
            f"{it.mean:+.3f}",
            interval_text(it.interval, sign=True),
            number_p(it.p_problems),
            number_p(it.p_holm),
            f"{number_p(it.p_seeds)} ({number_p(it.p_seeds_least)})",
            by_seed_text(it.by_seed, sign=True),
        )
        for label, it in differences.items()
    ]
    return Table(header, tuple(rows))


def compute_table(section: Section, order: Iterable[str]) -> Table:
    """A row a method: tokens and seconds of a run, mean over the finished runs."""
    header = (
        "method",
        "runs",
        "tokens sampled",
        "regenerated",
        "injected",
        "seconds in all",
        *(stage.replace("_", " ") for stage in STAGES),
        "rest",
    )
    rows = []
    for label in order:
        method = section.methods[label]
        tokens = [_count(mean_over_runs(method, _token(kind))) for kind in ("sampled", "regenerated", "injected")]
        whole = mean_over_runs(method, seconds_in_all)
        stages = [mean_over_runs(method, _seconds(stage)) for stage in STAGES]
        rest = None if whole is None else whole - sum(s or 0.0 for s in stages)
        rows.append((label, f"{len(method.runs)}", *tokens, *(_count(s) for s in (whole, *stages, rest))))
    return Table(header, tuple(rows))


def runs_table(section: Section) -> Table:
    """A row a method, a column a seed: what there is of each run."""
    seeds = section.seeds
    rows = [(m.label, *(_marked(m.status(seed)) for seed in seeds)) for m in section.methods.values()]
    return Table(("method", *(f"seed {seed}" for seed in seeds)), tuple(rows))


def mean_over_runs(method: Method, figure: Callable[[Run], float | None]) -> float | None:
    """Over the finished runs that have it; None where none has."""
    values = [v for run in method.runs.values() if (v := figure(run)) is not None]
    return sum(values) / len(values) if values else None


def generated_tokens(run: Run) -> float | None:
    """What the policy generated in training: first answers and what reflections added."""
    if "sampled" not in run.tokens:
        return 0.0 if run.evaluated_only else None
    return run.tokens["sampled"] + run.tokens.get("regenerated", 0)


def seconds_in_all(run: Run) -> float | None:
    return run.seconds.get("whole_run")


def mean_sd(mean: float, sd: float | None) -> str:
    return f"{mean:.3f} ± {NOTHING if sd is None else f'{sd:.3f}'}"


def interval_text(interval: tuple[float, float] | None, *, sign: bool = False) -> str:
    if interval is None:
        return NOTHING
    low, high = (f"{end:+.3f}" if sign else f"{end:.3f}" for end in interval)
    return f"[{low}, {high}]"


def by_seed_text(by_seed: dict[int, float], *, sign: bool = False) -> str:
    return ", ".join(f"{value:+.3f}" if sign else f"{value:.3f}" for value in by_seed.values())


def number_p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float) -> str:
    return f"p {number_p(p)}" if p < 0.001 else f"p = {number_p(p)}"


def _mean_sd_of(it: Accuracy | None) -> str:
    return NOTHING if it is None else mean_sd(it.mean, it.sd)


def _marked(status: str) -> str:
    return status if status in (FINISHED, NOT_RUN, NOTHING) else f"**{status}**"


def _token(kind: str) -> Callable[[Run], float | None]:
    return lambda run: run.tokens.get(kind)


def _seconds(stage: str) -> Callable[[Run], float | None]:
    return lambda run: run.seconds.get(stage)


def _count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"

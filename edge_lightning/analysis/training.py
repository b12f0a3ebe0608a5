"""How a training went: entropy, advantage variance, groups without signal, and what each provenance brought.

Figure 5 of EDGE-GRPO (arXiv:2507.21848) and what its reviewers ask for: the same of what the policy sampled by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from scipy.stats import t as student

from edge_lightning.analysis.base import Findings, parquet
from edge_lightning.analysis.clustered import ratio, sums_by_problem, with_interval
from edge_lightning.analysis.collected import Source
from edge_lightning.analysis.pictures import Dot, Line, curves, dots
from edge_lightning.evaluation.scores import mean_with_interval
from edge_lightning.report.tables import NOTHING, Table, interval_text

PHASES = ("first third", "second third", "last third")
CURVES = {  # of metrics.csv
    "entropy of all tokens": ("entropy/mean", "nats"),
    "entropy of untouched responses": ("entropy/mean/sampled", "nats"),
    "advantage variance": ("advantage/variance", "A after correction"),
    "advantage variance, as sampled": ("advantage/variance_sampled", "A of rewards before correction"),
}
TIED = {"as sampled": "group/zero_variance_sampled", "after correction": "group/zero_variance_corrected"}
EFFECTS = {  # of sums of (1, sampled right, right, reward, A, |A|, mean token advantage, Phat, responses with Phat)
    "right_before": (1, 0),
    "right_after": (2, 0),
    "reward": (3, 0),
    "advantage": (4, 0),
    "token_advantage": (6, 0),
    "relative_entropy": (7, 8),
}
_ENDS = ("", "_low", "_high")
CURVE_SCHEMA = pa.schema(
    [("method", pa.string()), ("figure", pa.string()), ("step", pa.int64()), ("runs", pa.int64())]
    + [(f"value{end}", pa.float64()) for end in _ENDS]
)
PHASE_SCHEMA = pa.schema(
    [("method", pa.string()), ("groups", pa.string()), ("phase", pa.string()), ("steps", pa.int64())]
    + [(f"share{end}", pa.float64()) for end in _ENDS]
)
EFFECT_SCHEMA = pa.schema(
    [("method", pa.string()), ("provenance", pa.string()), ("responses", pa.int64())]
    + [("share_of_absolute_advantage", pa.float64())]
    + [(f"{name}{end}", pa.float64()) for name in EFFECTS for end in _ENDS]
)


def trajectories(runs: Sequence[Source]) -> Findings:
    """Curves over steps, mean over the runs of a method with Student's 95 % interval where there are several.

    Advantages of groups of one response are left out, since they are 0.
    """
    rows, told, panels = [], [], {}
    for title, (column, unit) in CURVES.items():
        lines = []
        shown = runs if title.startswith("entropy") else [run for run in runs if run.compares]
        for label, own in _by_method(shown).items():
            points = list(_over_runs([_column(run, column) for run in own]))
            rows += [{"method": label, "figure": column, "step": s, "runs": n, **_ends("value", v)} for s, n, v in points]
            if points:
                steps, _, values = zip(*points)
                mean, low, high = zip(*values)
                band = {} if None in low else {"low": low, "high": high}
                lines.append(Line(label, steps, mean, **band))
                told.append((f"{label}: {title}", f"{len(own)}", f"{len(steps)}", *(f"{mean[i]:.3f}" for i in (0, -1))))
        if lines:
            panels[title] = unit, lines
    if not rows:
        return Findings({}, ["training: no metrics.csv has steps in it"], {"trajectories": None})
    below = "mean over the runs of a method, with Student's 95 % interval where there are several"
    picture = curves(panels, title="Entropy and advantage variance", below=below)
    table = Table(("", "runs", "steps with it", "first", "last"), tuple(told))
    files = {"trajectories.parquet": parquet(rows, CURVE_SCHEMA), "trajectories.png": picture}
    return Findings({"training": table}, [below], {"trajectories": {"rows": len(rows)}}, files)


def zero_variance(runs: Sequence[Source]) -> Findings:
    """Share of groups with equal rewards by thirds of the steps, without groups of one response; intervals over steps."""
    rows = []
    for label, own in _by_method([run for run in runs if run.compares]).items():
        for groups, column in TIED.items():
            by_phase: dict[int, list[float]] = defaultdict(list)
            for run in own:
                steps = _column(run, column)
                for place, value in enumerate(steps.values()):
                    by_phase[place * len(PHASES) // len(steps)].append(value)
            for phase, values in sorted(by_phase.items()):
                named = {"method": label, "groups": groups, "phase": PHASES[phase], "steps": len(values)}
                rows.append(named | _ends("share", mean_with_interval(values)))
    if not rows:
        return Findings(
            {}, ["groups: no metrics.csv has steps with groups of several responses in it"], {"zero_variance": None}
        )
    cells, drawn = [], {groups: [] for groups in TIED}
    for row in rows:
        named = f"{row['method']}, {row['groups']}, {row['phase']}"
        cells.append((named, f"{row['steps']}", f"{row['share']:.3f}", _interval(row, "share")))
        drawn[row["groups"]].append(Dot(f"{row['method']}, {row['phase']}", *_three(row, "share")))
    title, below = "Groups whose rewards are all equal", "95 % intervals over steps"
    picture = dots(drawn, title=title, x="share of groups", below=below)
    files = {"zero_variance.parquet": parquet(rows, PHASE_SCHEMA), "zero_variance.png": picture}
    table = Table(("groups without signal", "steps", "share", "95 % interval"), tuple(cells))
    note = "share of groups whose rewards are all equal; intervals are over steps"
    return Findings({"groups without signal": table}, [note], {"zero_variance": rows}, files)


def provenance_effects(runs: Sequence[Source]) -> Findings:
    """A row a provenance: what it did to verdicts and rewards, and which advantages it brought; intervals over problems."""
    rows = []
    for label, own in _by_method(runs).items():
        members: dict[str, list[dict]] = defaultdict(list)
        for run in own:
            for step in run.rollout_rows():
                for row in step:
                    members[row["provenance"]].append(row)
        weight = {kind: sum(abs(r["advantage"]) for r in these) for kind, these in members.items()}
        for kind, these in members.items():
            shares = {"share_of_absolute_advantage": weight[kind] / (sum(weight.values()) or 1.0)}
            rows.append({"method": label, "provenance": kind, "responses": len(these), **shares, **_effects(these)})
    if not rows:
        return Findings({}, ["provenance: no run has rollouts on disk"], {"provenance": None})
    header = ("responses", "how many", "right before", "right after", "reward", "A", "95 % interval")
    header += ("after credit", "95 % interval", "Phat", "share of |A|")
    table = Table(header, tuple(_effect_cells(row) for row in rows))
    drawn = {
        name: [Dot(f"{r['method']}, {r['provenance'].replace('_', ' ')}", *_three(r, key)) for r in rows]
        for name, key in (("A", "advantage"), ("after credit", "token_advantage"))
    }
    picture = dots(drawn, title="What each provenance brings", x="mean advantage")
    files = {"provenance.parquet": parquet(rows, EFFECT_SCHEMA)} | ({"provenance.png": picture} if picture else {})
    note = "means over responses; after credit: mean over a response's tokens; intervals are over problems"
    return Findings({"effect of each provenance": table}, [note], {"provenance": rows}, files)


def _effects(rows: Sequence[dict]) -> dict:
    phat = [row["relative_entropy"] for row in rows]
    columns = [
        [1.0] * len(rows),
        *([float(row[name]) for row in rows] for name in ("sampled_right", "right", "reward", "advantage")),
        [abs(row["advantage"]) for row in rows],
        [float(np.mean(row["token_advantages"])) if row["token_advantages"] else 0.0 for row in rows],
        [value or 0.0 for value in phat],
        [float(value is not None) for value in phat],
    ]
    sums = sums_by_problem([row["problem_id"] for row in rows], columns)
    found = {}
    for name, (numerator, denominator) in EFFECTS.items():
        found |= _ends(name, with_interval(sums, lambda s, n=numerator, d=denominator: ratio(s, n, d)) or (None, None, None))
    return found


def _by_method(runs: Sequence[Source]) -> dict[str, list[Source]]:
    found: dict[str, list[Source]] = defaultdict(list)
    for run in runs:
        found[run.label].append(run)
    return found


def _column(run: Source, name: str) -> dict[int, float]:
    return {int(row["step"]): float(row[name]) for row in run.metrics() if row.get(name) not in (None, "")}


def _over_runs(columns: Sequence[dict[int, float]]) -> Iterator[tuple[int, int, tuple]]:
    """Step, runs that have it, and mean, low, high: mean ± t_(0.975, n - 1) s / sqrt(n); no interval of one run."""
    for step in sorted(set().union(*columns)):
        values = np.array([column[step] for column in columns if step in column])
        half = None
        if len(values) > 1:
            half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        mean = float(values.mean())
        yield step, len(values), (mean, None, None) if half is None else (mean, float(mean - half), float(mean + half))


def _ends(name: str, values: Sequence[float | None]) -> dict:
    return {f"{name}{end}": value for end, value in zip(_ENDS, values)}


def _three(row: dict, name: str) -> tuple:
    return tuple(row[f"{name}{end}"] for end in _ENDS)


def _interval(row: dict, name: str, *, sign: bool = False) -> str:
    return interval_text(None if row[name] is None else (row[f"{name}_low"], row[f"{name}_high"]), sign=sign)


def _effect_cells(row: dict) -> tuple[str, ...]:
    def plain(name: str, sign: str = "") -> str:
        return NOTHING if row[name] is None else f"{row[name]:{sign}.3f}"

    return (
        *(f"{row['method']}, {row['provenance'].replace('_', ' ')}", f"{row['responses']:,}"),
        *(plain("right_before"), plain("right_after"), plain("reward"), plain("advantage", "+")),
        _interval(row, "advantage", sign=True),
        *(plain("token_advantage", "+"), _interval(row, "token_advantage", sign=True)),
        *(plain("relative_entropy"), plain("share_of_absolute_advantage")),
    )

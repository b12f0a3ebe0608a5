"""Pictures of a training: one panel a method, the baseline in grey in each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from edge_lightning.report.curves import Band, band, samples
from edge_lightning.report.methods import Method, Section
from edge_lightning.report.style import BASELINE, FAINT, INK, Look, Picture, columns_for, grid, png, title, wrapped


@dataclass(frozen=True)
class Curve:
    """One line of a picture.

    Attributes:
        column: of metrics.csv.
        label: in the legend.
        line: how it is dashed.
        colour: None for that of the method.
    """

    column: str
    label: str
    line: str = "-"
    colour: str | None = None


@dataclass(frozen=True)
class Plan:
    """One picture.

    Attributes:
        name: in its file's name.
        unit: what the y axis says.
        curves: drawn in each panel; of the baseline the first one alone stands in the others' panels.
        log: whether the y axis is logarithmic.
        level: a value that is marked by a dotted line.
        whole: whether the y axis goes from 0 to 1.
        beside_baseline: whether the baseline stands in every panel.
        of_samples: whether it is of what the policy says by itself, which a method that samples nothing has not.
        smooth: False for a figure that only a sample of the steps has: each of them is a point then.
        note: at the end of the caption.
    """

    name: str
    title: str
    unit: str
    curves: tuple[Curve, ...]
    log: bool = False
    level: float | None = None
    whole: bool = False
    beside_baseline: bool = True
    of_samples: bool = False
    smooth: bool = True
    note: str = ""


_ZERO = "A norm of exactly 0 (no group has a gradient) has no place on this axis: the line is broken there."
BEFORE, AFTER = "before correction", "after correction"
TRAINING = (
    Plan(
        "reward",
        "Reward before and after correction",
        "mean reward",
        (Curve("reward/mean_sampled", BEFORE), Curve("reward/mean_corrected", AFTER, "--")),
        of_samples=True,
        note="What stands after correction is high by construction; the solid line is what the policy says by itself.",
    ),
    Plan(
        "zero_variance",
        "Groups without a gradient: all rewards equal",
        "share of groups",
        (Curve("group/zero_variance_sampled", BEFORE), Curve("group/zero_variance_corrected", AFTER, "--")),
        whole=True,
        of_samples=True,
    ),
    Plan(
        "advantage_variance",
        "Variance of the advantages",
        "variance",
        (
            Curve("advantage/variance", "of the rewards after correction"),
            Curve("advantage/variance_sampled", "of the rewards before correction", "--"),
        ),
        of_samples=True,
        note="Over all responses of a step; a normalised group adds 1 and a group of equal rewards 0.",
    ),
    Plan("entropy", "Entropy of the policy", "nats a token", (Curve("entropy/mean", "mean over seeds"),)),
    Plan(
        "relative_entropy",
        "Relative entropy (Phat): least and largest of a step",
        "entropy / mean of group",
        (Curve("relative_entropy/max", "largest"), Curve("relative_entropy/min", "least", "--")),
        log=True,
        level=1.0,
    ),
    Plan(
        "gradient_norm",
        "Gradient norm before clipping",
        "norm",
        (Curve("gradient/norm", "mean over seeds"),),
        log=True,
        note=_ZERO,
    ),
)


def curve_picture(
    section: Section,
    methods: list[Method],
    baseline: Method | None,
    look: dict[str, Look],
    plan: Plan,
    window: int,
    file: str,
) -> Picture | None:
    """None where no method has any of the figures.

    Args:
        methods: in the order of the panels.
        window: steps of the running mean.
    """
    window = window if plan.smooth else 1
    bands = {m.label: [band(m, curve.column, window=window) for curve in plan.curves] for m in methods}
    shown = [m for m in methods if any(b is not None for b in bands[m.label]) and (samples(m) or not plan.of_samples)]
    if not shown:
        return None
    columns = columns_for(len(shown))
    figure, panels = grid(len(shown), columns=columns, width=11 / max(columns, 2), height=2.05, sharex=True, sharey=True)
    if plan.log:
        panels[0].set_yscale("log")  # of all, which share it
    grey = bands[baseline.label][0] if baseline in shown and plan.beside_baseline else None
    for ax, method in zip(panels, shown, strict=True):
        own = look[method.label]
        if grey is not None and method is not baseline:
            _draw(ax, grey, BASELINE, "-", behind=True)
        for curve, values in zip(plan.curves, bands[method.label], strict=True):
            if values is not None:
                _draw(ax, values, curve.colour or own.colour, curve.line, points=not plan.smooth)
        if plan.level is not None:
            ax.axhline(plan.level, color=FAINT, linestyle=":", linewidth=1)
        label = method.label if method.runs else f"{method.label} (unfinished)"
        ax.set_title(wrapped(label, 34), loc="left", color=own.colour, fontweight="bold")
    _frame(panels, [b for m in shown for b in bands[m.label] if b is not None], plan)
    for place, ax in enumerate(panels):
        ax.set_ylabel(plan.unit if place % columns == 0 else "")
        ax.set_xlabel("step" if place + columns >= len(shown) else "")
    drawn = [curve for i, curve in enumerate(plan.curves) if any(bands[m.label][i] is not None for m in shown)]
    several = any(b.seeds > 1 for row in bands.values() for b in row if b is not None)
    _legend(figure, drawn, several, baseline.label if grey is not None and len(shown) > 1 else None)
    title(figure, plan.title, section.name)
    return Picture(file, png(figure), _caption(plan, window, methods, shown), f"{plan.title} on {section.name}")


def _draw(ax: Axes, values: Band, colour: str, line: str, *, behind: bool = False, points: bool = False) -> None:
    if values.seeds > 1:
        ax.fill_between(values.steps, values.low, values.high, color=colour, alpha=0.12 if behind else 0.2, linewidth=0)
    if not behind and not points:
        known = ~np.isnan(values.raw)
        ax.plot(values.steps[known], _above_0(ax, values.raw[known]), color=colour, linewidth=0.6, alpha=0.3)
    style = {"linewidth": 1.1, "alpha": 0.65} if behind else {"linewidth": 1.7}
    style |= {"marker": "o", "markersize": 3.5} if points else {}
    ax.plot(values.steps, _above_0(ax, values.mean), color=colour, linestyle=line, zorder=2 if behind else 3, **style)


def _above_0(ax: Axes, values: np.ndarray) -> np.ndarray:
    """What a logarithmic axis can show."""
    return np.where(values > 0, values, np.nan) if ax.get_yscale() == "log" else values


def _frame(panels: list[Axes], bands: Iterable[Band], plan: Plan) -> None:
    """One range for all panels, from the smoothed curves, so that a single step can't flatten the rest."""
    ends = np.concatenate([np.concatenate([b.mean] if plan.log else [b.low, b.high]) for b in bands])
    ends = ends[np.isfinite(ends)]
    ax = panels[0]
    if plan.log:
        ends = ends[ends > 0]
        low, high = (ends.min() / 1.5, ends.max() * 1.5) if len(ends) else (0.1, 10.0)
        ax.set_ylim(low, high)
        digits = (1, 2, 5) if high / low < 100 else (1, 3) if high / low < 3000 else (1,)
        ax.yaxis.set(major_locator=LogLocator(subs=digits), major_formatter="{x:g}", minor_locator=NullLocator())
    elif plan.whole:
        ax.set_ylim(-0.03, 1.03)
    else:
        low, high = ends.min(initial=0.0), ends.max(initial=0.0)
        margin = 0.05 * ((high - low) or 1.0)
        ax.set_ylim(low - margin, high + margin)


def _legend(figure: Figure, curves: list[Curve], several: bool, baseline: str | None) -> None:
    handles = [Line2D([], [], color=c.colour or INK, linestyle=c.line, linewidth=1.7, label=c.label) for c in curves]
    if several:
        handles.append(Patch(color=FAINT, alpha=0.35, linewidth=0, label="range of seeds"))
    if baseline is not None:
        handles.append(
            Line2D(
                [],
                [],
                color=BASELINE,
                linewidth=1.1,
                alpha=0.65,
                label=baseline if len(curves) == 1 else f"{baseline}, {curves[0].label}",
            )
        )
    room = figure.get_size_inches()[0] / sum(0.65 + 0.075 * len(handle.get_label()) for handle in handles)  # rough, inches
    columns = max(1, min(len(handles), int(room * len(handles))))
    figure.legend(handles=handles, loc="outside lower left", ncols=columns)


def _caption(plan: Plan, window: int, methods: list[Method], shown: list[Method]) -> str:
    smooth = (
        f"Thick: running mean of {window} steps, mean over seeds; band: least to largest of the seeds; thin: every step."
    )
    text = smooth if plan.smooth else "Mean over seeds; band: least to largest of them."
    silent = [m for m in methods if m.drawn() and plan.of_samples and not samples(m)]
    absent = [m for m in methods if m.drawn() and m not in shown and m not in silent]
    parts = [text, plan.note]
    parts += [f"Samples nothing in training: {_named(silent)}."] if silent else []
    parts += [f"No such figure: {_named(absent)}."] if absent else []
    return " ".join(filter(None, parts))


def _named(methods: list[Method]) -> str:
    return ", ".join(method.label for method in methods)

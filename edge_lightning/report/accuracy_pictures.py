"""Pictures of what came out: final accuracies, differences to the baseline, accuracy against what it cost."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from edge_lightning.report.comparison import Accuracy, Results
from edge_lightning.report.methods import Method, Section
from edge_lightning.report.style import FAINT, INK, Look, Picture, grid, png, title, wrapped
from edge_lightning.report.tables import generated_tokens, mean_over_runs, p_text, seconds_in_all

_LABEL = 38  # characters of a line of a label
_ROW = 0.3  # inches of a method
_SEED = {"s": 11, "alpha": 0.55, "linewidths": 0, "zorder": 2}


def accuracy_picture(section: Section, found: Results, look: dict[str, Look], file: str) -> Picture:
    """A row a method, best above: each seed, the mean, its interval; the policy before training as a dashed line."""
    order = list(found.accuracies[_headline(found)])
    figure, panels = _rows(found.accuracies, order)
    for ax, (name, accuracies) in zip(panels, found.accuracies.items(), strict=True):
        for row, label in enumerate(order):
            if label in accuracies:
                it = accuracies[label]
                _row(ax, row, look[label], it.by_seed, it.mean, it.interval, _mean_sd(it))
        end = min(1.0, 1.1 * max(_right_end(it) for it in accuracies.values()) + 0.01)
        ax.set_xlim(-0.015 * end, 1.015 * end)
        if name in found.before:
            ax.axvline(found.before[name], color=FAINT, linestyle="--", linewidth=1, zorder=1)
        ax.set_title(f"{name}\n", loc="left", color=INK)
        ax.text(1.02, 1.01, "mean ± sd", transform=ax.transAxes, fontsize=8, color=FAINT, va="bottom")
        ax.set_xlabel("accuracy (pass@1)")
    title(figure, "Final accuracy", section.name)
    caption = "Small points: seeds. Large ones: their mean, with its 95 % interval (seeds and problems resampled)." + (
        " Dashed: the policy before training." if found.before else ""
    )
    return Picture(file, png(figure), caption, f"Final accuracy of each method on {section.name}")


def difference_picture(
    section: Section, found: Results, baseline: Method, look: dict[str, Look], file: str
) -> Picture | None:
    """A row a method, largest difference above: each seed's difference, the mean, its interval, around a line at 0."""
    shown = {name: differences for name, differences in found.differences.items() if differences}
    if not shown:
        return None
    order = list(shown[list(shown)[-1]])
    figure, panels = _rows(shown, order)
    for ax, (name, differences) in zip(panels, shown.items(), strict=True):
        ax.axvline(0, color=INK, linewidth=1, zorder=1)
        for row, label in enumerate(order):
            if label in differences:
                it = differences[label]
                _row(ax, row, look[label], it.by_seed, it.mean, it.interval, f"{it.mean:+.3f}, {p_text(it.p_holm)}")
        ends = [v for it in differences.values() for v in (*it.interval, *it.by_seed.values(), 0.0)]
        margin = 0.06 * (max(ends) - min(ends)) + 0.005
        ax.set_xlim(min(ends) - margin, max(ends) + margin)
        ax.set_title(f"{name}\n", loc="left", color=INK)
        ax.text(1.02, 1.01, "mean, Holm's p", transform=ax.transAxes, fontsize=8, color=FAINT, va="bottom")
        ax.set_xlabel(f"accuracy minus that of {baseline.label}")
    title(figure, f"Paired differences to {baseline.label}", section.name)
    caption = (
        f"Accuracy minus that of {baseline.label}, paired by problem and seed. Small points: seeds. Large ones: their mean, "
        "with its 95 % interval (seeds and problems resampled). p: sign-flip test over problems, adjusted by Holm."
    )
    return Picture(file, png(figure), caption, f"Differences to {baseline.label} on {section.name}")


def compute_picture(section: Section, found: Results, look: dict[str, Look], file: str) -> Picture:
    """Final accuracy against tokens that the policy generated, and against seconds."""
    name = _headline(found)
    accuracies = found.accuracies[name]
    legend = sum(0.17 * (wrapped(label, _LABEL).count("\n") + 1) + 0.07 for label in accuracies) + 0.3  # inches
    figure, panels = grid(2, columns=2, width=5.2, height=max(3.9, legend - 0.75), sharey=True)
    for ax, cost, said in zip(panels, (generated_tokens, seconds_in_all), (_tokens, _time), strict=True):
        spent = {label: mean_over_runs(section.methods[label], cost) for label in accuracies}
        known = {label: value for label, value in spent.items() if value is not None}
        unit, name_of_unit = said(max(known.values(), default=0.0))
        largest = max(known.values(), default=0.0) / unit or 1.0
        for label, value in known.items():
            own, x, it = look[label], value / unit, accuracies[label]
            if it.interval:
                ax.vlines(x, *it.interval, color=own.colour, linewidth=1.4, alpha=0.7)
            ax.scatter(
                [x], [it.mean], s=46, color=own.colour, marker=own.marker, edgecolors="white", linewidths=0.6, zorder=3
            )
        ax.set_xlim(-0.04 * largest, 1.06 * largest)
        ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        ax.set_xlabel(name_of_unit)
        ax.set_ylim(bottom=-0.02)
    panels[0].set_ylabel(f"final accuracy, {name}")
    handles = [
        figure.axes[0].scatter(
            [], [], s=40, color=look[label].colour, marker=look[label].marker, label=wrapped(label, _LABEL)
        )
        for label in accuracies
    ]
    figure.legend(handles=handles, loc="outside right upper", title="best first", title_fontsize=8.5, alignment="left")
    title(figure, "Accuracy and what it cost", section.name)
    caption = (
        "Means over seeds; bars are 95 % intervals of the accuracy. Tokens: first answers and what reflections added. "
        "Time: the whole run on its machine, evaluations among it."
    )
    return Picture(file, png(figure), caption, f"Final accuracy against tokens and time on {section.name}")


def _tokens(largest: float) -> tuple[float, str]:
    """A unit in which so many tokens are easily read, and what the axis says."""
    unit, name = (1e6, "millions") if largest >= 1e6 else (1e3, "thousands")
    return unit, f"tokens generated in training, {name}"


def _time(largest: float) -> tuple[float, str]:
    """The same of seconds."""
    unit, name = (3600.0, "hours") if largest >= 4 * 3600 else (60.0, "minutes") if largest >= 120 else (1.0, "seconds")
    return unit, f"wall-clock time of the whole run, {name}"


def _headline(found: Results) -> str:
    """The benchmark that methods are ordered by: the average, where there is one."""
    return list(found.accuracies)[-1]


def _rows(panels: dict[str, dict], order: list[str]) -> tuple[Figure, list[Axes]]:
    """Panels side by side with one row a method, named on the left with the number of its seeds."""
    lines = sum(max(1, wrapped(label, _LABEL).count("\n") + 0.6) for label in order)
    width = 8.2 if len(panels) == 1 else 4.4
    figure, axes = grid(len(panels), columns=3, width=width, height=_ROW * lines + 0.75, sharey=True)
    for ax in axes:
        ax.set_ylim(len(order) - 0.5, -0.5)
        ax.grid(visible=True, axis="y", color="#f0f0f0")
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_locator(MaxNLocator(6 if len(panels) > 1 else 11, steps=[1, 2, 5, 10]))
    seeds = [max(len(found[label].by_seed) for found in panels.values() if label in found) for label in order]
    names = [f"{wrapped(label, _LABEL)}  ({n})" for label, n in zip(order, seeds, strict=True)]
    axes[0].set_yticks(range(len(order)), names)
    return figure, axes


def _row(
    ax: Axes, row: int, look: Look, by_seed: dict, mean: float, interval: tuple[float, float] | None, note: str
) -> None:
    if interval is not None:
        ax.hlines(row, *interval, color=look.colour, linewidth=2.2, alpha=0.75, zorder=2)
    ax.scatter(list(by_seed.values()), [row + 0.24] * len(by_seed), color=look.colour, **_SEED)  # below the interval
    ax.scatter([mean], [row], s=52, color=look.colour, marker=look.marker, edgecolors="white", linewidths=0.7, zorder=3)
    ax.text(1.02, row, note, transform=ax.get_yaxis_transform(), va="center", fontsize=8, color=INK)


def _mean_sd(it: Accuracy) -> str:
    return f"{it.mean:.3f}" + ("" if it.sd is None else f" ± {it.sd:.3f}")


def _right_end(it: Accuracy) -> float:
    return max(it.interval[1] if it.interval else 0.0, *it.by_seed.values(), 0.0)

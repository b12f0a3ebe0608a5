"""What the analyses of records draw: points with intervals, distributions, curves over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge_lightning.report.style import FAINT, columns_for, grid, looks, png, styled
from edge_lightning.report.style import title as heading


@dataclass(frozen=True)
class Dot:
    """A value with its interval; None where there is none."""

    label: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    """A curve over steps, with a band where it has one."""

    label: str
    steps: Sequence[int]
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def dots(series: Mapping[str, Sequence[Dot]], *, title: str, x: str, below: str = "with 95 % intervals") -> bytes | None:
    """A row a label, a colour a series; None where no series has a value."""
    labels = list(dict.fromkeys(dot.label for own in series.values() for dot in own))
    if not any(dot.value is not None for own in series.values() for dot in own):
        return None
    with styled():
        figure, (ax,) = grid(1, columns=1, width=7.5, height=max(1.2, 0.42 * len(labels) + 0.5))
        for place, (name, own) in enumerate(series.items()):
            look = list(looks(series, ()).values())[place]
            if all(dot.value is None for dot in own):
                continue
            offset = (place - (len(series) - 1) / 2) * 0.24
            for dot in own:
                if dot.value is not None:
                    y = labels.index(dot.label) + offset
                    ax.plot([dot.low, dot.high], [y, y], color=look.colour, linewidth=1.4)
                    ax.plot(dot.value, y, look.marker, color=look.colour, markersize=5)
            ax.plot([], [], look.marker, color=look.colour, label=name)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.set_xlabel(x)
        ax.grid(visible=False, axis="y")
        if len(series) > 1:
            ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
        heading(figure, title, below)
        return png(figure)


def distributions(panels: Mapping[str, Mapping[str, Sequence[float]]], *, title: str, x: str) -> bytes:
    """A panel each: shares by value of the series, and a line at the mean of all."""
    with styled():
        figure, axes = grid(len(panels), columns=columns_for(len(panels)), width=3.6, height=2.3)
        for ax, (name, series) in zip(axes, panels.items()):
            everything = np.concatenate([np.asarray(own) for own in series.values()])
            bins = np.linspace(0, max(float(np.quantile(everything, 0.995)), 1e-6), 31)
            for (label, own), look in zip(series.items(), looks(series, ()).values()):
                if len(own):
                    weights = np.full(len(own), 1 / len(own))
                    ax.hist(np.clip(own, 0, bins[-1]), bins, weights=weights, alpha=0.55, color=look.colour, label=label)
            ax.axvline(everything.mean(), color=FAINT, linewidth=1, linestyle="--", label="mean of all")
            ax.set_title(name, loc="left")
            ax.set_xlabel(x)
            ax.set_ylabel("share")
        axes[0].legend()
        heading(figure, title, "shares of each kind")
        return png(figure)


def curves(panels: Mapping[str, tuple[str, Sequence[Line]]], *, title: str, below: str) -> bytes:
    """A panel each: its unit and its lines."""
    with styled():
        figure, axes = grid(len(panels), columns=min(2, len(panels)), width=4.6, height=2.6)
        names = dict.fromkeys(line.label for _, lines in panels.values() for line in lines)
        look = looks(names, ())
        for ax, (name, (unit, lines)) in zip(axes, panels.items()):
            for line in lines:
                own = look[line.label]
                mark = {"marker": own.marker if len(line.steps) < 3 else None, "markersize": 3}
                ax.plot(line.steps, line.values, color=own.colour, linewidth=1.5, label=line.label, **mark)
                if line.low is not None:
                    ax.fill_between(line.steps, line.low, line.high, color=own.colour, alpha=0.18, linewidth=0)
            ax.set_title(name, loc="left")
            ax.set_xlabel("step")
            ax.set_ylabel(unit)
            if all(min(line.values) >= 0 for line in lines):
                ax.set_ylim(bottom=0)  # an interval may go below what a variance or an entropy can be
        if len(names) > 1:
            marks = [ax.plot([], [], color=look[name].colour, label=name)[0] for name in names]
            figure.legend(handles=marks, loc="outside right upper")
        heading(figure, title, below)
        return png(figure)

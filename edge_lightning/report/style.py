"""How every picture looks: fonts, one colour and marker a method, and how it becomes bytes.

Colours are from the palettes of Okabe & Ito (2008), Color universal design, and of Paul Tol (SRON technical note 09-002),
which stay apart for colour-blind readers. A marker goes with each colour, so that neither has to carry a method alone.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

BASELINE = "#555555"
DPI = 150
INK, FAINT = "#222222", "#8a8a8a"
_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#332288", "#882255", "#999933", "#44AA99", "#CC6677", "#117733"),
)
_MARKERS = "os^Dv<>pd"
_SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
}


@dataclass(frozen=True)
class Picture:
    """A picture and what is said below it.

    Attributes:
        file: name of its PNG.
        caption: what is drawn, in plain text.
        alt: what it shows, for those who can't see it.
    """

    file: str
    png: bytes
    caption: str
    alt: str


@dataclass(frozen=True)
class Look:
    """Of one method, in every picture."""

    colour: str
    marker: str


def looks(labels: Iterable[str], baselines: Iterable[str]) -> dict[str, Look]:
    """One look a label: grey for baselines, the others by name, so that a result changes no colour."""
    plain = set(baselines)
    found = {label: Look(BASELINE, "o") for label in plain}
    for i, label in enumerate(sorted(set(labels) - plain)):
        n = len(_COLOURS)
        found[label] = Look(_COLOURS[i % n], _MARKERS[(i + i // n) % len(_MARKERS)])
    return found


@contextmanager
def styled() -> Iterator[None]:
    """The settings above over matplotlib's own, whatever a user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def columns_for(count: int) -> int:
    """Of a grid of many panels: 4, or what leaves fewer places empty."""
    return count if count <= 4 else min((4, 5, 3), key=lambda columns: -count % columns)


def grid(count: int, *, columns: int, width: float, height: float, **shared: object) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, at most `columns` in a row; a panel without one below it has its own tick labels.

    Args:
        width, height: of a panel, inches.
    """
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(columns * width, rows * height + 0.75), layout="constrained", dpi=DPI)
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for place, ax in enumerate(axes):
        if place >= count:
            ax.remove()
        elif place + columns >= count:
            ax.tick_params(labelbottom=True)
            ax.xaxis.set_in_layout(place // columns == rows - 1)  # labels hang into an empty place, and no row moves apart
    return figure, axes[:count]


def title(figure: Figure, text: str, below: str) -> None:
    """Two lines at the top left, the first one bold."""
    line = {"ha": "left", "va": "top", "fontsize": 11, "color": INK}
    figure.suptitle(f"{text}\n ", x=0.01, fontweight="bold", **line)
    gap = figure.get_layout_engine().get()["h_pad"]  # inches, above the first line
    figure.text(0.01, 1 - gap / figure.get_size_inches()[1], f"\n{below}", **{**line, "color": FAINT})


def png(figure: Figure) -> bytes:
    """The same figure gives the same bytes; 256 colours are enough for it and take a third of the space."""
    canvas, packed = figure.canvas, io.BytesIO()
    canvas.draw()  # once, where savefig draws twice for the layout
    image = Image.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE).save(
        packed, format="PNG", optimize=True
    )
    return packed.getvalue()


def wrapped(label: str, width: int = 30) -> str:
    """A long label on several lines, broken between its overrides alone."""
    return "\n".join(textwrap.wrap(label, width, break_long_words=False, break_on_hyphens=False))

"""What is drawn of the words at the two ends of the entropies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from edge_lightning.report.style import FAINT, INK, Picture, grid, looks, png, styled, title

_ROW = 0.24  # inches of a word


@dataclass(frozen=True)
class Bar:
    """A word: its z-score, how often it stands at this end, and how often in all."""

    word: str
    z: float
    there: int
    in_all: int


def lexical_picture(bars: Mapping[str, Sequence[Bar]], *, unit: str, share: float, words: int, file: str) -> Picture:
    """A panel for each end, a row a word, the largest z above."""
    rows = max(1, *map(len, bars.values()))
    with styled():
        figure, panels = grid(len(bars), columns=len(bars), width=4.6, height=max(1.4, _ROW * rows + 0.5))
        for ax, (end, own), look in zip(panels, bars.items(), looks(bars, ()).values(), strict=True):
            ax.barh(range(len(own)), [bar.z for bar in own], color=look.colour, height=0.7)
            ax.set_yticks(range(len(own)), [_plain(bar.word) for bar in own], family="monospace")
            ax.set_ylim(rows - 0.5, -0.5)
            ax.grid(visible=False, axis="y")
            ax.tick_params(axis="y", length=0)
            ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
            ax.set_xlabel("z of log-odds")
            ax.set_title(f"{end} {100 * share:.3g} % of entropy\n", loc="left", color=INK)
            ax.text(1.02, 1.01, "there / in all", transform=ax.transAxes, fontsize=8, color=FAINT, va="bottom")
            for row, bar in enumerate(own):
                ax.text(
                    1.02, row, f"{bar.there:,} / {bar.in_all:,}", transform=ax.get_yaxis_transform(), va="center", fontsize=8
                )
        title(figure, "Words by entropy", f"{words:,} {unit}s of the policy's responses")
        content = png(figure)
    caption = (
        f"The {unit}s that stand more often among the {100 * share:.3g} % of highest (lowest) entropy than among the "
        "others, by the z-score of their log-odds with an informative Dirichlet prior; how often there, and in all."
    )
    return Picture(file, content, caption, f"Over-represented {unit}s at both ends of the policy's entropies")


def _plain(word: str) -> str:
    """A label in which matplotlib reads no mathematics."""
    return word.replace("$", r"\$")

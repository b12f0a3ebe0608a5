"""Draws a group before and after correction: python scripts/group_picture.py RUN STEP PROBLEM OUT.png. README.md shows one.

What inspect shows, small enough for a glance: what the policy said, what is trained on in its place with tokens shaded by
entropy, and how much each counts before and after credit.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from edge_lightning.inspection.rollouts import Group, groups_of, read_rows, rollout_folder
from edge_lightning.inspection.tokens import INJECTED, Piece, Reader
from edge_lightning.report.provenance import look
from edge_lightning.report.style import DPI, FAINT, INK, png

BEFORE, AFTER = 47, 55  # characters in a line of either column
LEFT, MIDDLE, SUMS, BARS, END = 3, 53, 111, 132, 147  # where columns begin, in characters
SIZE = 7.2  # points
WIDE, HIGH = 0.602 * SIZE / 72, 1.62 * SIZE / 72  # of a character and a line of DejaVu Sans Mono, inches
HEAT, RIGHT, WRONG = "#7c3aed", "#1a7f37", "#b42318"


def draw(group: Group, reader: Reader) -> bytes:
    """The PNG."""
    pieces = [reader.pieces(row) for row in group.responses]
    known = sorted(p.entropy for own in pieces for p in own if p.entropy is not None)
    hottest = max(known[int(0.95 * (len(known) - 1))], 1e-3)
    befores = [textwrap.wrap(row["sampled_text"], BEFORE) for row in group.responses]
    afters = [wrapped(own, AFTER) for own in pieces]
    heights = [max(len(before), len(after), 2) + 0.7 for before, after in zip(befores, afters)]
    lines = sum(heights) + 6.2
    figure = Figure(figsize=(END * WIDE, lines * HIGH), facecolor="white", dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, END), ylim=(lines, 0))
    axes.axis("off")

    def text(
        x: float, y: float, words: str, colour: str = INK, weight: str = "normal", align: str = "left", math=False
    ) -> None:
        axes.text(
            x, y, words, color=colour, fontsize=SIZE, family="DejaVu Sans Mono", weight=weight, ha=align, va="center",
            parse_math=math,
        )  # fmt: skip

    size = len(group.responses)
    question = max(reader.prompt(group.responses[0]).splitlines(), key=len)  # the other lines are the roles
    text(1, 1, textwrap.shorten(question, END - 2), weight="bold")
    text(1, 2, f"the answer is {' or '.join(group.responses[0]['gold'])}", FAINT)
    text(LEFT, 3.6, f"what the policy sampled: {group.right_sampled} of {size} right", weight="bold")
    text(MIDDLE, 3.6, f"what is trained on after correction: {group.right} of {size} right", weight="bold")
    for place, symbol in zip((6, 13, 20), ("$A$", r"$\hat{P}$", r"$\hat{A}$")):
        text(SUMS + place, 3.6, symbol, align="right", math=True)
    largest = max(abs(final(row)) for row in group.responses) or 1.0
    zero = (BARS + END) / 2
    y = 4.6
    for row, before, after, height in zip(group.responses, befores, afters, heights):
        axes.plot([1, END - 1], [y, y], color="#dddddd", linewidth=0.6)
        top = y + 0.85
        text(1, top, str(row["response_index"]), FAINT)
        own = look(row["provenance"])
        for number, line in enumerate(before):
            text(LEFT, top + number, line, RIGHT if row["sampled_right"] else WRONG)
        for number, line in enumerate(after):
            for place, piece in line:
                heat = min(1.0, (piece.entropy or 0.0) / hottest)
                box = Rectangle((MIDDLE + place, top + number - 0.46), len(piece.text), 0.92, linewidth=0)
                box.set(facecolor=HEAT, alpha=0.55 * heat)
                axes.add_patch(box)
                put_in = piece.origin == INJECTED
                if put_in:
                    ends = [MIDDLE + place, MIDDLE + place + len(piece.text)]
                    axes.plot(ends, [top + number + 0.44] * 2, color=own, linewidth=1.4, solid_capstyle="butt")
                text(MIDDLE + place, top + number, piece.text, INK)
        phat = "     –" if row["relative_entropy"] is None else f"{row['relative_entropy']:6.2f}"
        text(SUMS, top, f"{row['advantage']:+6.2f} {phat} {final(row):+6.2f}")
        text(SUMS, top + 1, row["provenance"].replace("_", " "), own)
        bar = Rectangle((zero, top - 0.35), final(row) / largest * (END - 2 - zero), 0.7, linewidth=0, facecolor=own)
        axes.add_patch(bar)
        axes.plot([zero, zero], [y, y + height], color=FAINT, linewidth=0.6)
        y += height
    axes.plot([1, END - 1], [y, y], color="#dddddd", linewidth=0.6)
    text(1, y + 0.9, f"shaded: entropy of the token, up to {hottest:.1f} nats; underlined: put in by correction", FAINT)
    return png(figure)


def final(row: dict) -> float:
    """Mean advantage of its tokens after credit."""
    return sum(row["token_advantages"]) / len(row["token_advantages"])


def wrapped(pieces: list[Piece], width: int) -> list[list[tuple[int, Piece]]]:
    """Lines of pieces, each with its place in the line, broken in front of a piece that begins with a space."""
    lines, place, words = [[]], 0, []
    for piece in pieces:
        shown = replace(piece, text="" if piece.special else piece.text.replace("\n", " "))
        words = [*words, [shown]] if not words or shown.text.startswith(" ") else [*words[:-1], [*words[-1], shown]]
    for word in words:
        if place and place + sum(len(piece.text) for piece in word) > width:
            lines, place = [*lines, []], 0
            word[0] = replace(word[0], text=word[0].text.lstrip())
        for piece in word:
            lines[-1].append((place, piece))
            place += len(piece.text)
    return lines


if __name__ == "__main__":
    run, step, problem, out = sys.argv[1:]
    found = {group.problem_id: group for group in groups_of(read_rows(rollout_folder(Path(run)), int(step)))}
    Path(out).write_bytes(draw(found[problem], Reader(Path(run))))

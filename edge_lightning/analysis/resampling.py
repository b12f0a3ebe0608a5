"""Resampling probe: does a response's fate hang on the places where the policy was unsure?

Each response is cut where a window of W tokens of the highest (lowest) mean entropy begins, and the policy goes on from
there N times. How often that ends right, for right and for wrong responses, tells whether those places decide.
Source: EAPO (arXiv:2609.33781), N = 64. Our notes of it give no W, so it is a setting. docs/analyses.md has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from edge_lightning.analysis.base import Findings, Measured, Tools, parquet, spread
from edge_lightning.analysis.continuation import Cut
from edge_lightning.analysis.windows import extreme_windows
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.evaluation.scores import mean_with_interval
from edge_lightning.report.statistics import crossed_interval
from edge_lightning.report.tables import NOTHING, Table, interval_text
from edge_lightning.seeds import counter_seed

HIGHEST, LOWEST = "highest", "lowest"
KINDS = ("right", "wrong")
PUBLISHED = {("right", HIGHEST): 0.390, ("right", LOWEST): 0.578, ("wrong", HIGHEST): 0.163, ("wrong", LOWEST): 0.070}
SCHEMA = pa.schema(
    [
        ("problem_id", pa.string()),
        ("response_index", pa.int32()),
        ("correct", pa.bool_()),
        ("tokens", pa.int32()),
        ("window", pa.string()),
        ("start", pa.int32()),
        ("window_entropy", pa.float64()),
        ("continuations", pa.int32()),
        ("right_continuations", pa.int32()),
    ]
)


class Resampling:
    """Cuts responses at two windows and goes on from there.

    Args:
        window: W, consecutive response tokens, the end of sequence among them.
        continuations: N of each cut.
        responses_of_a_kind: at most so many right responses and as many wrong ones, spread over problems; None: all.
        windows_at_start: whether a window may begin with the first token of a response, where nothing of it is kept.
    Raises:
        UserError: a count is below 1.
    """

    def __init__(
        self,
        *,
        name: str,
        window: int,
        continuations: int = 64,
        responses_of_a_kind: int | None = None,
        windows_at_start: bool = True,
    ):
        require_at_least_one("analysis.window", window)
        require_at_least_one("analysis.continuations", continuations)
        require_at_least_one("analysis.responses_of_a_kind", responses_of_a_kind)
        self.name, self.window, self.continuations = name, window, continuations
        self.responses_of_a_kind, self.windows_at_start = responses_of_a_kind, windows_at_start

    def __call__(self, measured: Sequence[Measured], tools: Tools) -> Findings:
        """Raises UserError where no response holds a window."""
        first = 0 if self.windows_at_start else 1
        windows = {id(it): extreme_windows(it.entropies_T, self.window, first_start=first) for it in measured}
        long = [it for it in measured if windows[id(it)] is not None]
        if not long:
            raise UserError(
                f"analysis.window={self.window}: no window fits into any of {len(measured)} responses, the longest of which "
                f"has {max(len(it.entropies_T) for it in measured)} tokens; lower it"
            )
        chosen = []
        for right in (True, False):
            alike = [it for it in long if it.response.grade.right is right]
            chosen += spread(alike, self.responses_of_a_kind, seed=tools.seed)
        rows, cuts = [], []
        for it in chosen:
            for window, start in zip((HIGHEST, LOWEST), windows[id(it)]):
                rows.append(self._row(it, window, start))
                cuts += self._cuts(it, window, start, tools.seed)
        with tools.show("continuations", len(cuts)) as advance:
            made = tools.continuer(cuts, advance)
        for number, row in enumerate(rows):
            own = made[number * self.continuations : (number + 1) * self.continuations]
            row["right_continuations"] = sum(response.grade.right for response in own)
        return self._findings(rows, measured, len(measured) - len(long))

    def _row(self, it: Measured, window: str, start: int) -> dict:
        return {
            "problem_id": it.response.problem.id,
            "response_index": it.response.index,
            "correct": it.response.grade.right,
            "tokens": len(it.entropies_T),
            "window": window,
            "start": start,
            "window_entropy": float(it.entropies_T[start : start + self.window].mean()),
            "continuations": self.continuations,
        }

    def _cuts(self, it: Measured, window: str, start: int, seed: int) -> list[Cut]:
        """The tokens before the window are kept, its first one is drawn anew."""
        response = it.response
        counters = seed, "resampling", response.problem.id, response.index, window
        kept = response.completion_ids[:start]
        return [Cut(response, kept, counter_seed(*counters, n)) for n in range(self.continuations)]

    def _findings(self, rows: list[dict], measured: Sequence[Measured], short: int) -> Findings:
        cells = {(kind, window): _cell(rows, kind, window) for kind in KINDS for window in (HIGHEST, LOWEST)}
        differences = {kind: _difference(rows, kind) for kind in KINDS}
        right = sum(it.response.grade.right for it in measured)
        figures = {
            "responses": {"right": right, "wrong": len(measured) - right, "without_a_window": short},
            "window": self.window,
            "continuations": self.continuations,
            "cells": {f"{kind}/{window}": cell for (kind, window), cell in cells.items()},
            "highest_minus_lowest": differences,
            "published": {f"{kind}/{window}": share for (kind, window), share in PUBLISHED.items()},
        }
        header = ("response, window", "responses", "right continuations", "95 % interval", "entropy", "kept", "EAPO's")
        table = Table(header, tuple(_cells_of(*key, cell) for key, cell in cells.items()))
        notes = [
            f"right continuations: share of {self.continuations} of each response, mean over responses, which the interval "
            "draws anew; kept: share of a response before the window; EAPO's: as published, of other policies",
            *(_told(kind, it) for kind, it in differences.items() if it is not None),
            *(f"{kind} responses with a window: none, so their cells are empty" for kind in KINDS if not differences[kind]),
        ]
        if short:
            notes.append(f"left out: {short} of {len(measured)} responses, which hold no window of {self.window} tokens")
        return Findings({"": table}, notes, figures, {f"{self.name}.parquet": parquet(rows, SCHEMA)})


def _cell(rows: Sequence[dict], kind: str, window: str) -> dict | None:
    """Share of right continuations with its interval over responses; None where there is no such response."""
    own = [row for row in rows if row["correct"] is (kind == "right") and row["window"] == window]
    if not own:
        return None
    share, low, high = mean_with_interval(_shares(own))
    return {
        "responses": len(own),
        "share": share,
        "low": low,
        "high": high,
        "window_entropy": float(np.mean([row["window_entropy"] for row in own])),
        "kept": float(np.mean([row["start"] / row["tokens"] for row in own])),
    }


def _difference(rows: Sequence[dict], kind: str) -> dict | None:
    """Share after the highest window minus that after the lowest one of the same response, mean over responses."""
    own = {
        window: [r for r in rows if r["correct"] is (kind == "right") and r["window"] == window]
        for window in (HIGHEST, LOWEST)
    }
    if not own[HIGHEST]:
        return None
    differences = np.subtract(_shares(own[HIGHEST]), _shares(own[LOWEST]))
    low, high = crossed_interval(differences[None])
    return {"mean": float(differences.mean()), "low": low, "high": high}


def _shares(rows: Sequence[dict]) -> list[float]:
    return [row["right_continuations"] / row["continuations"] for row in rows]


def _cells_of(kind: str, window: str, cell: dict | None) -> tuple[str, ...]:
    label, published = f"{kind}, {window}", f"{PUBLISHED[kind, window]:.3f}"
    if cell is None:
        return label, "0", *(NOTHING,) * 4, published
    numbers = f"{cell['share']:.3f}", interval_text((cell["low"], cell["high"]))
    return label, f"{cell['responses']:,}", *numbers, f"{cell['window_entropy']:.3f}", f"{cell['kept']:.2f}", published


def _told(kind: str, it: dict) -> str:
    interval = interval_text((it["low"], it["high"]), sign=True)
    return f"{kind} responses: highest minus lowest {it['mean']:+.3f} {interval}, paired by response"

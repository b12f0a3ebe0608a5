"""What an analysis is given and what it gives: responses with their token entropies in; tables, figures and files out."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.analysis.continuation import Continuer
from edge_lightning.policy import Policy
from edge_lightning.report.tables import Table
from edge_lightning.seeds import counter_uniform
from edge_lightning.types import Response

Advance = Callable[[int], None]  # told how many are done
Show = Callable[[str, int], AbstractContextManager[Advance]]  # told what is done and how many there are


@dataclass(frozen=True)
class Measured:
    """A graded response of the policy.

    Attributes:
        entropies_T: of the policy's distribution that each response token was drawn from, nats, at the sampling temperature.
    """

    response: Response
    entropies_T: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What a probe may use beside the responses.

    Attributes:
        continuer: goes on from the middle of a response.
        seed: of the run; every draw of an analysis is a function of it.
        show: a bar for as long as something takes.
    """

    policy: Policy
    continuer: Continuer
    seed: int
    show: Show


@dataclass(frozen=True)
class Findings:
    """What came of an analysis.

    Attributes:
        tables: title (none for the only one) -> what is told on the terminal.
        notes: lines below them.
        figures: the same as numbers, for summary.json; None where there is nothing to take a figure of.
        files: name -> content.
    """

    tables: Mapping[str, Table]
    notes: Sequence[str]
    figures: dict
    files: Mapping[str, bytes] = field(default_factory=dict)


class Analysis(Protocol):
    """A question put to sampled responses.

    Attributes:
        name: of its files.
    """

    name: str

    def __call__(self, measured: Sequence[Measured], tools: Tools) -> Findings:
        """Its findings on the responses.

        Raises:
            UserError: there is nothing in them to look at.
        """


def spread(measured: Sequence[Measured], count: int | None, *, seed: int) -> list[Measured]:
    """At most `count` of the responses, drawn by seed and spread over as many problems as there are; None: all of them.

    One response of each problem comes first, then a second one of each, and so on, problems and responses in an order that
    hashes decide. So a larger draw contains the smaller one. They are given back in the order in which they came.
    """
    drawn: dict[str, list[tuple[float, int]]] = {}
    for place, it in enumerate(measured):
        name = it.response.problem.id
        drawn.setdefault(name, []).append((counter_uniform(seed, "spread", name, it.response.index), place))
    order = sorted((turn, draw, place) for draws in drawn.values() for turn, (draw, place) in enumerate(sorted(draws)))
    return [measured[place] for place in sorted(place for _, _, place in order[:count])]


def parquet(rows: Sequence[dict], schema: pa.Schema) -> bytes:
    """The rows as the content of a file."""
    packed = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), packed, compression="zstd")
    return packed.getvalue()

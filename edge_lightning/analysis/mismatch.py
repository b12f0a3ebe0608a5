"""Is a sure response a right one? Of responses as they were sampled. (Table 3 and Figure 3 of EDGE-GRPO, arXiv:2507.21848)

    RCM = (mean entropy of right responses - mean entropy of wrong ones) / mean entropy of all
    mismatch: the share of wrong responses with an entropy below the mean, and of right ones with one above it

The paper finds about half of the wrong ones sure, and about a third of the right ones unsure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from edge_lightning.analysis.base import Findings, parquet
from edge_lightning.analysis.clustered import ratio, share_with_interval, sums_by_problem, with_interval
from edge_lightning.analysis.collected import Answer, Source
from edge_lightning.analysis.pictures import distributions
from edge_lightning.report.tables import NOTHING, Table, interval_text

NAMES = ("rcm", "wrong_below_mean", "right_above_mean")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("method", "model", "sampled_in")),
        *((name, pa.int64()) for name in ("right", "wrong", "without_entropy")),
        *((name, pa.float64()) for name in ("entropy_right", "entropy_wrong", "entropy")),
        *((f"{name}{end}", pa.float64()) for name in NAMES for end in ("", "_low", "_high")),
    ]
)


def rcm(sums: np.ndarray) -> np.ndarray:
    """From sums of (right, entropy of right, wrong, entropy of wrong): a figure of clustered.with_interval."""
    everything = np.stack([sums[..., 1] + sums[..., 3], sums[..., 0] + sums[..., 2]], axis=-1)
    mean = ratio(everything, 0, 1)
    return np.divide(ratio(sums, 1, 0) - ratio(sums, 3, 2), mean, out=np.full(np.shape(mean), np.nan), where=mean > 0)


def mismatch(collected: Sequence[tuple[Source, Sequence[Answer]]]) -> Findings:
    """A row for each method, model and place of sampling of which entropies are known."""
    members: dict[tuple, list[Answer]] = defaultdict(list)
    for source, answers in collected:
        for answer in answers:
            members[source.label, source.model, answer.source].append(answer)
    known = {key: [a for a in own if a.entropy is not None] for key, own in members.items()}
    rows = [_row(key, own, len(members[key]) - len(own)) for key, own in known.items() if own]
    if not rows:
        note = "mismatch: no response has an entropy; set module.entropy_every_n_steps, or run analyze ckpt=DIR"
        return Findings({}, [note], {"mismatch": None})
    header = ("sampled by", "right", "wrong", "entropy of right", "of wrong", "RCM", "95 % interval")
    header += ("wrong below mean", "95 %", "right above mean", "95 %")
    notes = [
        "RCM: mean entropy of right less that of wrong responses, over the mean of all; below (above) mean: share of wrong "
        "(right) responses with less (more) entropy than the mean of all. Of what was sampled before correction; steps of "
        "which not every response was scored are left out, and so are responses that a reference solution replaced"
    ]
    drawn = {
        f"{key[0]}, {key[2]}": {
            "right": [a.entropy for a in own if a.right],
            "wrong": [a.entropy for a in own if not a.right],
        }
        for key, own in known.items()
        if own
    }
    picture = distributions(drawn, title="Entropy of right and of wrong responses", x="mean entropy, nats")
    files = {"mismatch.parquet": parquet(rows, SCHEMA), "mismatch.png": picture}
    return Findings({"entropy and correctness": Table(header, tuple(map(_cells, rows)))}, notes, {"mismatch": rows}, files)


def _row(key: tuple, answers: Sequence[Answer], without: int) -> dict:
    right, entropy = np.array([a.right for a in answers]), np.array([a.entropy for a in answers])
    mean = entropy.mean()  # of all problems, also in resamples, where the shares are taken against it
    columns = (right, right * entropy, ~right, ~right * entropy, ~right & (entropy < mean), right & (entropy > mean))
    sums = sums_by_problem([a.problem_id for a in answers], columns)
    figures = {
        "rcm": with_interval(sums, rcm),
        "wrong_below_mean": share_with_interval(sums, 4, 2),
        "right_above_mean": share_with_interval(sums, 5, 0),
    }
    row = dict(zip(("method", "model", "sampled_in"), key))
    row |= {"right": int(right.sum()), "wrong": int((~right).sum()), "without_entropy": without, "entropy": float(mean)}
    for name, of_it in (("right", right), ("wrong", ~right)):
        row[f"entropy_{name}"] = float(entropy[of_it].mean()) if of_it.any() else None
    for name, found in figures.items():
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), found or (None, None, None)))
    return row


def _cells(row: dict) -> tuple[str, ...]:
    def plain(name: str, sign: str = "") -> str:
        return NOTHING if row[name] is None else f"{row[name]:{sign}.3f}"

    figures = []
    for name in NAMES:
        interval = None if row[name] is None else (row[f"{name}_low"], row[f"{name}_high"])
        figures += [plain(name, "+" if name == "rcm" else ""), interval_text(interval, sign=name == "rcm")]
    named = f"{row['method']}, {row['model']}, {row['sampled_in']}"
    counts = f"{row['right']:,}", f"{row['wrong']:,}"
    return named, *counts, plain("entropy_right"), plain("entropy_wrong"), *figures

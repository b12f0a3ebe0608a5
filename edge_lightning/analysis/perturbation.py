"""Perturbation probe: what does it cost to replace the tokens of which the policy was least, or most, sure?

In each response the share of tokens of the highest entropy, of the lowest, or as many at random are replaced, all in one go;
behind the last of them the policy goes on by itself, and the whole is graded.

    loss = accuracy of the responses as sampled - accuracy of the perturbed ones

Source: EP-GRPO (arXiv:2605.04960), which replaces 5 % and finds the loss of the highest to be over 3.5 times that of the
lowest. Our notes of it say neither what tokens are replaced by nor how accuracy is measured then; docs/decisions/ has the
reasons of the reading that was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from edge_lightning.analysis.base import Findings, Measured, Tools, parquet, spread
from edge_lightning.analysis.continuation import Cut
from edge_lightning.analysis.positions import Which, chosen_positions, share_of
from edge_lightning.analysis.replacement import Replacement, logits_at, other_tokens, plain_tokens
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.evaluation.metrics import right_by_problem
from edge_lightning.evaluation.scores import mean_with_interval
from edge_lightning.report.statistics import crossed_interval
from edge_lightning.report.tables import NOTHING, Table, interval_text
from edge_lightning.seeds import counter_seed, counter_uniform

CHOICES: tuple[Which, ...] = ("highest", "lowest", "random")
PUBLISHED_RATIO = 3.5  # "over"
SCHEMA = pa.schema(
    [
        ("problem_id", pa.string()),
        ("response_index", pa.int32()),
        ("correct", pa.bool_()),
        ("tokens", pa.int32()),
        ("replaced", pa.string()),
        ("draw", pa.int32()),
        ("positions", pa.list_(pa.int32())),
        ("entropies", pa.list_(pa.float64())),
        ("original_ids", pa.list_(pa.int32())),
        ("replacing_ids", pa.list_(pa.int32())),
        ("perturbed_text", pa.string()),
        ("perturbed_correct", pa.bool_()),
        ("perturbed_finish_reason", pa.string()),
    ]
)


class Perturbation:
    """Replaces tokens and goes on behind the last of them.

    Args:
        share: of the response tokens, the end of sequence not among them, that are replaced; at least one is.
        replace_with: "sampled_other", a token drawn from the policy's distribution at that place of the sampled response,
            without the original; "sampled", with it; "uniform", any other token of the vocabulary; "original", the same
            token again, a control.
        draws: perturbed versions of a response, for each way of choosing.
        responses: at most so many, spread over problems; None: all.
    Raises:
        UserError: a count is below 1, or the share is none.
    """

    def __init__(
        self,
        *,
        name: str,
        share: float = 0.05,
        replace_with: Replacement = "sampled_other",
        draws: int = 1,
        responses: int | None = None,
    ):
        if not 0 < share <= 1:
            raise UserError(f"analysis.share={share}: above 0 and at most 1 expected")
        require_at_least_one("analysis.draws", draws)
        require_at_least_one("analysis.responses", responses)
        self.name, self.share, self.replace_with = name, share, replace_with
        self.draws, self.responses = draws, responses

    def __call__(self, measured: Sequence[Measured], tools: Tools) -> Findings:
        """Raises UserError where no response has a token that may be replaced."""
        eos_ids = tools.policy.eos_ids
        with_tokens = [it for it in measured if _replaceable(it, eos_ids)]
        if not with_tokens:
            raise UserError(
                f"{len(measured)} responses came, each of its end of sequence alone; raise rollout.group_size or problems"
            )
        chosen = spread(with_tokens, self.responses, seed=tools.seed)
        plain_V = plain_tokens(tools.policy)
        rows, cuts = [], []
        with tools.show("replacements", len(chosen)) as advance:
            for done, it in enumerate(chosen, start=1):
                for row, cut in self._perturbed(it, plain_V, tools):
                    rows.append(row)
                    cuts.append(cut)
                advance(done)
        with tools.show("continuations", len(cuts)) as advance:
            made = tools.continuer(cuts, advance)
        for row, response in zip(rows, made, strict=True):
            row |= {
                "perturbed_text": response.text,
                "perturbed_correct": response.grade.right,
                "perturbed_finish_reason": response.finish_reason,
            }
        return self._findings(rows, len(measured) - len(with_tokens))

    def _perturbed(self, it: Measured, plain_V, tools: Tools) -> list[tuple[dict, Cut]]:
        """A row and a cut for each way of choosing and each draw."""
        response, ids = it.response, it.response.completion_ids
        tokens = _replaceable(it, tools.policy.eos_ids)
        counters = tools.seed, "perturbation", response.problem.id, response.index
        places = {
            which: chosen_positions(
                it.entropies_T[:tokens], share_of(self.share, tokens), which, seed=counter_seed(*counters, which)
            )
            for which in CHOICES
        }
        everywhere = sorted({position for positions in places.values() for position in positions})
        row_of = {position: row for row, position in enumerate(everywhere)}
        logits = logits_at(tools.policy, response, everywhere)
        made = []
        for which, positions in places.items():
            original = [ids[position] for position in positions]
            for number in range(self.draws):
                new = other_tokens(
                    logits[[row_of[position] for position in positions]],
                    original,
                    plain_V,
                    [counter_uniform(*counters, which, number, "token", position) for position in positions],
                    how=self.replace_with,
                    temperature=tools.policy.temperature,
                )
                row = {
                    "problem_id": response.problem.id,
                    "response_index": response.index,
                    "correct": response.grade.right,
                    "tokens": tokens,
                    "replaced": which,
                    "draw": number,
                    "positions": positions,
                    "entropies": it.entropies_T[positions].tolist(),
                    "original_ids": original,
                    "replacing_ids": new,
                }
                kept = with_replaced(ids, positions, new)
                made.append((row, Cut(response, kept, counter_seed(*counters, which, number, "continuation"))))
        return made

    def _findings(self, rows: Sequence[dict], empty: int) -> Findings:
        sampled = _by_problem([row for row in rows if row["replaced"] == CHOICES[0] and row["draw"] == 0], "correct")
        accuracy, low, high = mean_with_interval(sampled)
        found = {which: _figures([row for row in rows if row["replaced"] == which], sampled) for which in CHOICES}
        losses = {which: it["loss"] for which, it in found.items()}
        defined = losses["highest"] > 0 and losses["lowest"] > 0
        ratio = losses["highest"] / losses["lowest"] if defined else None
        figures = {
            "responses": {"perturbed": found["highest"]["perturbed"] // self.draws, "without_tokens": empty},
            "share": self.share,
            "replace_with": self.replace_with,
            "draws": self.draws,
            "sampled": {"accuracy": accuracy, "low": low, "high": high},
            "replaced": found,
            "loss_ratio": ratio,
            "published_loss_ratio_above": PUBLISHED_RATIO,
        }
        header = (
            "tokens replaced",
            "responses",
            "accuracy",
            "loss",
            "95 % interval",
            "entropy",
            "tokens",
            "changed",
            "last at",
        )
        as_sampled = ("none, as sampled", f"{figures['responses']['perturbed']:,}", f"{accuracy:.3f}", *(NOTHING,) * 6)
        table = Table(header, (as_sampled, *(self._cells(which, it) for which, it in found.items())))
        told = f"{ratio:.1f}" if defined else "none, since one of them is not above 0"
        notes = [
            "accuracy: mean over problems; loss: what is lost of it, its interval draws problems anew; tokens: replaced in "
            "a response; changed: share of them that are others now; last at: where the last one stands, as a share of the "
            "response; behind it the policy went on",
            f"loss of the highest over loss of the lowest: {told}; EP-GRPO's: over {PUBLISHED_RATIO}, of other policies",
        ]
        if self.replace_with == "original":
            notes.append("analysis.replace_with=original: a control; nothing was replaced, the policy went on from there")
        if empty:
            notes.append(f"left out: {empty} responses, which end with their first token")
        return Findings({"": table}, notes, figures, {f"{self.name}.parquet": parquet(rows, SCHEMA)})

    def _cells(self, which: str, it: dict) -> tuple[str, ...]:
        numbers = f"{it['perturbed']:,}", f"{it['accuracy']:.3f}", f"{it['loss']:+.3f}"
        interval = interval_text((it["loss_low"], it["loss_high"]), sign=True)
        return (
            f"{which} {100 * self.share:.3g} %",
            *numbers,
            interval,
            f"{it['entropy']:.3f}",
            f"{it['tokens']:.1f}",
            f"{it['changed']:.2f}",
            f"{it['last']:.2f}",
        )


def with_replaced(ids: Sequence[int], positions: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """A response's tokens up to the last of some places, those at the places replaced.

    Args:
        positions: ascending, counted from 0.
    """
    kept = list(ids[: positions[-1] + 1])
    for position, token in zip(positions, new, strict=True):
        kept[position] = token
    return tuple(kept)


def _replaceable(it: Measured, eos_ids: Sequence[int]) -> int:
    """Tokens of a response, its closing end of sequence left out."""
    ids = it.response.completion_ids
    return len(ids) - (ids[-1] in eos_ids)


def _figures(rows: Sequence[dict], sampled_P: Sequence[float]) -> dict:
    perturbed_P = _by_problem(rows, "perturbed_correct")
    losses_P = np.subtract(sampled_P, perturbed_P)
    low, high = crossed_interval(losses_P[None])
    return {
        "perturbed": len(rows),
        "accuracy": float(np.mean(perturbed_P)),
        "changed": float(np.mean(np.concatenate([_changed(row) for row in rows]))),
        "loss": float(losses_P.mean()),
        "loss_low": low,
        "loss_high": high,
        "entropy": float(np.mean([np.mean(row["entropies"]) for row in rows])),
        "tokens": float(np.mean([len(row["positions"]) for row in rows])),
        "last": float(np.mean([(row["positions"][-1] + 1) / row["tokens"] for row in rows])),
    }


def _changed(row: dict) -> np.ndarray:
    return np.not_equal(row["original_ids"], row["replacing_ids"])


def _by_problem(rows: Sequence[dict], key: str) -> list[float]:
    """Share of the rows of each problem for which `key` holds, in the order of the problems."""
    return [sum(flags) / len(flags) for flags in right_by_problem(rows, key).values()]

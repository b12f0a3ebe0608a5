"""Forced reflection: how often does a wrong response come right when it is made to go on behind a trigger?

    correction rate of a trigger = share of wrong responses that are right after it and what the policy goes on to say
    harm = share of right responses that are wrong then

Source: EDGE-GRPO (arXiv:2507.21848), Table 5, whose triggers and figures are not in our notes: the first trigger is the cue
of its released code, the others are ours. This generates anew; it never meets an evaluation's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from edge_lightning.analysis.base import Findings, Measured, Tools, parquet, spread
from edge_lightning.analysis.clustered import share_with_interval, sums_by_problem
from edge_lightning.analysis.continuation import Cut
from edge_lightning.analysis.pictures import Dot, dots
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.report.tables import NOTHING, Table, interval_text
from edge_lightning.seeds import counter_seed

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("trigger", "problem_id")),
        ("response_index", pa.int32()),
        ("draw", pa.int32()),
        *((name, pa.bool_()) for name in ("correct_before", "correct")),
        *((name, pa.string()) for name in ("text", "finish_reason")),
    ]
)


class ForcedReflection:
    """Goes on behind each trigger from every response that is looked at.

    Args:
        triggers: name -> text that is put behind a response, in place of its end of sequence.
        reflection_limit: new tokens behind a trigger, in addition to the response limit.
        draws: times that each response goes on behind each trigger.
        responses_of_a_kind: at most so many wrong responses and as many right ones, spread over problems; None: all.
        right_too: whether right responses are made to reflect, too.
    Raises:
        UserError: a count is below 1, or there is no trigger.
    """

    def __init__(
        self,
        *,
        name: str,
        triggers: Mapping[str, str],
        reflection_limit: int = 256,
        draws: int = 1,
        responses_of_a_kind: int | None = None,
        right_too: bool = True,
    ):
        require_at_least_one("analysis.reflection_limit", reflection_limit)
        require_at_least_one("analysis.draws", draws)
        require_at_least_one("analysis.responses_of_a_kind", responses_of_a_kind)
        if not triggers:
            raise UserError("analysis.triggers={}: at least one name with a text expected; add one")
        self.name, self.triggers, self.reflection_limit = name, dict(triggers), reflection_limit
        self.draws, self.responses_of_a_kind, self.right_too = draws, responses_of_a_kind, right_too

    def extra_tokens(self, encode: Callable[[str], Sequence[int]]) -> int:
        """Tokens behind a response that the engine must have room for."""
        return self.reflection_limit + max(len(encode(text)) for text in self.triggers.values())

    def __call__(self, measured: Sequence[Measured], tools: Tools) -> Findings:
        """Raises UserError where no response is wrong."""
        alike = {right: [it for it in measured if it.response.grade.right is right] for right in (False, True)}
        if not alike[False]:
            raise UserError(
                f"analysis: none of {len(measured)} responses is wrong, so none can be corrected; raise problems"
            )
        chosen = spread(alike[False], self.responses_of_a_kind, seed=tools.seed)
        chosen += spread(alike[True], self.responses_of_a_kind, seed=tools.seed) if self.right_too else []
        rows = []
        with tools.show("reflections", len(chosen) * len(self.triggers) * self.draws) as advance:
            for trigger, text in self.triggers.items():
                told = partial(lambda before, done: advance(before + done), len(rows))
                rows += self._reflections(trigger, tuple(tools.policy.encode(text)), chosen, tools, told)
        cells = [self._cell(trigger, rows) for trigger in self.triggers]
        header = ("trigger", "wrong", "corrected", "95 % interval", "right", "harmed", "95 % interval")
        drawn = {
            name: [Dot(c["trigger"], *(c[f"{key}{end}"] for end in ("", "_low", "_high"))) for c in cells]
            for name, key in (("wrong, then right", "corrected"), ("right, then wrong", "harmed"))
        }
        picture = dots(drawn, title="Forced reflection", x="share of responses")
        files = {f"{self.name}.parquet": parquet(rows, SCHEMA), f"{self.name}.png": picture}
        notes = [
            "corrected: share of wrong responses that end right behind the trigger; harmed: of right ones that end wrong; "
            "intervals are over problems"
        ]
        return Findings({"": Table(header, tuple(map(_told, cells)))}, notes, {"triggers": cells}, files)

    def _reflections(self, trigger: str, cue: tuple[int, ...], chosen, tools: Tools, advance) -> list[dict]:
        """A row a reflection. Each has the whole of its limit, however long its response is."""
        eos, cuts = tools.policy.eos_ids, []
        for it in chosen:
            response, ids = it.response, it.response.completion_ids
            kept = (ids[:-1] if ids and ids[-1] in eos else ids) + cue
            counters = tools.seed, "forced reflection", trigger, response.problem.id, response.index
            cuts += [Cut(response, kept, counter_seed(*counters, n), self.reflection_limit) for n in range(self.draws)]
        return [
            {
                "trigger": trigger,
                "problem_id": cut.response.problem.id,
                "response_index": cut.response.index,
                "draw": number % self.draws,
                "correct_before": cut.response.grade.right,
                "correct": after.grade.right,
                "text": after.text,
                "finish_reason": after.finish_reason,
            }
            for number, (cut, after) in enumerate(zip(cuts, tools.continuer(cuts, advance)))
        ]

    def _cell(self, trigger: str, rows: Sequence[dict]) -> dict:
        own = [row for row in rows if row["trigger"] == trigger]
        before, after = [row["correct_before"] for row in own], [row["correct"] for row in own]
        columns = (
            [not b for b in before],
            [a and not b for b, a in zip(before, after)],
            before,
            [b and not a for b, a in zip(before, after)],
        )
        sums = sums_by_problem([row["problem_id"] for row in own], columns)
        wrong, right = (int(sums[:, column].sum()) for column in (0, 2))
        cell = {"trigger": trigger, "text": self.triggers[trigger], "wrong": wrong, "right": right}
        for name, numerator, denominator in (("corrected", 1, 0), ("harmed", 3, 2)):
            found = share_with_interval(sums, numerator, denominator) or (None, None, None)
            cell |= dict(zip((name, f"{name}_low", f"{name}_high"), found))
        return cell


def _told(cell: dict) -> tuple[str, ...]:
    told = [cell["trigger"]]
    for count, name in (("wrong", "corrected"), ("right", "harmed")):
        none = cell[name] is None
        interval = None if none else (cell[f"{name}_low"], cell[f"{name}_high"])
        told += [f"{cell[count]:,}", NOTHING if none else f"{cell[name]:.3f}", interval_text(interval)]
    return tuple(told)

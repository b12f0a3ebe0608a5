"""The page: some groups of a run in one HTML file that asks no network, for a browser to filter and to look into.

Text of problems and of the policy is data in it, never markup: it stands in a JSON block in which no < is left, and the
page's own script puts it into text nodes alone. A content security policy lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from edge_lightning.inspection.rollouts import Group
from edge_lightning.inspection.sums import advantage_sums, final_sum, relative_entropy_sums
from edge_lightning.inspection.tokens import INJECTED, SAMPLED, WRONG_PREFIX, Reader

HERE = Path(__file__).parent
LETTER = {SAMPLED: "s", WRONG_PREFIX: "w", INJECTED: "i"}


def group_data(group: Group, reader: Reader) -> dict:
    """All that the page shows of a group."""
    sums = zip(advantage_sums(group.responses), relative_entropy_sums(group.responses))
    return {
        "step": group.step,
        "problem": group.problem_id,
        "prompt": reader.prompt(group.responses[0]),
        "gold": list(group.responses[0]["gold"] or []),
        "right_sampled": group.right_sampled,
        "right": group.right,
        "responses": [_response(row, *own, reader) for row, own in zip(group.responses, sums)],
    }


def spread_steps(steps: Sequence[int], count: int, wanted: int) -> list[int]:
    """At most `count` of the steps: the wanted one, and others evenly spread from the first to the last."""
    if len(steps) <= count:
        return list(steps)
    places = {round(i * (len(steps) - 1) / max(count - 1, 1)) for i in range(count)}
    here = steps.index(wanted)
    if here not in places:
        places.remove(min(places, key=lambda place: abs(place - here)))
        places.add(here)
    return [steps[place] for place in sorted(places)]


def page(run: dict, groups: Iterable[dict], *, step: int, problem: str | None) -> str:
    """A whole HTML document.

    Args:
        run: its name, its status, and what is told of it in a line.
        groups: of `group_data`.
        step, problem: that it opens with; None: the first problem of the step that correction changed.
    """
    data = {"run": run, "groups": list(groups), "open": {"step": step, "problem": problem}}
    content = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    script, style = (HERE / "page.js").read_text(), (HERE / "page.css").read_text()
    allowed = f"default-src 'none'; script-src '{_fingerprint(script)}'; style-src '{_fingerprint(style)}'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(run['name'])}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<noscript>This page needs JavaScript; its own, none of a network.</noscript>\n<div id="app"></div>\n'
        f'<script type="application/json" id="data">{content}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _response(row: dict, advantage_sum: str | None, phat_sum: str | None, reader: Reader) -> dict:
    changed = row["text"] != row["sampled_text"]
    return {
        "index": row["response_index"],
        "provenance": row["provenance"],
        "finish": row["finish_reason"],
        "right_sampled": row["sampled_right"],
        "right": row["right"],
        "reward_sampled": row["sampled_reward"],
        "reward": row["reward"],
        "parts": dict(row["reward_parts"] or {}),
        "advantage": row["advantage"],
        "entropy": row["entropy"],
        "phat": row["relative_entropy"],
        "sums": {"advantage": advantage_sum, "phat": phat_sum, "final": final_sum(row)},
        "sampled_text": row["sampled_text"] if changed else None,
        "pieces": [
            [p.text, LETTER[p.origin] + ("*" if p.special else "")]
            + [None if value is None else round(value, 4) for value in (p.entropy, p.logprob, p.advantage)]
            for p in reader.pieces(row)
        ],
    }


def _fingerprint(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

"""A group on a terminal: its table, then each response as it was sampled beside what is trained on.

Entropy is shading and injected text is underlined on a terminal; elsewhere injected text stands in ⟦ ⟧. Control characters
of problems and of the policy are shown as pictures: a terminal would obey them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.console import Group as Together
from rich.table import Table
from rich.text import Text

from edge_lightning.inspection.rollouts import Group
from edge_lightning.inspection.sums import advantage_sums, final_sum, plain, relative_entropy_sums, signed
from edge_lightning.inspection.tokens import INJECTED, WRONG_PREFIX, Piece, Reader
from edge_lightning.report.provenance import look

CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | dict.fromkeys(range(127, 160), "␡")
IN_A_LINE = CONTROLS | {ord("\t"): "␉", ord("\n"): "␊", 0x2028: "␊", 0x2029: "␊"}
HOTTEST = (124, 58, 237)  # the colour behind the tokens of most entropy
LEAST = 0.15  # of it that is shown: a fainter one is a black box on a terminal that is not quite black


def overview(groups: Sequence[Group]) -> Table:
    """A row a group of a step: how many are right before and after correction, and what correction did."""
    table = Table(title=f"step {groups[0].step}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("problem", no_wrap=True)
    for heading in ("right as sampled", "after correction", "advantage", "entropy", "Phat"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("responses", overflow="fold")
    for group in groups:
        size, kinds = len(group.responses), Counter(row["provenance"] for row in group.responses)
        table.add_row(
            Text(_name(group)),
            f"{group.right_sampled} / {size}",
            f"{group.right} / {size}",
            *(_range(group, column, text) for column, text in (("advantage", signed), ("entropy", plain))),
            _range(group, "relative_entropy", plain),
            Text(", ").join(Text(f"{count} {_words(kind)}", style=look(kind)) for kind, count in kinds.items()),
        )
    return table


def group_view(group: Group, reader: Reader, *, terminal: bool) -> Together:
    """The whole of a group.

    Args:
        terminal: whether colours can be seen.
    """
    first, size = group.responses[0], len(group.responses)
    gold = f"answer {' or '.join(first['gold'])}; " if first["gold"] else ""
    facts = f"{gold}{group.right_sampled} of {size} right as sampled, {group.right} after correction"
    pieces = [reader.pieces(row) for row in group.responses]
    hottest = _high(piece.entropy for own in pieces for piece in own)
    return Together(
        Text(f"step {group.step}, problem {_name(group)}", style="bold"),
        _said(reader.prompt(first), style="dim"),
        _said(facts),
        _sums(group),
        _texts(group, pieces, hottest, terminal),
        Text(_key(hottest, terminal), style="dim"),
    )


def _sums(group: Group) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("#", justify="right")
    for heading in ("came", "reward", "A", "Phat = P / mean P", "final advantage"):
        table.add_column(heading, overflow="fold")
    sums = zip(group.responses, advantage_sums(group.responses), relative_entropy_sums(group.responses))
    for row, advantage, phat in sums:
        recorded = "-" if row["relative_entropy"] is None else plain(row["relative_entropy"])
        table.add_row(
            str(row["response_index"]),
            Text(_words(row["provenance"]), style=look(row["provenance"])),
            _reward(row),
            advantage or signed(row["advantage"]),
            phat or recorded,
            Text(final_sum(row), style="bold"),
        )
    return table


def _texts(group: Group, pieces: Sequence[list[Piece]], hottest: float, terminal: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, expand=True)
    table.add_column("#", justify="right")
    for heading in ("what the policy sampled", "what is trained on"):
        table.add_column(heading, ratio=1, overflow="fold")
    for row, own in zip(group.responses, pieces):
        now = _shaded(own, hottest, look(row["provenance"]), terminal)
        changed = row["text"] != row["sampled_text"]
        end = Text("  (cut off)", style="dim") if row["finish_reason"] == "length" else Text()
        before, after = (_said(row["sampled_text"]), now + end) if changed else (now + end, Text("as sampled", style="dim"))
        table.add_row(str(row["response_index"]), before, after)
    return table


def _shaded(pieces: Sequence[Piece], hottest: float, colour: str, terminal: bool) -> Text:
    text = Text()
    for injected, run in groupby(pieces, key=lambda piece: piece.origin == INJECTED):
        text.append("⟦" if injected and not terminal else "")
        for piece in run:
            text.append(_said(f"⟨{piece.text}⟩" if piece.special else piece.text, style=_style(piece, hottest, colour)))
        text.append("⟧" if injected and not terminal else "")
    return text


def _style(piece: Piece, hottest: float, colour: str) -> str:
    heat, injected = min(1.0, (piece.entropy or 0.0) / hottest), piece.origin == INJECTED
    marks = ["underline"] if injected else ["italic"] if piece.origin == WRONG_PREFIX else []
    if injected and heat <= 0.5:
        marks.append(colour)
    elif heat > LEAST:
        marks.append("white")  # no colour of a provenance is read on a hot one
    if heat > LEAST:  # mixed with black, since most terminals are dark
        marks.append("on #" + "".join(f"{int(channel * heat):02x}" for channel in HOTTEST))
    return " ".join(marks)


def _key(hottest: float, terminal: bool) -> str:
    if not terminal:
        return "⟦ ⟧ put in by correction; ⟨ ⟩ no text"
    return (
        f"shading: entropy, from 0 to {hottest:.2f} nats; underlined: put in by correction; italic: sampled in front of it"
    )


def _high(values) -> float:
    known = sorted(value for value in values if value is not None)
    return max(known[int(0.95 * (len(known) - 1))], 1e-3) if known else 1.0


def _range(group: Group, column: str, text) -> str:
    known = [row[column] for row in group.responses if row[column] is not None]
    return f"{text(min(known))} to {text(max(known))}" if known else "-"


def _reward(row: dict) -> Text:
    before = [(row["sampled_right"], row["sampled_reward"])] if row["text"] != row["sampled_text"] else []
    told = [*before, (row["right"], row["reward"])]
    style = {True: "green", False: "red"}
    return Text(" → ").join(
        Text(f"{reward:g} {'right' if right else 'wrong'}", style=style[right]) for right, reward in told
    )


def _said(text: str, style: str = "") -> Text:
    return Text(text.translate(CONTROLS), style=style)


def _name(group: Group) -> str:
    """The id of its problem, on one line."""
    return group.problem_id.translate(IN_A_LINE)


def _words(name: str) -> str:
    return name.replace("_", " ")


def show(console: Console, groups: Sequence[Group], chosen: Group, reader: Reader) -> None:
    """The step's groups and the chosen one."""
    console.print(overview(groups))
    console.print(group_view(chosen, reader, terminal=console.is_terminal))

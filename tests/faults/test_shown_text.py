"""Text of problems and of the policy that reaches a terminal does not command it."""

import io
import re

from rich.console import Console

from edge_lightning.inspection.rollouts import read_groups
from edge_lightning.inspection.terminal import show
from edge_lightning.inspection.tokens import Reader
from edge_lightning.types import Problem
from tests.inspected_run import CUE, member, write_run, write_step

COMMANDS = "\x1b]0;owned\x07\x1b[2J\x9b2J\r\x08[red]"


def test_what_a_terminal_would_obey_is_shown(tmp_path):
    folder = write_run(tmp_path)
    problem = Problem(f"p{COMMANDS}", f"{COMMANDS} 1 + 1?", (f"{COMMANDS}2",))
    group = [member(problem, 0, COMMANDS), member(problem, 1, COMMANDS, cue=CUE, rest=COMMANDS)]
    write_step(folder / "rollouts", 5, [group], [-1.0, 1.0], [1.0, 1.0])
    groups = list(read_groups(folder / "rollouts", [5]))
    said = io.StringIO()
    show(Console(file=said, force_terminal=True, width=300), groups, groups[0], Reader(folder))
    plain = re.sub(r"\x1b\[[\d;]*m", "", said.getvalue())  # the styles of our own
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain)
    # overview, heading, prompt, gold answer; each response before and after
    assert plain.count("␛]0;owned␇␛[2J␡2J␍␈[red]") == 4 + 1 + 3

"""Text of problems and of the policy that reaches a terminal does not command it."""

import io
import json
import re

import pytest
from rich.console import Console

from edge_lightning.cli import hydra_app
from edge_lightning.cli.grade import grade
from edge_lightning.cli.inspect import inspect
from edge_lightning.cli.report import report
from edge_lightning.errors import UserError
from edge_lightning.inspection.rollouts import read_groups
from edge_lightning.inspection.terminal import show
from edge_lightning.inspection.tokens import Reader
from edge_lightning.types import Problem
from tests import report_records
from tests.inspected_run import CUE, member, write_run, write_step

COMMANDS = "\x1b]0;owned\x07\x1b[2J\x9b2J\r\x08[red]"
LINES = "a\nb\tc\u2028d\u2029e\x85f"


def one_group_named(name, folder):
    problem = Problem(name, "1 + 1?", ("2",))
    write_step(folder / "rollouts", 5, [[member(problem, 0, "2")]], [1.0], [1.0])


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


def test_an_id_stays_on_its_line(tmp_path):
    folder = write_run(tmp_path)
    one_group_named(LINES, folder)
    groups = list(read_groups(folder / "rollouts", [5]))
    said = io.StringIO()
    show(Console(file=said, width=300), groups, groups[0], Reader(folder))
    assert said.getvalue().count("a␊b␉c␊d␊e␡f") == 2
    assert "step 5, problem a␊b" in said.getvalue()


@pytest.mark.parametrize("name", [COMMANDS, LINES])
def test_ids_among_which_one_is_to_be_chosen_are_one_plain_line(name, tmp_path, capfd):
    folder = write_run(tmp_path)
    one_group_named(name, folder)
    assert hydra_app.run("inspect", [str(folder), "step=5", "problem=nobody"], inspect) == 1
    said = capfd.readouterr().err
    assert said.endswith(f"problem=nobody: one of step 5 expected: {json.dumps(name)}\n")
    assert said[:-1].isprintable()


@pytest.mark.parametrize("name", [COMMANDS, LINES, "half a pair \ud800", "gone\x7f"])
def test_names_of_columns_are_one_plain_line(name, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    rows = [{"answer": "7", "response": "7"}, {name: "7"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert hydra_app.run("grade", ["rows.jsonl"], grade) == 0
    said = capfd.readouterr().err
    spelled = json.dumps(name).replace("\x7f", r"\u007f")
    assert said == f"rows.jsonl, line 2: no column 'answer'; set answer to one of {spelled}; left out\n"
    assert said[:-1].isprintable()


def test_names_in_records_and_what_is_damaged_in_them_are_told_plainly(tmp_path, capfd):
    scores = {"smoke": {"a": [1, 0]}}
    report_records.write_run(tmp_path / "run", ablation=f"mine{COMMANDS}", scores=scores)
    broken = tmp_path / f"b{COMMANDS}"
    report_records.write_run(broken, scores=scores)
    (broken / "summary.json").write_text("{")
    assert hydra_app.run("report", [str(tmp_path)], report) == 0
    said = capfd.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)
    assert "mine\\x1b]0;owned\\x07" in said
    assert "b\\x1b]0;owned\\x07\\x1b[2J\\x9b2J\\r\\x08[red]/summary.json: JSON expected" in said


def test_a_fault_is_told_in_one_plain_line(capfd):
    def fail(cfg, folder):
        raise UserError(f"{COMMANDS}: nothing of it expected")

    assert hydra_app.run("grade", ["rows.jsonl"], fail) == 1
    said = "\\x1b]0;owned\\x07\\x1b[2J\\x9b2J\\r\\x08[red]: nothing of it expected"
    assert capfd.readouterr().err == f"edge-lightning grade: {said}\n"

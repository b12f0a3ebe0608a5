"""edge-lightning grade: the input's rows with a reward and a reason, streamed, and whole or not at all."""

import json
import subprocess
import sys

import pytest

from edge_lightning.cli import hydra_app
from edge_lightning.cli.grade import BadRow, grade, parsed_row


def run(*arguments):
    return hydra_app.run("grade", list(arguments), grade)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


ROWS = [
    {"id": "a", "answer": "7", "response": r"\boxed{7}"},
    {"id": "b", "answer": 142.0, "response": r"So \boxed{142}."},
    {"id": "c", "answer": ["1", r"\sqrt{8}"], "response": r"\boxed{2\sqrt2}"},
    {"id": "d", "answer": 7, "response": "7"},
    {"id": "e", "answer": "{", "response": r"\boxed{7}"},
    {"id": "f", "answer": "7", "response": r"\boxed{7} no, \boxed{8}", "note": {"x": [1, None]}},
]
VALUES = [
    (1, 1, "matched"),
    (1, 1, "matched"),
    (1, 1, "matched"),
    (0, 0, "no box"),
    (0, 1, "unparsable gold"),
    (0, 1, "differs"),
]


@pytest.mark.parametrize("at_a_time", [1, 2, 1000])
def test_rows_keep_their_fields_and_order_and_get_three_more(folder, capfd, at_a_time):
    file = written(folder / "rows.jsonl", ROWS)
    assert run(str(file), f"rows_at_a_time={at_a_time}") == 0
    graded = read(folder / "rows.graded.jsonl")
    assert [{k: row[k] for k in row if k not in ("reward", "format", "reason")} for row in graded] == ROWS
    assert [(row["reward"], row["format"], row["reason"]) for row in graded] == VALUES
    assert list(graded[0]) == ["id", "answer", "response", "reward", "format", "reason"]
    assert sorted(path.name for path in folder.iterdir()) == ["rows.graded.jsonl", "rows.jsonl"]
    out, err = capfd.readouterr()
    assert err == ""
    totals = dict(line.strip("│ ").rsplit("│", 1) for line in out.splitlines() if line.count("│") == 3)
    totals = {name.strip(): value.strip() for name, value in totals.items()}
    assert {
        "share with a box": "0.833",
        "mean reward": "0.500",
        "no box": "1",
        "bad rows, left out": "0",
    }.items() <= totals.items()
    assert {"math-verify", "latex2sympy2_extended", "sympy", "time-outs", "seconds"} <= totals.keys()


def test_the_reward_is_the_weighted_sum(folder, capfd):
    written(folder / "rows.jsonl", ROWS)
    assert run("rows.jsonl", "out=o.jsonl", "reward=boxed_and_format") == 0
    assert [row["reward"] for row in read(folder / "o.jsonl")] == [2, 2, 2, 0, 1, 1]
    capfd.readouterr()


def test_bad_rows_are_named_with_their_line_left_out_and_counted(folder, capfd):
    lines = [
        b'\xef\xbb\xbf{"answer": "7", "response": "\\\\boxed{7}"}\r',
        b"",
        b"{no",
        b"[1]",
        b'{"answer": "7"}',
        b'{"response": "7"}',
        b'{"answer": null, "response": "7"}',
        b'{"answer": NaN, "response": "7"}',
        b'{"answer": " ", "response": "7"}',
        b'{"answer": [], "response": "7"}',
        b'{"answer": true, "response": "7"}',
        b'{"answer": "7", "response": 7}',
        b'{"answer": "\xff", "response": "7"}',
        b"[" * 100_000,
        '{"answer": "é", "response": "\\\\boxed{é\\ud800}"}'.encode(),
    ]
    (folder / "rows.jsonl").write_bytes(b"\n".join(lines))
    assert run("rows.jsonl") == 0
    out, err = capfd.readouterr()
    assert [row["reason"] for row in read(folder / "rows.graded.jsonl")] == ["matched", "differs"]
    named = [int(line.split("line ")[1].split(":")[0]) for line in err.splitlines()]
    assert named == list(range(3, 15))
    assert "no column 'response'; set response to one of answer" in err
    assert "12" in next(line for line in out.splitlines() if "bad rows" in line)


def test_no_more_than_twenty_bad_rows_are_named(folder, capfd):
    (folder / "rows.jsonl").write_text("{no\n" * 30 + json.dumps(ROWS[0]))
    assert run("rows.jsonl") == 0
    err = capfd.readouterr().err.splitlines()
    assert len(err) == 21
    assert err[-1] == "rows.jsonl: 30 bad rows in all, the first 20 are named above"


@pytest.mark.parametrize("content", ["", "\n\n", "{no\n"])
def test_without_a_row_that_can_be_graded_nothing_is_written(folder, capfd, content):
    (folder / "rows.jsonl").write_text(content)
    assert run("rows.jsonl") == 1
    assert "at least one row that can be graded expected" in capfd.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["rows.jsonl"]


def test_what_was_graded_before_is_graded_again_and_said(folder, capfd):
    written(folder / "rows.jsonl", [{"reward": 0.5, **ROWS[0]}])
    assert run("rows.jsonl") == 0
    [row] = read(folder / "rows.graded.jsonl")
    assert next(iter(row.items())) == ("reward", 1.0)
    assert "1 rows had reward, format, reason already; replaced in the output" in capfd.readouterr().err


@pytest.mark.parametrize(
    "name", ["a b.jsonl", "it's=1,2.jsonl", "[x]{y}.jsonl", "${c}.jsonl", 'q"q.jsonl', "no suffix", "ü.jsonl"]
)
def test_a_file_may_have_any_name(folder, capfd, name):
    file = written(folder / name, ROWS[:1])
    assert run(name) == 0
    assert run(str(file)) == 0
    assert read(folder / f"{name.removesuffix('.jsonl')}.graded.jsonl")[0]["reward"] == 1.0
    capfd.readouterr()


def test_columns_have_names_of_their_own(folder, capfd):
    written(folder / "rows.jsonl", [{"gold": "7", "output": r"\boxed{7}"}])
    assert run("rows.jsonl", "answer=gold", "response=output") == 0
    assert read(folder / "rows.graded.jsonl")[0]["reason"] == "matched"
    capfd.readouterr()


def test_a_failure_leaves_the_old_output_as_it_was(folder, capfd, monkeypatch):
    written(folder / "rows.jsonl", ROWS)
    (folder / "rows.graded.jsonl").write_text("old")

    def interrupted(rows, reward):
        raise KeyboardInterrupt

    monkeypatch.setattr("edge_lightning.cli.grade.graded", interrupted)
    assert run("rows.jsonl") == 1
    assert capfd.readouterr().err == "edge-lightning grade: interrupted after 0 rows; nothing was written\n"
    assert (folder / "rows.graded.jsonl").read_text() == "old"
    assert len(list(folder.iterdir())) == 2


def test_a_number_in_a_list_reads_as_a_number():
    row = parsed_row(b'{"answer": [142.0, 0.5, "x "], "response": ""}', "answer", "response")
    assert row.golds == ("142", "0.5", "x")
    with pytest.raises(BadRow, match="text, a number or a list"):
        parsed_row(b'{"answer": [1, null], "response": ""}', "answer", "response")


def test_the_command_loads_no_torch(folder):
    written(folder / "rows.jsonl", ROWS)
    code = (
        "import sys; sys.argv = ['edge-lightning', 'grade', 'rows.jsonl']\n"
        "from edge_lightning.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as exit:\n    print(exit.code, {'torch', 'lightning', 'vllm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines()[-1] == "0 set()"
    assert done.stderr == ""

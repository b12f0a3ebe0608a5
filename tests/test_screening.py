"""Which problems of a pool become a training set, and the command that makes one."""

import json
import re

import pyarrow.parquet as pq
import pytest

from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.resume import quoted
from edge_lightning.cli.screen import screen
from edge_lightning.data.table import ProblemTable
from edge_lightning.engine.hf import HfEngine
from edge_lightning.errors import UserError
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.screening import Drawn, Hardest, as_row, rates_of, require_enough, with_solution
from edge_lightning.seeds import counter_seed
from edge_lightning.types import Problem

POOL = [Problem(f"p{i}", f"text {i}", ("1",)) for i in range(100)]
ARITHMETIC = ("data=arithmetic_hard", "data.problem_set.train_size=20", "data.problem_set.held_out_size=4", "prompt=chat")
SMALL = (*ARITHMETIC, "model=tiny", "engine=hf", "samples=2", "response_limit=40", "selection.size=5")


def ids(problems):
    return [problem.id for problem in problems]


def test_the_hardest_come_first_and_ties_are_drawn_by_seed():
    rates = {p.id: 0.5 for p in POOL} | {"p7": 0.25, "p3": 0.0}
    first, second = (Hardest(size=20, seed=seed)(POOL, rates) for seed in (0, 1))
    assert ids(first)[:2] == ids(second)[:2] == ["p3", "p7"]
    assert len(set(ids(first))) == 20
    assert set(ids(first)) != set(ids(second))
    assert ids(Hardest(size=20, seed=0)(POOL[::-1], rates)) == ids(first)  # the order of the pool decides nothing


def test_a_draw_is_in_the_order_of_the_pool_and_grows():
    small, large = ids(Drawn(size=20)(POOL, {})), ids(Drawn(size=50)(POOL, {}))
    assert small == sorted(small, key=lambda name: int(name[1:]))
    assert set(small) < set(large)
    assert set(small) != set(ids(Drawn(size=20, seed=1)(POOL, {})))


def test_a_draw_takes_every_problem_equally_often():
    taken = [name for seed in range(400) for name in ids(Drawn(size=25, seed=seed)(POOL, {}))]
    assert all(60 <= taken.count(f"p{i}") <= 140 for i in range(100))  # 100 expected, standard deviation 8.7


def test_a_pool_may_be_taken_whole_and_no_more():
    require_enough(POOL, 100)
    with pytest.raises(UserError, match="selection.size=101: the pool holds 100 problems that can be taken"):
        require_enough(POOL, 101)


def test_rates_are_shares_of_right_responses():
    rows = [("a", True), ("b", False), ("a", False), ("a", True), ("a", True), ("b", False)]
    rows = [{"problem_id": name, "correct": correct} for name, correct in rows]
    assert rates_of(rows) == {"a": 0.75, "b": 0.0}


def test_solutions_may_have_to_be_boxed_or_right():
    solutions = {"none": None, "open": r"it is 1 \boxed{1", "wrong": r"\boxed{2}", "right": r"so \boxed{1.0}"}
    problems = [Problem(name, name, ("1",), solution) for name, solution in solutions.items()]
    reward = WeightedSum({"accuracy": BoxedAccuracy()})
    kept = {kind: ids(with_solution(problems, kind, reward)) for kind in ("any", "boxed", "right")}
    reward.close()
    assert kept == {"any": list(solutions), "boxed": ["wrong", "right"], "right": ["right"]}


def test_a_row_is_read_back_as_the_same_problem(tmp_path):
    problems = [Problem("a", "é?", ("1", "2"), "s"), Problem("b", "q", ("x",))]
    rows = [as_row(problem, {"a": 0.125}) for problem in problems]
    assert rows[0] == {"problem": "é?", "answer": ["1", "2"], "correctness_rate": 0.125, "solution": "s", "id": "a"}
    assert rows[1] == {"problem": "q", "answer": "x", "id": "b"}
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert ProblemTable(tmp_path / "set.jsonl", id_column="id").train() == problems


def command(folder, *overrides):
    return run("screen", [*overrides, f"hydra.run.dir={quoted(folder)}"], screen)


def test_a_screening_writes_the_hardest_with_their_rates(tmp_path, capfd):
    assert command(tmp_path / "run", *SMALL, "seed=3") == 0
    rows = [json.loads(line) for line in (tmp_path / "run/selected.jsonl").read_text().splitlines()]
    asked = pq.read_table(tmp_path / "run/evaluation/step_000000/screen.parquet").to_pylist()
    assert len(asked) == 24 * 2
    assert all(row["seed"] == counter_seed(3, "screen", row["problem_id"], row["response_index"]) for row in asked)
    rates = rates_of(asked)
    assert [row["correctness_rate"] for row in rows] == sorted(rates.values())[:5]
    assert all(row["correctness_rate"] == rates[row["id"]] for row in rows)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["problems"] == {"rows": 24, "filtered": {}, "left_out": {}, "candidates": 24, "selected": 5}
    assert sum(summary["right_of_samples"].values()) == 24
    assert sum(summary["right_of_samples_selected"].values()) == 5
    assert f"data.problem_set.path={tmp_path}/run/selected.jsonl" in capfd.readouterr().out.replace("\n", "")
    assert command(tmp_path / "run", *SMALL, "seed=3") == 1
    assert "the record of a run is there already; move it away, or give another folder" in capfd.readouterr().err


def test_an_interrupted_screening_goes_on_and_gives_the_same(tmp_path, monkeypatch, capfd):
    assert command(tmp_path / "whole", *SMALL, "responses_at_a_time=8") == 0
    generate, asked = HfEngine.generate, []

    def dies_in_the_third_chunk(self, requests, *args, **more):
        asked.append([(request.problem.id, request.seed) for request in requests])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return generate(self, requests, *args, **more)

    monkeypatch.setattr(HfEngine, "generate", dies_in_the_third_chunk)
    assert command(tmp_path / "broken", *SMALL, "responses_at_a_time=8") == 1
    assert f"interrupted; go on with edge-lightning screen resume={tmp_path / 'broken'}" in capfd.readouterr().err
    assert not (tmp_path / "broken/selected.jsonl").exists()
    capfd.readouterr()
    assert run("screen", [f"resume={tmp_path / 'broken'}", "samples=3"], screen) == 1
    assert "samples was 2 in that run, 3 came" in capfd.readouterr().err
    before, asked[:] = asked[:2], [None] * 3
    assert run("screen", [f"resume={tmp_path / 'broken'}"], screen) == 0
    again = {request for chunk in asked[3:] for request in chunk}
    assert not again & {request for chunk in before for request in chunk}
    assert len(again) == 48 - 2 * 8
    assert (tmp_path / "broken/selected.jsonl").read_text() == (tmp_path / "whole/selected.jsonl").read_text()
    capfd.readouterr()
    assert run("screen", [f"resume={tmp_path / 'broken'}"], screen) == 1
    assert "an unfinished run expected" in capfd.readouterr().err


def killed_before_its_summary(tmp_path, monkeypatch, *line):
    """A screening that ends between its set and its summary: the folder, and what it has written."""
    folder = tmp_path / "run"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("edge_lightning.training.summary.write_json", killed)
        assert command(folder, *SMALL, *line) != 0
    assert not (folder / "summary.json").exists()
    return folder


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_screening_killed_before_its_summary_knows_its_own_set(elsewhere, tmp_path, monkeypatch):
    out = tmp_path / "set.jsonl" if elsewhere else tmp_path / "run/selected.jsonl"
    folder = killed_before_its_summary(tmp_path, monkeypatch, *([f"out={out}"] if elsewhere else []))
    before = out.read_text()
    assert run("screen", [f"resume={folder}"], screen) == 0
    assert out.read_text() == before
    assert json.loads((folder / "summary.json").read_text())["out"] == str(out)


def test_without_a_resume_no_set_is_written_over(tmp_path, monkeypatch, capfd):
    folder = killed_before_its_summary(tmp_path, monkeypatch, "selection=random")
    assert command(folder, *SMALL, "selection=random") == 1
    assert "there is a file of that name" in capfd.readouterr().err


def test_its_own_set_may_become_another(tmp_path, monkeypatch):
    folder = killed_before_its_summary(tmp_path, monkeypatch)
    assert run("screen", [f"resume={folder}", "selection.size=3"], screen) == 0
    assert len((folder / "selected.jsonl").read_text().splitlines()) == 3


def test_a_file_of_somebody_else_is_not_written_over(tmp_path, monkeypatch, capfd):
    folder = killed_before_its_summary(tmp_path, monkeypatch)
    own, other = folder / "selected.jsonl", tmp_path / "other.jsonl"
    other.write_text(own.read_text())
    own.write_text("mine\n")
    for out, line in ((own, []), (other, [f"out={other}"])):
        before = out.read_text()
        assert run("screen", [f"resume={folder}", *line], screen) == 1
        assert f"out={out}: there is a file of that name; name another, or move it away" in capfd.readouterr().err
        assert out.read_text() == before


@pytest.fixture
def pool(tmp_path, edge_data):
    """The first 60 rows of Hard-1K without their rates, one of them twice, one without a solution, one without an answer."""
    rows = json.loads(edge_data("train_data/deepscaler_hard-1k.json").read_text())[:60]
    rows = [{key: row[key] for key in ("problem", "answer", "solution")} for row in rows]
    rows += [rows[0], {**rows[1], "problem": "no solution?", "solution": None}, {**rows[2], "answer": None}]
    (tmp_path / "pool.json").write_text(json.dumps(rows))
    return f"data.problem_set.path={tmp_path}/pool.json"


def test_a_random_draw_asks_no_policy_and_keeps_answers_and_solutions(tmp_path, pool, capfd):
    drawn = ("selection=random", "selection.size=30", "data.on_bad_row=drop")
    assert command(tmp_path / "run", pool, *drawn, f"out={tmp_path}/random.jsonl") == 0
    chosen = ProblemTable(tmp_path / "random.jsonl", id_column="id").train()
    source = {problem.id: problem for problem in ProblemTable(tmp_path / "pool.json").train()}
    assert len(chosen) == 30
    assert all(problem == source[problem.id] for problem in chosen)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["problems"]["left_out"] == {"unusable row": 1, "duplicate": 1, "no solution that is boxed": 1}
    assert (summary["policy"], summary["right_of_samples"]) == (None, None)
    assert "correctness_rate" not in (tmp_path / "random.jsonl").read_text()
    capfd.readouterr()
    assert command(tmp_path / "again", pool, *drawn, f"out={tmp_path}/again.jsonl") == 0
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "random.jsonl").read_text()


def test_a_long_prompt_is_refused_by_the_key_that_sets_the_limit(tmp_path, capfd):
    assert command(tmp_path / "run", *SMALL, "prompt_limit=5") == 1
    assert " tokens, at most prompt_limit=5 expected (24 long prompt; 24 rows in all)" in capfd.readouterr().err


@pytest.mark.parametrize(("drop", "taken"), [("true", [1, 2]), ("false", [1, 2, 3])])
def test_of_problems_with_one_text_the_first_is_taken_or_all_are(drop, taken, tmp_path):
    rows = [{"problem": text, "answer": 1} for text in ("p", "q", "p")]
    (tmp_path / "pool.json").write_text(json.dumps(rows))
    line = (
        f"data.problem_set.path={tmp_path}/pool.json",
        "selection=random",
        f"selection.size={len(taken)}",
        "solutions=any",
    )
    assert command(tmp_path / "run", *line, "data.problem_set.held_out_share=0", f"drop_duplicates={drop}") == 0
    chosen = [json.loads(line)["id"] for line in (tmp_path / "run/selected.jsonl").read_text().splitlines()]
    assert chosen == [f"pool-00000{number}" for number in taken]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("selection=random", r"row 63: text, a number .* null came; .*data\.on_bad_row=drop"),
        ("selection=random data.on_bad_row=drop", "selection.size=1000: the pool holds 60 problems that can be taken"),
        ("selection=random data.on_bad_row=drop selection.size=0", "selection.size=0: at least 1 expected"),
        ("data.on_bad_row=drop selection.size=3", "no value for model.path; set model.path="),
        ("data.on_bad_row=keep model=tiny", "data.on_bad_row=keep: drop | refuse expected".replace("|", r"\|")),
        ("solutions=good model=tiny", r"solutions=good: any \| boxed \| right expected"),
        ("out=/nowhere/x.jsonl model=tiny", "out=/nowhere/x.jsonl: a file in a folder that exists expected"),
        ("data.on_bad_row=drop model=tiny selection.size=3 prompt_limit=5", "the pool holds 0 problems"),
        ("data.on_bad_row=drop model=tiny selection.size=3 samples=0", "samples=0: at least 1 expected"),
        ("model=tiny samples=x", "samples=x: int expected, str came"),
        ("model=tiny seed=null", "seed=None: int expected, null came"),
        ("model=tiny drop_duplicates=maybe", "drop_duplicates=maybe: true or false expected"),
        ("selection=random selection.size=x", "selection.size=x: int expected, str came"),
        ("selection=random out={folder}/pool.json", "out=.*pool.json: there is a file of that name, the pool itself; name"),
        ("selection=random out={folder}", "out=.*: a file that can be written expected"),
        ("model=tiny engine=reference", "ReferenceEngine copies reference solutions: an engine that samples expected; set"),
        ("selection=random reward.parts=null", "reward.parts: .* expected|reward: "),
    ],
)
def test_what_a_screening_cannot_do_is_one_line(line, message, tmp_path, pool, capfd):
    assert command(tmp_path / "run", pool, *line.format(folder=tmp_path).split()) == 1
    said = capfd.readouterr().err
    assert re.search(message, said), said
    assert said.count("\n") == 1


@pytest.mark.parametrize("content", ["{", "7"])
def test_a_damaged_record_of_what_was_written_is_one_line(content, tmp_path, monkeypatch, capfd):
    folder = killed_before_its_summary(tmp_path, monkeypatch)
    (folder / "written.json").write_text(content)
    assert run("screen", [f"resume={folder}"], screen) == 1
    err = capfd.readouterr().err
    assert f"edge-lightning screen: {folder}/written.json: JSON expected, it was damaged" in err
    assert "Traceback" not in err

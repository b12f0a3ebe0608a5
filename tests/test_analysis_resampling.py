"""The resampling probe and what it stands on, with an engine whose continuations are known."""

import io

import pyarrow.parquet as pq
import pytest

from edge_lightning.analysis.continuation import Cut
from edge_lightning.analysis.resampling import Resampling
from edge_lightning.errors import UserError
from tests.analysis_fakes import RIGHT, WRONG, ScriptedEngine, measured, tools

# Means of two neighbours: .1 .5 .85 .5, so the windows begin at 2 and 0.
A = measured("a", 1, (10, 11, 12, 13, RIGHT), [0.1, 0.1, 0.9, 0.8, 0.2], right=True)
# .35 .15 .25: at 0 and 1
B = measured("b", 2, (20, 21, 22, WRONG), [0.5, 0.2, 0.1, 0.4], right=False)
# .3 .4 .1: at 1 and 2
C = measured("c", 3, (30, 31, 32, RIGHT), [0.0, 0.6, 0.2, 0.0], right=True)
# What is kept in front of the window, behind the prompt, and how many of 4 continuations end right then.
SCRIPT = {(1, 10, 11): 1, (1,): 3, (2,): 2, (2, 20): 0, (3, 30): 3, (3, 30, 31): 4}


def probe(**settings):
    return Resampling(**({"name": "resampling", "window": 2, "continuations": 4} | settings))


def shares(findings):
    return {name: None if cell is None else cell["share"] for name, cell in findings.figures["cells"].items()}


def test_each_cell_is_the_mean_share_of_right_continuations_behind_its_windows():
    findings = probe()([A, B, C], tools(ScriptedEngine(SCRIPT)))
    assert shares(findings) == {
        "right/highest": (1 / 4 + 3 / 4) / 2,
        "right/lowest": (3 / 4 + 4 / 4) / 2,
        "wrong/highest": 2 / 4,
        "wrong/lowest": 0.0,
    }
    right = findings.figures["cells"]["right/highest"]
    # Two responses drawn anew have the means .25, .5, .5, .75, each as likely.
    assert (right["responses"], right["low"], right["high"]) == (2, 0.25, 0.75)
    assert right["window_entropy"] == pytest.approx((0.85 + 0.4) / 2)
    assert right["kept"] == pytest.approx((2 / 5 + 1 / 4) / 2)
    lowest = findings.figures["cells"]["wrong/lowest"]
    assert (lowest["low"], lowest["high"]) == (0.0, pytest.approx(0.975))  # 1 - .025 of one response
    difference = findings.figures["highest_minus_lowest"]["right"]
    # .25 - .75 and .75 - 1
    assert (difference["mean"], difference["low"], difference["high"]) == (-0.375, -0.5, -0.25)


def test_each_continuation_has_a_seed_of_its_own_and_what_is_left_of_the_limit():
    engine = ScriptedEngine(SCRIPT)
    probe()([A, B, C], tools(engine, response_limit=6))
    assert len(engine.requests) == len({request.seed for request in engine.requests}) == 6 * 4
    assert all(request.max_tokens == 6 - (len(request.prompt_ids) - 1) for request in engine.requests)
    again, other = ScriptedEngine(SCRIPT), ScriptedEngine(SCRIPT)
    probe()([A, B, C], tools(again, response_limit=6, responses_at_a_time=100))
    probe()([A, B, C], tools(other, response_limit=6, seed=1))
    assert again.requests == engine.requests
    assert not {r.seed for r in other.requests} & {r.seed for r in engine.requests}


def test_rows_tell_what_was_cut_where():
    rows = pq.read_table(io.BytesIO(probe()([A, B], tools(ScriptedEngine(SCRIPT))).files["resampling.parquet"])).to_pylist()
    seen = [(r["problem_id"], r["correct"], r["window"], r["start"], r["right_continuations"]) for r in rows]
    assert seen == [
        ("a", True, "highest", 2, 1),
        ("a", True, "lowest", 0, 3),
        ("b", False, "highest", 0, 2),
        ("b", False, "lowest", 1, 0),
    ]
    assert rows[0]["window_entropy"] == pytest.approx(0.85)


def test_windows_at_the_start_can_be_left_out():
    # From the second token on .5 .85 .5: at 2 and, the first of equals, at 1
    findings = probe(windows_at_start=False)([A], tools(ScriptedEngine({(1, 10, 11): 1, (1, 10): 2})))
    assert shares(findings) == {"right/highest": 1 / 4, "right/lowest": 2 / 4, "wrong/highest": None, "wrong/lowest": None}


def test_a_cell_without_responses_is_said_to_be_empty_and_is_not_zero():
    findings = probe()([B], tools(ScriptedEngine(SCRIPT)))
    assert shares(findings) == {"right/highest": None, "right/lowest": None, "wrong/highest": 0.5, "wrong/lowest": 0.0}
    assert findings.figures["highest_minus_lowest"]["right"] is None
    assert findings.tables[""].rows[0] == ("right, highest", "0", "-", "-", "-", "-", "0.390")
    assert "right responses with a window: none, so their cells are empty" in findings.notes
    assert not any("wrong responses with a window: none" in note for note in findings.notes)


def test_responses_shorter_than_the_window_are_left_out_and_counted():
    # Of a window of 5 only A has one, for both.
    findings = probe(window=5)([A, B, C], tools(ScriptedEngine({(1,): 5})))
    assert findings.figures["responses"] == {"right": 2, "wrong": 1, "without_a_window": 2}
    assert shares(findings) == {"right/highest": 1.0, "right/lowest": 0.25, "wrong/highest": None, "wrong/lowest": None}
    assert "left out: 2 of 3 responses, which hold no window of 5 tokens" in findings.notes
    with pytest.raises(
        UserError, match="analysis.window=6: no window fits into any of 3 responses, the longest .* 5 tokens"
    ):
        probe(window=6)([A, B, C], tools(ScriptedEngine({})))


def test_so_many_responses_of_either_kind_are_taken_at_most():
    findings = probe(responses_of_a_kind=1)([A, B, C], tools(ScriptedEngine(SCRIPT)))
    cells = findings.figures["cells"]
    assert {name: cell["responses"] for name, cell in cells.items()} == dict.fromkeys(cells, 1)
    assert findings.figures["responses"] == {"right": 2, "wrong": 1, "without_a_window": 0}


def test_what_is_kept_up_to_the_limit_is_graded_as_it_stands():
    engine = ScriptedEngine({(2, 20): 1}, max_model_len=4)
    cuts = [Cut(B.response, kept, seed=7) for kept in [(20, 21, RIGHT), (20,), (20, 21, WRONG, 22)]]
    told = []
    made = tools(engine, response_limit=4, responses_at_a_time=2).continuer(cuts, told.append)
    assert [response.grade.right for response in made] == [True, True, False]
    assert [response.finish_reason for response in made] == ["length", "stop", "length"]
    assert [response.completion_ids for response in made] == [(20, 21, RIGHT), (20, RIGHT), (20, 21, WRONG, 22)]
    assert made[1].text == f"20 {RIGHT}"
    assert made[1].engine_logprobs == (None, -0.1)
    assert [request.max_tokens for request in engine.requests] == [2]  # 4 positions, less a prompt of 1 and 1 kept
    assert told == [2, 3]


@pytest.mark.parametrize("key", ["window", "continuations", "responses_of_a_kind"])
def test_counts_are_at_least_one(key):
    with pytest.raises(UserError, match=f"analysis.{key}=0: at least 1 expected"):
        probe(**{key: 0})

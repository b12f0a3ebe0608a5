"""Forced reflection with an engine whose continuations are known."""

from io import BytesIO

import pyarrow.parquet as pq
import pytest

from edge_lightning.analysis.forced_reflection import ForcedReflection
from edge_lightning.errors import UserError
from tests.analysis_fakes import RIGHT, WRONG, ScriptedEngine, Spelled, measured, tools


class Cued(Spelled):
    """Triggers are ids that are spelled."""

    def encode(self, text):
        return tuple(map(int, text.split()))


def probe(**changes):
    return ForcedReflection(name="forced_reflection", triggers={"one": "71", "two": "72 73"}, reflection_limit=5, **changes)


def test_rates_by_trigger_are_counted():
    wrong = [measured("a", 1, (10, WRONG, 0), [0.1] * 3, right=False), measured("b", 2, (11, WRONG), [0.1] * 2, right=False)]
    right = [measured("c", 3, (12, RIGHT, 0), [0.1] * 3, right=True)]
    # The end of sequence makes way for the trigger; what follows it ends right that many times.
    engine = ScriptedEngine(
        {
            (1, 10, WRONG, 71): 1,
            (2, 11, WRONG, 71): 0,
            (3, 12, RIGHT, 71): 0,
            (1, 10, WRONG, 72, 73): 1,
            (2, 11, WRONG, 72, 73): 1,
            (3, 12, RIGHT, 72, 73): 1,
        }
    )
    found = probe()(wrong + right, tools(engine, policy=Cued(), response_limit=3))
    one, two = found.figures["triggers"]
    assert (one["wrong"], one["right"], one["corrected"], one["harmed"]) == (2, 1, 0.5, 1.0)
    assert (two["corrected"], two["harmed"]) == (1.0, 0.0)
    assert (one["corrected_low"], one["corrected_high"]) == (0.0, 1.0)
    assert {request.max_tokens for request in engine.requests} == {5}  # whatever the response limit is
    assert len({request.seed for request in engine.requests}) == 6
    rows = pq.read_table(BytesIO(found.files["forced_reflection.parquet"])).to_pylist()
    assert rows[0]["text"] == f"10 {WRONG} 71 {RIGHT}"
    assert [row["correct"] for row in rows] == [True, False, False, True, True, True]


def test_right_responses_may_be_left_alone():
    both = [measured("a", 1, (10, WRONG), [0.1] * 2, right=False), measured("c", 3, (12, RIGHT), [0.1] * 2, right=True)]
    engine = ScriptedEngine({(1, 10, WRONG, 71): 1, (1, 10, WRONG, 72, 73): 0})
    one, _ = probe(right_too=False)(both, tools(engine, policy=Cued())).figures["triggers"]
    assert (one["right"], one["harmed"], one["corrected"]) == (0, None, 1.0)


def test_room_for_the_longest_trigger_is_asked_for():
    assert probe().extra_tokens(Cued().encode) == 7


def test_without_a_wrong_response_there_is_nothing_to_correct():
    with pytest.raises(UserError, match="none of 1 responses is wrong"):
        probe()([measured("c", 3, (12, RIGHT), [0.1] * 2, right=True)], tools(ScriptedEngine({}), policy=Cued()))


def test_triggers_are_expected():
    with pytest.raises(UserError, match="at least one name"):
        ForcedReflection(name="x", triggers={})

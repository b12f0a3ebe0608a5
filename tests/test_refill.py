"""Dynamic sampling: tied groups give way to groups of other problems."""

import pytest

from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.errors import UserError
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.format import BoxedFormat
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Problem
from tests.test_experience import BOX, PROBLEMS, filled, reward  # noqa: F401  reward is a fixture

MORE = [Problem(name, f"Start with {n}. Add 0. What is the result?", (str(n),)) for n, name in enumerate("cdef", 11)]
POOL = {"pool": PROBLEMS + MORE, "refill_rounds": 3}


def test_tied_groups_are_replaced_by_groups_of_other_problems(tiny_policy, reward):  # noqa: F811
    first = [BOX["a"], BOX["a"], BOX["wrong"], BOX["b"]]  # all right; mixed
    rollout, engine = filled(tiny_policy, reward, *first, *[BOX["wrong"]] * 6, **POOL)
    assert [len(asked) for asked in engine.asked] == [4, 2, 2, 2]
    fresh = [asked[0].problem.id for asked in engine.asked[1:]]
    assert len(set(fresh)) == 3
    assert not {"a", "b"} & set(fresh)
    assert [p.id for p in rollout.problems] == [fresh[-1], "b"]  # in the place of the tied one
    assert [(r.problem.id, r.index) for r in rollout.responses] == [(fresh[-1], 0), (fresh[-1], 1), ("b", 0), ("b", 1)]
    assert [r.problem.id for r in rollout.dropped] == ["a", "a", fresh[0], fresh[0], fresh[1], fresh[1]]
    assert rollout.advantages_B.tolist() == pytest.approx([0, 0, -1, 1])  # tied to the last: kept, without gradient


def test_a_refill_ends_as_soon_as_nothing_is_tied(tiny_policy, reward):  # noqa: F811
    rollout, engine = filled(tiny_policy, reward, BOX["a"], BOX["wrong"], BOX["wrong"], BOX["b"], **POOL)
    assert len(engine.asked) == 1
    assert rollout.dropped == []


def test_a_refill_takes_what_problems_there_are(tiny_policy, reward):  # noqa: F811
    rollout, engine = filled(tiny_policy, reward, *[BOX["wrong"]] * 6, pool=PROBLEMS + MORE[:1], refill_rounds=5)
    assert [len(asked) for asked in engine.asked] == [4, 2]
    assert [p.id for p in rollout.problems] == ["c", "b"]


def test_a_group_of_wrong_responses_is_tied_whatever_else_is_paid_for(tiny_policy):
    with_format = WeightedSum({"accuracy": BoxedAccuracy(), "format": BoxedFormat(weight=1.0)})
    first = [BOX["wrong"], "no box", BOX["wrong"], BOX["b"]]  # rewards 1 and 0, but both wrong; mixed
    rollout, _ = filled(tiny_policy, with_format, *first, *[BOX["wrong"]] * 6, **POOL)
    with_format.close()
    assert [r.problem.id for r in rollout.dropped[:2]] == ["a", "a"]
    assert rollout.problems[1].id == "b"


def test_what_correction_has_mixed_is_not_dropped(tiny_policy, reward):  # noqa: F811
    correction = GuidedErrorCorrection(reflect=0.5, answer=0.0, reference=0.5)
    rollout, _ = filled(tiny_policy, reward, *[BOX["wrong"]] * 60, corrector=correction, **POOL)
    mixed = [{r.grade.right for r in rollout.responses[i : i + 2]} for i in (0, 2)]
    dropped = [{r.grade.right for r in rollout.dropped[i : i + 2]} for i in range(0, len(rollout.dropped), 2)]
    assert {True, False} in mixed
    assert {True, False} not in dropped


def test_refills_of_a_step_are_its_own_and_repeat(tiny_policy, reward):  # noqa: F811
    def fresh(step):
        rollout, _ = filled(tiny_policy, reward, *[BOX["wrong"]] * 16, step=step, **POOL)
        return [p.id for p in rollout.problems]

    assert fresh(3) == fresh(3)
    assert len({tuple(fresh(step)) for step in range(6)}) > 1


def test_negative_rounds_are_refused(tiny_policy, reward):  # noqa: F811
    with pytest.raises(UserError, match="rollout.refill_rounds=-1: at least 0 expected"):
        filled(tiny_policy, reward, refill_rounds=-1)

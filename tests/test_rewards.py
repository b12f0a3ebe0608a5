"""Rewards: what is equal, what is right, what it is worth."""

from dataclasses import replace

import pytest

from edge_lightning.errors import UserError
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.base import RewardPart
from edge_lightning.rewards.format import BoxedFormat
from edge_lightning.rewards.overlong import SoftOverlong
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Problem, Provenance, Response, Verdict
from tests.by_hand import response

EMPTY = Response(
    problem=Problem("p", "?", ("7", "8")),
    index=0,
    seed=0,
    prompt_ids=(1,),
    completion_ids=(),
    sampled_mask=(),
    engine_logprobs=(),
    finish_reason="stop",
    provenance=Provenance.SAMPLED,
    text="",
    sampled_text="",
    sampled_tokens=0,
)


def responses(*texts: str) -> list[Response]:
    return [replace(EMPTY, index=index, text=text) for index, text in enumerate(texts)]


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("inf"), float("nan")])
def test_a_timeout_is_a_positive_number(timeout_s):
    with pytest.raises(UserError, match="above 0 expected"):
        BoxedAccuracy(timeout_s=timeout_s)


@pytest.mark.parametrize("workers", [0, -1])
def test_there_is_a_worker(workers):
    with pytest.raises(UserError, match=f"workers={workers}: at least 1 expected"):
        BoxedAccuracy(workers=workers)


def test_accuracy_looks_at_the_last_box_only():
    texts = [r"\boxed{7}", r"\boxed{7} \boxed{9}", "7", r"\boxed{9} \boxed{8.0}", r"\boxed{}"]
    assert BoxedAccuracy()(responses(*texts)) == [1.0, 0.0, 0.0, 1.0, 0.0]


def test_format_asks_for_a_closed_box():
    assert BoxedFormat()(responses(r"\boxed{x}", r"\boxed{x", "x")) == [1.0, 0.0, 0.0]


def test_the_reward_is_the_weighted_sum_and_accuracy_says_what_is_right():
    total = WeightedSum({"accuracy": BoxedAccuracy(weight=2.0), "format": BoxedFormat(weight=0.25)})
    right, wrong, bare = total(responses(r"\boxed{7}", r"\boxed{9}", "9"))
    assert (right.reward, right.right, right.parts) == (2.25, True, {"accuracy": 1.0, "format": 1.0})
    assert (wrong.reward, wrong.right, wrong.parts) == (0.25, False, {"accuracy": 0.0, "format": 1.0})
    assert (bare.reward, bare.right, bare.parts) == (0.0, False, {"accuracy": 0.0, "format": 0.0})


def test_half_an_accuracy_is_not_right():
    class Half(RewardPart):
        weight = 10.0

        def __call__(self, responses):
            return [0.5 for _ in responses]

        def judge(self, pairs):
            return [Verdict.DIFFERS for _ in pairs]

        def readable(self, golds):
            return [True for _ in golds]

    [grade] = WeightedSum({"accuracy": Half()})(responses("x"))
    assert (grade.reward, grade.right) == (5.0, False)


def test_the_sum_passes_timeouts_and_closing_through():
    class Slow(BoxedAccuracy):
        timeouts, closed = 3, False

        def close(self):
            self.closed = True

    slow = Slow()
    total = WeightedSum({"accuracy": slow, "format": BoxedFormat()})
    assert total.timeouts == 3
    total.close()
    assert slow.closed


def test_a_sum_without_accuracy_is_refused():
    with pytest.raises(UserError, match="a part named accuracy expected, format came"):
        WeightedSum({"format": BoxedFormat()})


def test_no_responses_give_no_grades():
    assert WeightedSum({"accuracy": BoxedAccuracy()})([]) == []


def test_the_sum_judges_whole_texts_by_its_accuracy_part():
    total = WeightedSum({"accuracy": BoxedAccuracy(), "format": BoxedFormat()})
    pairs = [(("7", "8"), r"\boxed{8}"), (("7",), r"\boxed{9}"), (("7",), "7"), (("",), r"\boxed{7}")]
    assert total.judge(pairs) == [Verdict.MATCHED, Verdict.DIFFERS, Verdict.NO_BOX, Verdict.UNPARSABLE_GOLD]
    assert total.readable(["7", "\n"]) == [True, False]
    total.close()


def test_an_accuracy_part_without_verdicts_is_refused_in_one_line():
    with pytest.raises(UserError, match="verdicts expected, BoxedFormat has no judge and no readable"):
        WeightedSum({"accuracy": BoxedFormat(weight=1.0)})


@pytest.mark.parametrize(("tokens", "penalty"), [(1, 0.0), (6, 0.0), (7, -0.25), (8, -0.5), (10, -1.0), (12, -1.0)])
def test_soft_overlong_by_hand(tokens, penalty):
    # nothing up to 6, the whole from 10 on
    assert SoftOverlong(from_tokens=6, to_tokens=10)([response((5,) * tokens)]) == [penalty]


def test_an_overlong_right_answer_is_right_and_rewarded_less():
    reward = WeightedSum({"accuracy": BoxedAccuracy(), "overlong": SoftOverlong(from_tokens=2, to_tokens=6, weight=0.5)})
    (grade,) = reward([response((5,) * 4, text="\\boxed{5}")])
    assert (grade.reward, grade.right) == (0.75, True)


def test_overlong_tokens_that_are_no_interval_are_refused():
    with pytest.raises(UserError, match="from_tokens=48, to_tokens=48: 0 <= from < to expected"):
        SoftOverlong(from_tokens=48, to_tokens=48)
    with pytest.raises(UserError, match="from_tokens=32, to_tokens=None: 0 <= from < to expected"):
        SoftOverlong(from_tokens=32, to_tokens=None)  # graded by itself, where no limit is known

"""Rewards: what is equal, what is right, what it is worth."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_lightning.errors import UserError
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.base import RewardPart
from edge_lightning.rewards.equivalence import Equivalence
from edge_lightning.rewards.format import BoxedFormat
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Problem, Provenance, Response, Verdict

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


def right(verdicts: list[Verdict]) -> list[bool]:
    return [verdict is Verdict.MATCHED for verdict in verdicts]


@pytest.fixture(scope="module")
def equivalence():
    built = Equivalence(timeout_s=5.0)
    yield built
    built.close()


@pytest.fixture(scope="module")
def quick():
    built = Equivalence(timeout_s=1.0)
    yield built
    built.close()


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("7", "7", True),
        ("7", " $7$ ", True),
        ("7", "7.0", True),
        ("0.5", ".50", True),
        ("-3", "3", False),
        ("+3", "3", True),
        ("1" * 400, "1" * 399 + "2", False),
        ("0.333", "0.3333", False),
        ("7", "", False),
        (r"\text{east}", r"\text{east}", True),
    ],
)
def test_equal_texts_and_plain_numbers_need_no_process(gold, answer, equal):
    alone = Equivalence()
    assert right(alone([([gold], answer)])) == [equal]
    assert alone._worker is None


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        (r"\frac{1}{2}", "0.5", True),
        (r"\frac{1}{2}", r"\frac{2}{4}", True),
        (r"\frac{1}{2}", r"\frac{2}{1}", False),
        (r"2\sqrt{3}", r"\sqrt{12}", True),
        (r"2\sqrt{3}", r"\sqrt{13}", False),
        (r"(1, 2)", "(2, 1)", False),
        (r"(1, 2)", "(1,2)", True),
        (r"\{1, 2\}", r"\{2, 1\}", True),
        ("x^2 - 1", "(x-1)(x+1)", True),
        ("x^2 - 1", "(x-1)(x-1)", False),
        ("1,234", "1234", True),
        (r"\pi", "3", False),
        ("7", "3+4", True),
        ("7", "5$ or $7", False),
        ("7", r"5 \text{ or } 7", False),
        ("7", r"\text{seventeen}", False),
    ],
)
def test_everything_else_is_compared_as_mathematics(equivalence, gold, answer, equal):
    assert right(equivalence([([gold], answer)])) == [equal]


def test_any_gold_will_do_and_order_is_kept(equivalence):
    pairs = [(["1", r"\frac{3}{4}"], "0.75"), (["1", "2"], "3"), (["1", "2"], "2"), ([], "1")]
    assert right(equivalence(pairs)) == [True, False, True, False]


@pytest.mark.parametrize(
    "answer",
    [
        "\0",
        "\ud800",
        "x" * 100_000,
        "9" * 100_000,
        "{" * 450 + "8" + "}" * 450,
        "\\frac{" * 150,
        "\n[[1], [2]]\n",
        "\\text{" + "七" * 300 + "}",
        "__import__('os')._exit(1)",
        "\\sqrt[" * 90,
        "$" * 999,
    ],
)
def test_no_text_raises_hangs_or_is_seven(quick, answer):
    start = time.perf_counter()
    assert right(quick([(["7"], answer)])) == [False]
    assert time.perf_counter() - start < 15


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_text_has_a_verdict(equivalence, answer):
    assert equivalence([(["x + 1"], answer)])[0] in (Verdict.MATCHED, Verdict.DIFFERS)


def test_a_comparison_without_end_is_given_up_and_counted_once(quick):
    before = quick.timeouts
    start = time.perf_counter()
    tower = (["7"], "10^{10^{10}}")
    assert right(quick([tower, (["1/2"], r"\frac{2}{4}"), tower])) == [False, True, False]
    assert quick.timeouts == before + 1
    assert time.perf_counter() - start < 15


def test_a_process_that_ended_is_replaced_and_none_is_left_after_closing(quick):
    quick([(["1/2"], "2/4")])
    os.kill(quick._worker.pid, signal.SIGKILL)
    quick._worker.wait()
    assert right(quick([(["1/2"], "3/6")])) == [True]
    process = quick._worker
    quick.close()
    quick.close()
    assert process.returncode == -signal.SIGKILL


def test_a_script_without_a_main_guard_can_grade_and_its_process_knows_nothing_of_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from edge_lightning.rewards.equivalence import Equivalence\n"
        "print(*Equivalence()([(['1/2'], '2/4')]))\n"
        "import edge_lightning.rewards.worker\n"
        "print({'torch', 'transformers', 'lightning'} & set(sys.modules))\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.returncode) == ("matched\nset()\n", 0)


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("inf"), float("nan")])
def test_a_timeout_is_a_positive_number(timeout_s):
    with pytest.raises(UserError, match="above 0 expected"):
        BoxedAccuracy(timeout_s=timeout_s)


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

"""Any text gets a verdict in time: bounded before it is parsed, or given up by the clock."""

import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.equivalence import Equivalence
from edge_lightning.rewards.forms import parsed
from edge_lightning.rewards.reading import read
from edge_lightning.types import Verdict


@pytest.fixture(scope="module")
def equivalence():
    built = Equivalence(timeout_s=5.0, workers=1)
    yield built
    built.close()


def test_what_is_plain_starts_no_process():
    alone = Equivalence()
    golds = ["7", r"\frac{1}{2}", "9" * 2000, r"\sqrt{2} + x", r"\frac{1}{2}+x", "-3/4", "7"]
    answers = [" 7.0 ", "0.5", "9" * 2000, r"$\sqrt{2}+x$", r"\dfrac{1}{2} +  x", r"-\frac{3}{4}", "8"]
    verdicts = alone([([gold], answer) for gold, answer in zip(golds, answers)])
    assert verdicts == [*[Verdict.MATCHED] * 6, Verdict.DIFFERS]
    assert alone._pool._workers == []


def test_the_process_of_the_run_never_reads_an_answer():
    """Reading recurses and searches; what a text could make of that must happen where it can be killed."""
    script = (
        "import sys\n"
        "from edge_lightning.rewards.accuracy import BoxedAccuracy\n"
        "accuracy = BoxedAccuracy()\n"
        "texts = [rf'\\boxed{{{box}}}' for box in ('0.5x', '(' * 300, r'\\text{east}', '7' * 2000)]\n"
        "print(*accuracy.judge([(['x/2'], text) for text in texts]), *accuracy.readable(['x', '{', '']))\n"
        "mine = {name.rpartition('.')[2] for name in sys.modules if name.startswith('edge_lightning.rewards.')}\n"
        "print(*sorted(mine))\n"
        "print({'sympy', 'latex2sympy2_extended', 'torch'} & set(sys.modules))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert run.stdout.splitlines() == [
        "matched differs differs differs True False False",
        "accuracy base boxed equivalence plain pool reasoning_gym",
        "set()",
    ]


@pytest.mark.parametrize("frames", [0, 60, 120, 200])
def test_no_depth_of_brackets_overflows_a_deep_caller(equivalence, frames):
    texts = [opening * n for n in (1, 40, 160, 260, 400) for opening in ("(", "x^(", "(-", r"\sqrt[", "{", r"\frac{")]

    def deeper(left: int):
        return deeper(left - 1) if left else equivalence([(["7"], text) for text in texts])

    assert set(deeper(frames)) == {Verdict.DIFFERS}


def test_any_gold_will_do_and_order_is_kept(equivalence):
    pairs = [(["1", r"\frac{3}{4}"], "0.75"), (["1", "2"], "3"), (["1", r"\sqrt{8}"], r"2\sqrt{2}"), ([], "1"), (["{"], "1")]
    yes, no, none = Verdict.MATCHED, Verdict.DIFFERS, Verdict.UNPARSABLE_GOLD
    assert equivalence(pairs) == [yes, no, yes, none, none]


def test_a_gold_that_no_one_can_read_matches_its_own_text(equivalence):
    assert equivalence([(["\\frac{1}"], "\\frac{1} "), (["\\frac{1}"], "1")]) == [Verdict.MATCHED, Verdict.UNPARSABLE_GOLD]
    assert equivalence.readable(["\\frac{1}", "{", "", " \n", "7\n", r"3\mid n", "Evelyn", "x" * 1001]) == [
        *[False] * 4,
        *[True] * 3,
        False,
    ]


NASTY = {
    "power tower": "9^{9^{9^9}}",
    "power of a power": "((9^{9999})^{9999})^{9999}",
    "huge factorial": "10000000!",
    "factorial of a factorial": "(100!)!",
    "huge binomial": r"\binom{10^{9}}{5\cdot 10^{8}}",
    "huge root": r"\sqrt[10^{9}]{2}",
    "tower of symbols": "x^{x^{x^{x^{x^{x}}}}}",
    "brackets": "(" * 60 + "8" + ")" * 60,
    "many brackets": "(" * 5000 + "8" + ")" * 5000,
    "brackets of sums": "(1+" * 60 + "x" + ")" * 60,
    "brackets of sums to the limit": "(1+" * 240 + "1" + ")" * 240,
    "exponents in brackets": "x^(" * 240 + "1" + ")" * 240,
    "roots in words": "sqrt(" * 160 + "1" + ")" * 160,
    "roots as indices": "\\sqrt[" * 120 + "3" + "]{2}" * 120,
    "pairs in pairs": "(1," * 240 + "1" + ")" * 240,
    "sets in sets": r"\{" * 240 + "1" + r"\}" * 240,
    "commands as arguments": r"\frac" * 190 + "1",
    "roots as arguments": r"\sqrt" * 190 + "1",
    "colours": r"\textcolor" * 90,
    "words in words": r"\text{x " * 120 + "}" * 120,
    "boxes": r"\boxed" * 150,
    "numerals": "9" * 500 + "^" + "9" * 400,
    "digits of a decimal": "0." + "0" * 900 + "1",
    "exponent of ten": "1e" + "9" * 900,
    "fractions without end": r"\frac9" * 100 + "9" * 100,
    "repeating": r"0.\overline{" + "9" * 900 + "}",
    "braces": "{" * 60 + "8" + "}" * 60,
    "many braces": "{" * 5000 + "8" + "}" * 5000,
    "braces of sums": "{1+" * 200 + "x" + "}" * 200,
    "fractions": r"\frac{1}{1+" * 50 + "x" + "}" * 50,
    "roots": r"\sqrt{x+" * 50 + "1" + "}" * 50,
    "open fractions": "\\frac{" * 150,
    "a million letters": "x" * 1_000_000,
    "a million digits": "9" * 1_000_000,
    "900 digits": "9" * 900,
    "long sum": "+".join(f"x^{{{n}}}" for n in range(100)),
    "sum": r"\sum_{n=1}^{\infty} \frac{1}{n^{1.001}}",
    "product": r"\prod_{n=1}^{10^{9}} n",
    "integral": r"\int_0^\infty e^{-x^{x}} \sin(x^{x}) dx",
    "limit": r"\lim_{n\to\infty} \left(1+\frac1n\right)^{n!}",
    "matrix": r"\begin{pmatrix}" + r"\\".join("&".join("1" * 15) for _ in range(15)) + r"\end{pmatrix}",
    "matrices": r"\begin{pmatrix}" * 20,
    "list": ",".join(["x"] * 490),
    "list of roots": ",".join(rf"\sqrt{n}" for n in range(2, 70)),
    "imports": "__import__('os').system('touch escaped')",
    "imports in text": r"\text{__import__('os')._exit(1)}",
    "imports as a function": r"\operatorname{__import__}(os)",
    "lambda": "(lambda: 1)()",
    "nul": "\0",
    "half a pair": "\ud800",
    "dollars": "$" * 999,
    "backslashes": "\\" * 999,
    "indices": "\\sqrt[" * 90,
    "scripts": "_^" * 400,
    "primes": "x" + "'" * 900,
    "logarithm of a tower": r"\log_{10} 10^{10^{10}}",
    "gamma": r"\Gamma(10^{10})",
    "sine of much": r"\sin(10^{9999})",
    "nested functions": r"\sin(" * 9 + "x" + ")" * 9,
    "power of a root": r"(1+\sqrt{2})^{9999}",
    "signs": "-" * 900 + "8",
    "pluses": r"1 \pm " * 100 + "1",
    "colons": ":" * 900,
    "relations": "x=" * 450 + "8",
    "greatest": r"\max(" + "x," * 200 + "y)",
    "divisor": r"\gcd(10^{9999}, 7)",
    "words in two kinds of space": r"7\text{a" + r"\,\,a" * 40 + "!}",
    "units without end": r"7\mathrm{m" + r"\ /\ s" * 90 + "!}",
    "set of quotients": r"\{" + ",".join(f"1999!/7^{{99{n}}}" for n in range(10, 70)) + r"\}",
}


@pytest.mark.parametrize("gold", ["7", "x+1", r"\sqrt{2}", "(x,y)"])
@pytest.mark.parametrize("name", NASTY)
def test_nothing_nasty_is_right_or_takes_long(equivalence, gold, name):
    start = time.perf_counter()
    [verdict] = equivalence([([gold], NASTY[name])])
    assert verdict in (Verdict.DIFFERS, Verdict.TIMED_OUT)
    assert time.perf_counter() - start < 9.0  # the budget and the start of a process


@pytest.mark.parametrize("name", NASTY)
def test_a_nasty_gold_does_no_harm_either(equivalence, name):
    assert equivalence([([NASTY[name]], r"\sqrt{3}")]) != [Verdict.MATCHED]


def test_little_of_it_runs_out_of_time():
    built = Equivalence(timeout_s=2.0, workers=1)
    built([(["7"], text) for text in NASTY.values()])
    assert built.timeouts <= 2
    built.close()


def test_many_boxes_take_linear_time():
    accuracy = BoxedAccuracy()
    text = "\\boxed{6} " * 100_000
    start = time.perf_counter()
    assert accuracy.judge([(("7",), text), (("7",), text + "\\boxed{7}")]) == [Verdict.DIFFERS, Verdict.MATCHED]
    assert time.perf_counter() - start < 5


PIECES = (
    r"\frac \sqrt \text \left( \right) \pm \cup \in \le { } ( ) [ ] ^ _ , 1 2 10 x e i ! / \cdot \begin{pmatrix}"
    r" \end{pmatrix} & \\ \pi \infty \ldots \boxed \mathrm \binom \log \sin | = < : \degree \% \$ and"
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="\\{}()[]^_$ ,;.:+-*/=<>|!'\"%&~0123456789xyeifn√²½π七\0\ud800\u200b", max_size=60),
    st.lists(
        st.sampled_from(PIECES.split()),
        max_size=25,
    ).map(" ".join),
)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_any_text_has_one_verdict_in_order(equivalence, pairs):
    verdicts = equivalence([([gold], answer) for gold, answer in pairs])
    assert len(verdicts) == len(pairs)
    assert set(verdicts) <= set(Verdict) - {Verdict.NO_BOX}
    for (gold, answer), verdict in zip(pairs, verdicts):
        if gold.strip() == answer.strip() and gold.strip():
            assert verdict is Verdict.MATCHED


@settings(max_examples=1000, deadline=None)
@given(TEXTS)
def test_the_reader_stumbles_over_nothing(text):
    parsed(read(text) or ())  # what the process would catch is a fault all the same


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(TEXTS)
def test_no_text_is_a_number_it_does_not_show(equivalence, text):
    if not any(char.isdigit() or char in "½{}²" for char in text):
        assert equivalence([(["73"], text)]) != [Verdict.MATCHED]


def test_a_script_without_a_main_guard_can_grade_and_its_process_knows_nothing_of_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from edge_lightning.rewards.equivalence import Equivalence\n"
        "print(*Equivalence()([(['x/2'], '0.5x')]))\n"
        "import edge_lightning.rewards.worker\n"
        "print({'torch', 'transformers', 'lightning'} & set(sys.modules))\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.returncode) == ("matched\nset()\n", 0)

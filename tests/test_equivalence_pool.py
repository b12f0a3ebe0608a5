"""The processes that compare: killed on time-out, replaced when they die, gone when their parent is."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edge_lightning.errors import UserError
from edge_lightning.rewards.equivalence import Equivalence
from edge_lightning.rewards.pool import Pool
from edge_lightning.rewards.worker import MEMORY_BYTES
from edge_lightning.types import Verdict

ROOT = Path(__file__).resolve().parents[1]
HALF = (("x/2",), r"\frac{2x}{4}")
THIRD = (("x/2",), r"\frac{x}{3}")


@pytest.fixture
def pool():
    built = Pool(5.0, 2)
    yield built
    built.close()


def pids(pool: Pool) -> list[int]:
    return [worker.process.pid for worker in pool._workers]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(wanted: list[int], within_s: float) -> bool:
    end = time.monotonic() + within_s
    while any(map(alive, wanted)) and time.monotonic() < end:
        time.sleep(0.1)
    return not any(map(alive, wanted))


def test_answers_come_in_the_order_of_the_questions(pool):
    questions = [HALF, THIRD] * 10
    assert pool(questions) == [Verdict.MATCHED, Verdict.DIFFERS] * 10
    assert len(pool._workers) == 2
    assert pool([]) == []


def test_processes_start_when_there_is_work_for_them(pool):
    assert pool._workers == []
    pool([HALF])
    assert len(pool._workers) == 1


def test_one_that_runs_out_of_time_is_killed_counted_and_replaced():
    slow = Equivalence(timeout_s=0.5, workers=1)
    slow._pool = Pool(0.5, 1, judge="tests.slow_judge")
    pair = (["x/2+y"], r"\frac{2x}{4}+\frac{y^2}{y}")
    start = time.perf_counter()
    assert slow([pair, pair, (["1"], "1")]) == [Verdict.TIMED_OUT, Verdict.TIMED_OUT, Verdict.MATCHED]
    assert slow._pool._workers == []
    assert slow([pair]) == [Verdict.TIMED_OUT]
    assert (slow.timeouts, list(slow.given_up)) == (1, [(("x/2+y",), r"\frac{2x}{4}+\frac{y^2}{y}")])
    assert slow([(["y/2"], r"\frac{2y}{4}")]) == [Verdict.MATCHED]  # of a process in its place
    assert time.perf_counter() - start < 30
    slow.close()


def test_what_ran_out_of_time_is_tried_once_more_and_stays_counted():
    equivalence = Equivalence(timeout_s=5.0, workers=1)
    asked, said = [], [[Verdict.TIMED_OUT, Verdict.TIMED_OUT], [Verdict.MATCHED], [Verdict.TIMED_OUT]]
    equivalence._pool = lambda questions: asked.append(len(questions)) or (said.pop(0) if questions else [])
    one, other = (["x"], "y"), (["x"], "z")
    assert equivalence([one, other]) == [Verdict.TIMED_OUT] * 2
    assert [equivalence([one]) for _ in range(2)] == [[Verdict.MATCHED]] * 2
    assert [equivalence([other]) for _ in range(3)] == [[Verdict.TIMED_OUT]] * 3
    assert (equivalence.timeouts, asked) == (2, [2, 1, 0, 1, 0, 0])


def test_one_that_dies_between_questions_is_replaced_and_no_verdict_suffers(pool):
    pool([HALF, HALF])
    before = pids(pool)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert gone(before, 5)
    assert pool([HALF, THIRD, HALF]) == [Verdict.MATCHED, Verdict.DIFFERS, Verdict.MATCHED]


def test_one_that_is_killed_at_a_question_costs_no_verdict(pool):
    pool([HALF])
    [pid] = pids(pool)
    os.kill(pid, signal.SIGSTOP)  # so that it holds its question when it is killed
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    assert pool([HALF, HALF, HALF]) == [Verdict.MATCHED] * 3
    assert pid not in pids(pool)


def test_a_question_that_kills_two_differs_and_no_other_suffers():
    deadly = Pool(60.0, 1, judge="tests.deadly_judge")
    questions = [(["1"], "1"), (["1"], "x"), (["1"], "1"), (["1"], "1")]
    assert deadly(questions) == [Verdict.MATCHED, Verdict.DIFFERS, Verdict.MATCHED, Verdict.MATCHED]
    deadly.close()


def test_a_stopped_process_costs_its_budget_and_not_more():
    pool = Pool(1.0, 1)
    pool([HALF])
    os.kill(pids(pool)[0], signal.SIGSTOP)
    start = time.perf_counter()
    assert pool([HALF, THIRD]) == [Verdict.TIMED_OUT, Verdict.DIFFERS]
    assert time.perf_counter() - start < 60  # a starved machine's, not the budget's
    pool.close()


def test_it_closes_twice_and_goes_on_after_that(pool):
    pool([HALF])
    before = pids(pool)
    pool.close()
    pool.close()
    assert gone(before, 5)
    assert pool([HALF]) == [Verdict.MATCHED]


def test_a_reply_that_comes_behind_an_interrupt_answers_no_other_question(pool, monkeypatch):
    pool([THIRD, THIRD])
    asked = pids(pool)

    def interrupted(workers):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("edge_lightning.rewards.pool._heard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool([THIRD, THIRD])
    assert gone(asked, 5)
    assert pool([HALF]) == [Verdict.MATCHED]


def test_control_c_on_the_terminal_is_not_for_them(pool):
    pool([HALF])
    assert os.getsid(pids(pool)[0]) != os.getsid(0)


def test_any_thread_may_ask(pool):
    found = {}

    def ask(name: int) -> None:
        found[name] = pool([HALF, THIRD])

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {name: [Verdict.MATCHED, Verdict.DIFFERS] for name in range(6)}


def test_a_process_may_not_take_all_memory(pool):
    pool([HALF])
    limits = Path(f"/proc/{pids(pool)[0]}/limits").read_text()
    assert str(MEMORY_BYTES) in next(line for line in limits.splitlines() if line.startswith("Max address space"))


SCRIPT = """
import os, sys, time
from edge_lightning.rewards.equivalence import Equivalence
equivalence = Equivalence(workers=2)
equivalence([(["x/2"], "0.5x"), (["x/2"], "0.25x")])
print(*[worker.process.pid for worker in equivalence._pool._workers], flush=True)
"""


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "os._exit(1)",
        "time.sleep(60)",
        "os.fork() or time.sleep(20)\ntime.sleep(60)",  # the fork holds the other end of the pipes
    ],
)
def test_no_process_outlives_its_parent(ending):
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT + ending], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    started = [int(pid) for pid in parent.stdout.readline().split()]
    assert started
    if "sleep" in ending:
        time.sleep(0.5)
        parent.kill()
    parent.wait(20)
    parent.stdout.close()
    assert gone(started, 20)  # the second may still be starting


def test_a_process_that_does_not_start_is_an_error_that_says_how_to_look(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UserError, match="the process that grades did not start; run /bin/false"):
        Pool(1.0, 1)([HALF])

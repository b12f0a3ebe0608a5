"""An engine that dies, stalls, or returns less than it was asked for is one line, and what waits for it is let go."""

import signal
import subprocess
import sys
import time

import pytest

from edge_lightning.engine import watched
from edge_lightning.engine.base import StaleWeightsError, name_of
from edge_lightning.engine.watched import EngineError, Watched
from edge_lightning.types import Generation, Problem, Provenance, Request, Sampling

REQUESTS = [Request(Problem(name, "t", ("1",)), (5, 6), 3, 0) for name in ("p1", "p1", "p2")]
GOOD = Generation((7, 8), (-0.5, -0.25), "stop")


class Fake:
    """Returns what it was given, or does what it was given."""

    provenance = Provenance.SAMPLED
    weights_version = 4
    max_model_len = 9

    def __init__(self, returned=None, act=None, stall_s=None):
        self.returned, self.act, self.stall_s = returned, act, stall_s

    def generate(self, requests, sampling, *, weights_version):
        if self.act is not None:
            self.act(self)
        return self.returned


def generate(fake):
    return Watched(fake).generate(REQUESTS, Sampling(), weights_version=4)


def test_what_is_right_passes_and_the_engine_shows_through():
    engine = Watched(Fake([GOOD] * 3))
    assert engine.generate(REQUESTS, Sampling(), weights_version=4) == [GOOD] * 3
    assert (engine.provenance, engine.weights_version, engine.max_model_len) == (Provenance.SAMPLED, 4, 9)
    assert (name_of(engine), name_of(engine.engine)) == ("Fake", "Fake")
    copies = [Generation((7,), None, "stop")] * 3  # of reference solutions, which nobody sampled
    assert generate(Fake(copies)) == copies


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([GOOD, GOOD], r"Fake returned 2 responses, 3 were asked for"),
        ([], r"Fake returned 0 responses"),
        ([GOOD, GOOD, Generation((), (), "stop")], r"no token for 1 of 3 responses, of problem 'p2'"),
        ([GOOD, Generation((), (), "abort"), Generation((), (), "abort")], r"no token for 2 of 3 .* problems 'p1', 'p2'"),
        ([GOOD, GOOD, Generation((1, 2, 3, 4), (-1.0,) * 4, "length")], r"more tokens than the limit .* 'p2'"),
        ([GOOD, GOOD, Generation((1, -1), (-1.0, -1.0), "stop")], r"a negative token id .* 'p2'"),
        ([GOOD, GOOD, Generation((1, 2), (-1.0,), "stop")], r"log-probabilities of other tokens .* 'p2'"),
        ([Generation((1,), (float("nan"),), "stop"), GOOD, GOOD], r"a log-probability that is no number .* 'p1'"),
        ([Generation((1,), (float("-inf"),), "stop"), GOOD, GOOD], r"a log-probability that is no number .* 'p1'"),
    ],
)
def test_less_than_was_asked_for_is_refused_by_problem(returned, message):
    with pytest.raises(EngineError, match=message) as refused:
        generate(Fake(returned))
    assert str(refused.value).count("\n") == 0


def test_an_engine_that_dies_is_one_line_with_what_it_was_at():
    def die(fake):
        raise RuntimeError("EngineCore encountered an issue.\nSee stack trace.")

    with pytest.raises(EngineError) as died:
        generate(Fake(act=die))
    assert str(died.value) == (
        "Fake failed in generating for problems 'p1', 'p2': RuntimeError: EngineCore encountered an issue."
    )


@pytest.mark.parametrize("error", [StaleWeightsError("our own fault"), MemoryError("too little"), KeyboardInterrupt()])
def test_what_is_not_the_engines_fault_is_passed_on(error):
    def fail(fake):
        raise error

    with pytest.raises(type(error)):
        generate(Fake(act=fail))


def test_an_engine_that_stalls_is_given_up_and_one_that_makes_tokens_is_not():
    def stall(fake):
        time.sleep(60)

    before = signal.getsignal(watched.STALLED)
    start = time.monotonic()
    with pytest.raises(EngineError, match=r"made no token for 0.2 s in generating for problems 'p1', 'p2'"):
        generate(Fake(act=stall, stall_s=0.2))
    assert time.monotonic() - start < 30
    assert signal.getsignal(watched.STALLED) == before

    def go_on(fake):
        for _ in range(8):  # longer than the limit all in all
            time.sleep(0.2)
            fake.beat()

    assert generate(Fake([GOOD] * 3, act=go_on, stall_s=1.0)) == [GOOD] * 3


def test_a_process_that_hears_no_exception_is_ended():
    code = """
from edge_lightning.engine import watched
from tests.faults.test_watched import Fake, generate
watched.GRACE_S = 0.5
def deep(fake):
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {watched.STALLED})
    import time
    time.sleep(600)
generate(Fake(act=deep, stall_s=0.2))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("edge-lightning: Fake made no token for 0.2 s")
    assert done.stderr.count("\n") == 1

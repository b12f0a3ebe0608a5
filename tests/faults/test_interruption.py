"""Ctrl-C and SIGTERM: the run ends at once with a checkpoint of all its whole steps, and says how to go on."""

from __future__ import annotations

import os
import signal

import pytest

from edge_lightning.training.interruption import Interruption, sigterm_is_control_c
from tests.faults.child import run_child
from tests.faults.stages import do_at
from tests.run_record import SMALL, assert_same_run, metrics, summary

LINE = (*SMALL, "optimizer.lr=1e-3", "steps=7", "schedule=linear", "evaluation=none", "module.entropy_every_n_steps=1")
SENT = [  # the signal, stage and step at which it comes, and how many steps are whole then
    ("SIGTERM", "before the optimizer", 0, 1),  # from there on the step is brought to its end
    ("SIGINT", "sampled", 2, 2),
    ("SIGTERM", "half a parquet", 2, 3),
    ("SIGTERM", "graded", 4, 4),
    ("SIGINT", "behind the optimizer", 4, 5),
    ("SIGTERM", "step recorded", 5, 6),
]


def send(name: str) -> None:
    os.kill(os.getpid(), getattr(signal, name))


def send_at(name: str, stage: str, step: int) -> None:
    """Have this process get a signal at a stage of a step."""
    do_at(stage, step, lambda: send(name))


@pytest.mark.slow
def test_a_signal_ends_a_run_with_a_checkpoint_of_its_whole_steps(tmp_path):
    assert run_child(tmp_path / "unbroken", LINE)[0] == 0
    folder = tmp_path / "run"
    for name, stage, step, whole in SENT:
        status, said = run_child(folder, (*LINE, "resume=auto"), send_at, name, stage, step)
        assert (status, said.count("Traceback")) == (1, 0), said
        last = said.splitlines()[-1]
        assert f"interrupted after {whole} of 7 steps, {whole} of them in {folder}/checkpoints/last.ckpt; go on with" in last
        assert (summary(folder)["status"], len(metrics(folder))) == ("interrupted", whole)
    assert run_child(folder, (*LINE, "resume=auto"))[0] == 0
    assert_same_run(tmp_path / "unbroken", folder)


def test_a_signal_is_heeded_at_once_unless_it_is_held_and_the_second_always():
    listening = Interruption()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    listening.begin()
    try:
        with pytest.raises(KeyboardInterrupt):
            send("SIGTERM")
        listening.hold()
        send("SIGINT")  # nothing yet
        with pytest.raises(KeyboardInterrupt):
            listening.release()
        listening.release()  # once
        listening.hold()
        send("SIGTERM")
        with pytest.raises(KeyboardInterrupt):
            send("SIGTERM")
    finally:
        listening.end()
    assert {number: signal.getsignal(number) for number in before} == before


def test_sigterm_closes_what_is_open_before_a_training_listens_itself():
    before = signal.getsignal(signal.SIGTERM)

    def terminated():
        with sigterm_is_control_c():
            send("SIGTERM")

    with pytest.raises(KeyboardInterrupt):
        terminated()
    assert signal.getsignal(signal.SIGTERM) == before

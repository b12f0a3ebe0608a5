"""What processes of a run know of each other before they can talk: places, the folder's name, who says what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from edge_lightning.cli import ranks
from edge_lightning.cli.fit import fit
from edge_lightning.cli.grade import grade
from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.resume import claimed
from edge_lightning.cli.resume_auto import _at_work
from edge_lightning.cli.screen import screen
from edge_lightning.collective import ALONE
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
from edge_lightning.training.interruption import SIGNALS
from edge_lightning.training.lockstep import backward, empty_batch, level
from edge_lightning.training.rollout_callback import refuse_several_runs
from edge_lightning.training.stop_callback import StopCallback
from tests.ranks import together

NAMES = (
    *ranks.PLACES,
    "WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)
DATE = "%Y-%m-%d"


@pytest.fixture
def environment(monkeypatch):
    """environment(NAME=value, ...): what a launcher sets, and nothing else of the kind."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    ranks.started.cache_clear()
    yield lambda **values: [monkeypatch.setenv(name, value) for name, value in values.items()]
    ranks.started.cache_clear()


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"RANK": "8", "LOCAL_RANK": "0"}, False),  # torchrun, the first of the second node
        ({"LOCAL_RANK": "1"}, False),  # Lightning's launcher
        ({"NODE_RANK": "1"}, False),
        ({"SLURM_PROCID": "3"}, False),
    ],
)
def test_the_first_process_is_known_from_the_environment(environment, values, first):
    environment(**values)
    assert ranks.is_first_process() is first


def test_a_folder_is_named_by_what_all_processes_know(environment):
    assert ranks.started(DATE) == time.strftime(DATE)
    ranks.started.cache_clear()
    environment(SLURM_PROCID="3", SLURM_NTASKS="16", SLURM_JOB_ID="71", SLURM_STEP_ID="2")
    assert ranks.started(DATE) == "slurm_71_2"
    ranks.started.cache_clear()
    environment(WORLD_SIZE="16", TORCHELASTIC_RUN_ID="warm", GROUP_WORLD_SIZE="2")
    assert ranks.started(DATE) == "torchrun_warm"


def test_processes_of_one_node_take_the_time_at_which_torchrun_started(environment):
    environment(WORLD_SIZE="2", TORCHELASTIC_RUN_ID="none", GROUP_WORLD_SIZE="1")
    first = ranks.started("%s")
    ranks.started.cache_clear()
    assert ranks.started("%s") == first
    assert int(first) <= time.time()
    assert int(first) == pytest.approx(time.time() - uptime_of(os.getppid()), abs=5)


def uptime_of(process):
    return int(subprocess.check_output(["ps", "-o", "etimes=", "-p", str(process)]))


@pytest.mark.parametrize(
    "values", [{"NODE_RANK": "0"}, {"WORLD_SIZE": "16", "TORCHELASTIC_RUN_ID": "none", "GROUP_WORLD_SIZE": "2"}]
)
def test_nodes_that_know_nothing_of_each_other_are_to_be_told_a_folder(environment, values):
    environment(**values)
    with pytest.raises(UserError, match=r"set hydra.run.dir=DIR, the same on all"):
        ranks.started(DATE)


def test_one_process_says_why(tmp_path):
    assert ranks.is_first_to_tell(tmp_path, "rank 1: the disk is full")
    assert not ranks.is_first_to_tell(tmp_path, "rank 0: another has ended")
    assert (tmp_path / "failure.txt").read_text() == "rank 1: the disk is full\n"


def test_where_nothing_can_be_written_it_is_said_all_the_same(tmp_path):
    assert ranks.is_first_to_tell(tmp_path / "nowhere", "rank 1: the disk is full")


@pytest.mark.parametrize(("command", "task"), [("grade", grade), ("screen", screen)])
def test_a_command_of_one_process_tells_each_time_and_leaves_nothing(command, task, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.chdir(tmp_path)
    line = {"grade": ["nowhere.jsonl"], "screen": ["data.problem_set.path=nowhere", "model.path=x", "hydra.run.dir=there"]}
    for _ in range(2):
        assert run(command, line[command], task) == 1
        assert capfd.readouterr().err.startswith(f"edge-lightning {command}: ")
    assert not list(tmp_path.rglob("failure.txt"))


def test_what_is_refused_beside_a_run_at_work_is_not_its_failure(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with claimed(tmp_path):
        assert run("fit", ["engine=hf", f"hydra.run.dir={tmp_path}"], fit) == 1
    assert "another process is at work in this folder" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_lost_connection_is_no_cause():
    gloo = "[/gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:38122"
    assert ranks.lost_another(RuntimeError(gloo))
    assert ranks.lost_another(dist.DistNetworkError("no answer"))
    assert not ranks.lost_another(RuntimeError("shapes do not fit"))
    assert not ranks.lost_another(UserError(gloo))


def test_every_rank_makes_as_many_passes_as_the_busiest():
    batch = empty_batch()
    found = together(lambda mine: len(level([batch] * mine.rank, mine)), 4)
    assert found == [3, 3, 3, 3]


def test_a_pass_over_nothing_has_a_gradient_of_zero_for_every_weight(asset):
    policy = Policy.load(asset)
    forward = policy(empty_batch())
    assert len(forward.logprobs_N) == len(forward.entropies_N) == 0
    forward.logprobs_N.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in policy.parameters())


def test_a_loss_counts_as_often_as_there_are_ranks_before_the_average_and_is_met_over_once():
    met = []

    class Strategy:
        def block_backward_sync(self):
            met.append("alone")
            return nullcontext()

    def work(mine):
        weight = torch.tensor(2.0, requires_grad=True)
        losses = (weight * (10 * mine.rank + n) for n in (1, 2))
        backward(losses, 2, mine, None, lambda loss: loss.backward())
        return weight.grad

    grads = together(work, 2)
    assert sum(grads) / 2 == 1 + 2 + 11 + 12  # the average of ranks is the sum of all losses
    weight = torch.tensor(2.0, requires_grad=True)
    backward(iter([weight * 1, weight * 1, weight * 1]), 3, ALONE, Strategy(), lambda loss: None)
    assert met == ["alone", "alone"]


class Evaluations:
    at_work = False


@pytest.mark.parametrize("signal_of", [signal.SIGTERM, signal.SIGINT])
def test_all_ranks_stop_behind_the_step_in_which_one_was_told_to(signal_of):
    """Each gets to know it where all of them meet; Lightning's handlers are out of the way."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    stops = [StopCallback(Evaluations()) for _ in range(3)]
    try:
        stops[1].on_train_start(None, SimpleNamespace(ranks=SimpleNamespace(size=3)))
        os.kill(os.getpid(), signal_of)
        assert [stop.asked for stop in stops] == [False, True, False]

        def step(mine):
            trainer = SimpleNamespace(should_stop=False)
            stops[mine.rank].on_train_batch_end(trainer, SimpleNamespace(ranks=mine), None, None, 0)
            return trainer.should_stop

        assert together(step, 3) == [True, True, True]
        with pytest.raises(KeyboardInterrupt):  # the second one
            os.kill(os.getpid(), signal_of)
        stops[1].asked, stops[1].evaluations.at_work = False, True
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal_of)
        stops[1].asked = False
        assert together(step, 3) == [False, False, False]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_process_by_itself_keeps_its_own_way_with_signals():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    StopCallback(Evaluations()).on_train_start(None, SimpleNamespace(ranks=ALONE))
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_processes_that_would_do_different_runs_are_refused(tmp_path):
    def work(mine):
        checkpoint = "last.ckpt" if mine.rank == 0 else None
        with pytest.raises(UserError, match="from last.ckpt and .* from its beginning came; set hydra.run.dir=DIR"):
            refuse_several_runs(tmp_path, checkpoint, mine)
        refuse_several_runs(tmp_path, "last.ckpt", mine)

    together(work, 2)


def test_only_the_first_process_looks_whether_a_run_is_at_work(environment, tmp_path):
    """It holds the folder of the run that it goes on with, maybe before the others look for one."""
    with claimed(tmp_path):
        assert _at_work(tmp_path)
        environment(LOCAL_RANK="1")
        assert not _at_work(tmp_path)

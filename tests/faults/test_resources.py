"""A full disk, a folder that can't be written, too little memory: one line, status failed, nothing lost, no one left behind.

The limits are the kernel's own, set in a process of its own: a file may not grow, a user may not write, memory is bounded.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

import pytest

from edge_lightning.cli.failures import told
from edge_lightning.errors import UserError
from tests.faults.child import run_child
from tests.faults.stages import do_at
from tests.run_record import SMALL, assert_same_run, metrics, rollouts, summary

pytestmark = pytest.mark.slow

LINE = (
    *SMALL,
    "optimizer.lr=1e-3",
    "steps=4",
    "evaluation=none",
    "module.entropy_every_n_steps=1",
    "callbacks.last_checkpoint.every_n_steps=2",
)


def small_files() -> None:
    """From step 3 on no file may grow beyond a MiB: of all that is written a checkpoint does, in front of its end."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    do_at("sampled", 3, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, resource.RLIM_INFINITY)))


def read_only(folder: Path) -> None:
    """From step 2 on the rollouts' folder is one of the kernel's own, into which not even root may write."""

    def replace() -> None:
        (folder / "rollouts").rename(folder / "kept")
        (folder / "rollouts").symlink_to("/sys/kernel")

    do_at("filled", 2, replace)


def little_memory() -> None:
    """In step 2 there is not room for one more tensor of 1 GiB, which the forward pass asks for."""
    import torch

    from edge_lightning.training.module import PolicyModule

    def ask_for_more() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
        torch.ones(2**28)

    plain = PolicyModule._score

    def score(self, rollout, responses):
        if rollout.step == 2:
            ask_for_more()
        return plain(self, rollout, responses)

    PolicyModule._score = score


def dead_engine() -> None:
    """In step 3 the engine's model is gone."""
    from edge_lightning.engine.hf import HfEngine

    plain, calls = HfEngine.generate, []

    def generate(self, requests, sampling, *, weights_version):
        if weights_version == 3:
            raise RuntimeError("EngineCore died")
        calls.append(weights_version)
        return plain(self, requests, sampling, weights_version=weights_version)

    HfEngine.generate = generate


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert run_child(folder, LINE)[0] == 0
    return folder


def children_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


@pytest.mark.parametrize(
    ("prepare", "given", "message", "whole"),
    [
        (small_files, (), "checkpoints/last.ckpt: File too large; raise the limit on file sizes; stopped after 4 of 4", 2),
        (read_only, ("folder",), "step_000002_rank_0.parquet", 2),
        (little_memory, (), "memory ran short (", 2),
        (dead_engine, (), "HfEngine failed in generating for problems 'train-", 3),
    ],
    ids=["a full disk", "a folder that can not be written", "too little memory", "a dead engine"],
)
def test_what_the_machine_refuses_stops_a_run_in_one_line_and_loses_nothing(
    unbroken, tmp_path, prepare, given, message, whole
):
    folder = tmp_path / "run"
    status, said = run_child(folder, LINE, prepare, *(folder for _ in given))
    last = said.splitlines()[-1]
    assert status == 1, said
    assert message in last, said
    assert "Traceback" not in said
    assert f"{whole} of them in {folder}/checkpoints/last.ckpt; go on with edge-lightning fit resume={folder}" in last
    assert summary(folder)["status"] == "failed"
    if prepare is read_only:
        assert "make it writable; stopped after 3 of 4 steps" in last
        (folder / "rollouts").unlink()
        (folder / "kept").rename(folder / "rollouts")
    assert not list(folder.rglob("*.part"))
    assert len(metrics(folder)) >= whole
    assert run_child(folder, (*LINE, "resume=auto"))[0] == 0
    assert_same_run(unbroken, folder)
    assert len(rollouts(folder)) == 4 * 8


def test_no_process_is_left_behind_by_a_killed_run(tmp_path):
    from edge_lightning.rewards.pool import Pool

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        pool = Pool(5.0, 2)
        pool([(["x/2"], r"\frac{x}{2}"), (["y/2"], r"\frac{y}{2}")])
        os.write(writer, b"ready")
        time.sleep(600)
    assert os.read(reader, 5) == b"ready"
    workers = children_of(pid)
    assert workers
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    end = time.monotonic() + 120
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < end:
        time.sleep(0.2)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("as it is"), "as it is"),
        (
            OSError(28, "No space left on device", "/run/last.ckpt"),
            "/run/last.ckpt: No space left on device; free some space",
        ),
        (OSError(30, "whatever pyarrow says"), "/run: Read-only file system; make it writable"),
        (OSError(24, "Too many open files"), "/run: Too many open files; raise the limit on open files (ulimit -n)"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"), "memory ran short ([enf"),
        (MemoryError(), "memory ran short (MemoryError); lower datamodule.micro_batch_tokens"),
        (RuntimeError("a bug"), None),
        (ValueError("out of memory"), None),
        (ConnectionResetError(104, "Connection reset by peer"), None),
    ],
)
def test_only_what_a_user_can_mend_is_one_line(error, line):
    said = told(error, "/run")
    assert (said is None) if line is None else said.startswith(line)

"""A full disk, a folder that can't be written, too little memory: one line, status failed, nothing lost, no one left behind.

The limits are the kernel's own, set in a process of its own: a file may not grow, a user may not write, memory is bounded.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from edge_lightning.cli.failures import told
from edge_lightning.errors import UserError
from tests.faults.child import run_child
from tests.faults.stages import do_at
from tests.run_record import SMALL, assert_same_run, metrics, rollouts, summary

pytestmark = pytest.mark.slow

STEPS = 8
LINE = (
    *SMALL,
    "optimizer.lr=1e-3",
    f"steps={STEPS}",
    "evaluation=none",
    "module.entropy_every_n_steps=1",
    "callbacks.last_checkpoint.every_n_steps=2",
)


def read_only(folder: Path) -> None:
    """From step 2 on the rollouts' folder is one of the kernel's own, into which not even root may write."""

    def replace() -> None:
        (folder / "rollouts").rename(folder / "kept")
        (folder / "rollouts").symlink_to("/sys/kernel")

    do_at("filled", 2, replace)


def full_disk(folder: Path) -> None:
    """The responses of step 3 go to a device on which there is no space left."""
    assert Path("/dev/full").is_char_device(), "else a file would be made there"
    do_at("filled", 3, lambda: (folder / "rollouts" / "step_000003_rank_0.parquet.part").symlink_to("/dev/full"))


def dead_engine(folder: Path) -> None:
    """In step 4 the engine's model is gone."""
    from edge_lightning.engine.hf import HfEngine

    plain = HfEngine.generate

    def generate(self, requests, sampling, *, weights_version):
        if weights_version == 4:
            raise RuntimeError("EngineCore died")
        return plain(self, requests, sampling, weights_version=weights_version)

    HfEngine.generate = generate


def little_memory(folder: Path) -> None:
    """In step 5 there is not room for one more tensor of 1 GiB, which the forward pass asks for."""
    import torch

    from edge_lightning.training.module import PolicyModule

    def ask_for_more() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
        torch.ones(2**28)

    plain = PolicyModule._score

    def score(self, rollout, responses):
        if rollout.step == 5:
            ask_for_more()
        return plain(self, rollout, responses)

    PolicyModule._score = score


def small_files(folder: Path) -> None:
    """From step 7 on no file may grow beyond a MiB: of all that is written a checkpoint does, in front of its end."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    do_at("sampled", 7, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, resource.RLIM_INFINITY)))


def no_place_for_the_policy(folder: Path) -> None:
    """All steps are made, and what the trained policy is written to is a folder of the kernel's own."""
    (folder / "checkpoints" / "hf.part").symlink_to("/sys/kernel")


# what happens, what is said, how many updates were made until then, how many steps of them are kept
FAULTS = [
    (read_only, "step_000002_rank_0.parquet: Permission denied; make it writable", 3, 2),
    (full_disk, "step_000003_rank_0.parquet: No space left on device; free some space", 4, 2),
    (dead_engine, "HfEngine failed in generating for problems 'train-", 4, 4),
    (little_memory, "memory ran short (", 5, 5),
    (small_files, "checkpoints/last.ckpt: File too large; raise the limit on file sizes", 8, 6),
    (no_place_for_the_policy, "checkpoints/hf.part/config.json: Permission denied; make it writable", 8, 8),
]


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


def test_what_the_machine_refuses_stops_a_run_in_one_line_and_loses_nothing(tmp_path):
    """One run that meets all of it, one after another, and goes on each time."""
    assert run_child(tmp_path / "unbroken", LINE)[0] == 0
    folder = tmp_path / "run"
    for prepare, message, made, kept in FAULTS:
        status, said = run_child(folder, (*LINE, "resume=auto"), prepare, folder)
        last = said.splitlines()[-1]
        assert (status, said.count("Traceback")) == (1, 0), said
        assert message in last, said
        assert f"; stopped after {made} of {STEPS} steps, {kept} of them in {folder}/checkpoints/last.ckpt; go on" in last
        assert summary(folder)["status"] == "failed"
        if prepare is read_only:
            (folder / "rollouts").unlink()
            (folder / "kept").rename(folder / "rollouts")
        assert not list(folder.rglob("*.part"))
        assert len(metrics(folder)) >= kept
    assert run_child(folder, (*LINE, "resume=auto"))[0] == 0
    assert_same_run(tmp_path / "unbroken", folder)
    assert len(rollouts(folder)) == STEPS * 8


def taken_port() -> None:
    """As torchrun starts the first of two processes, at a place where another process listens."""
    taken.append(socket.create_server(("127.0.0.1", 0)))
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken[0].getsockname()[1])}
    place |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a"}
    os.environ.update(place)


taken: list[socket.socket] = []  # open as long as the process


def test_a_port_that_is_taken_is_one_line(tmp_path):
    status, said = run_child(tmp_path / "run", (*LINE, "strategy=ddp", "trainer.devices=2"), taken_port)
    last = said.splitlines()[-1]
    assert (status, said.count("Traceback")) == (1, 0), said
    assert "rank 0: MASTER_PORT=" in last
    assert "a free port expected, another process has this one; set another (torchrun: --standalone); stopped" in last


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
        (
            Exception("Error while serializing: I/O error: No space left on device (os error 28)"),
            "/run: No space left",
        ),
        (RuntimeError("a bug"), None),
        (ValueError("out of memory"), None),
        (ConnectionResetError(104, "Connection reset by peer"), None),
    ],
)
def test_only_what_a_user_can_mend_is_one_line(error, line):
    said = told(error, "/run")
    assert (said is None) if line is None else said.startswith(line)

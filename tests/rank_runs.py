"""What every rank runs under torchrun in tests/test_processes.py: one command line after the other, in one process group.

    python -m torch.distributed.run --nproc-per-node 2 -m tests.rank_runs LINES.json

Each line is a list of overrides of `edge-lightning fit`; with "stop_before=N" the second process gets a signal in step
N - 1, behind which all of them stop.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import lightning as L

from edge_lightning.cli.fit import fit
from edge_lightning.cli.hydra_app import run
from edge_lightning.errors import UserError
from edge_lightning.experience import Pipeline


class Agreement(L.Callback):
    """Leaves the hash of the weights of each rank at the end of a training: checkpoints/rank_N.txt."""

    def __init__(self, *, dirpath: Path):
        self.folder = Path(dirpath)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        found = pl_module.policy.checksum()
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"rank_{trainer.global_rank}.txt").write_text(found)


class Fault(L.Callback):
    """Ends one rank in the middle of a step: with an error, or killed."""

    def __init__(self, *, dirpath: Path, rank: int, how: str, step: int = 1):
        self.rank, self.how, self.step = rank, how, step

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch, batch_idx: int) -> None:
        if trainer.global_rank == self.rank and batch.step == self.step:
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise UserError("the disk is full") if self.how == "user" else ZeroDivisionError("a bug")


@contextmanager
def stopped_before(step: int | None):
    fill = Pipeline.fill

    def stopping(self, rollout, **settings):
        if step is not None and rollout.step == step - 1 and self.ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        fill(self, rollout, **settings)

    Pipeline.fill = stopping
    try:
        yield
    finally:
        Pipeline.fill = fill


def main(lines: list[list[str]]) -> None:
    for line in lines:
        stops = [int(part.split("=")[1]) for part in line if part.startswith("stop_before=")]
        with stopped_before(stops[0] if stops else None):
            status = run("fit", [part for part in line if not part.startswith("stop_before=")], fit)
        if status != (1 if stops and os.environ["RANK"] == "0" else 0):  # which says that it was interrupted
            raise SystemExit(f"exit status {status} of {line}")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))

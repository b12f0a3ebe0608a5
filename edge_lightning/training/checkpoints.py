"""checkpoints/last.ckpt, what a killed run goes on from, and best.ckpt, the policy with the best evaluation so far.

Lightning's ModelCheckpoint writes through a temporary file that may lie on another disk, names a second run's file
last-v1.ckpt, and writes none at the end if it has written one before.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import Checkpoint
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.policy import Policy

SHARDS_RECORD = "meta.pt"  # Lightning's name for what stands beside the shards


class LastCheckpoint(Checkpoint):
    """Writes last.ckpt each n steps or minutes, and at the end, whole or not at all, after all other callbacks.

    An evaluation has it written before it begins, too.

    Args:
        dirpath: folder of the file.
        every_n_steps: the most steps that a killed run does again.
        every_n_minutes: the longest that it does again, to within a step, where steps are slow.
    """

    def __init__(self, *, dirpath: Path, every_n_steps: int = 25, every_n_minutes: float = 10.0):
        require_at_least_one("callbacks.last_checkpoint.every_n_steps", every_n_steps)
        if not every_n_minutes > 0:
            raise UserError(f"callbacks.last_checkpoint.every_n_minutes={every_n_minutes}: above 0 expected")
        self.every_n_minutes = every_n_minutes
        self.saved_at = time.monotonic()
        self.path = Path(dirpath) / "last.ckpt"
        self.every_n_steps = every_n_steps

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs, batch, batch_idx: int) -> None:
        minutes = pl_module.ranks.first((time.monotonic() - self.saved_at) / 60)  # clocks differ; all of them write
        if (batch.step + 1) % self.every_n_steps == 0 or minutes >= self.every_n_minutes:
            self.write(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.write(trainer)

    def write(self, trainer: L.Trainer) -> None:
        save(trainer, self.path)
        self.saved_at = time.monotonic()


class BestCheckpoint(Checkpoint):
    """Writes best.ckpt after an evaluation during training that beats all before it, whole or not at all.

    Evaluations are those of evaluation.every_n_steps and the one after the last step. Without any there is no file.

    Args:
        dirpath: folder of the file.
        monitor: a metric of trainer.callback_metrics, larger is better; a run that has no such metric writes nothing.
            None: there is nothing to go by.
    """

    def __init__(self, *, dirpath: Path, monitor: str | None):
        self.path = Path(dirpath) / "best.ckpt"
        self.monitor = monitor
        self.best: float | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """A resumed run may do the evaluation of its checkpoint's step first."""
        if trainer.global_step > 0:
            self._compare(trainer)

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs, batch, batch_idx: int) -> None:
        self._compare(trainer)

    def _compare(self, trainer: L.Trainer) -> None:
        evaluated = trainer.callback_metrics.get("evaluation/step")
        if evaluated is None or int(evaluated) != trainer.global_step or self.monitor not in trainer.callback_metrics:
            return
        value = float(trainer.callback_metrics[self.monitor])
        if self.best is None or value > self.best:
            self.best = value
            save(trainer, self.path)

    def state_dict(self) -> dict:
        return {"best": self.best}

    def load_state_dict(self, state: dict) -> None:
        self.best = state["best"]


def load_weights(policy: Policy, path: Path) -> None:
    """Give a policy the weights of a checkpoint.

    Raises:
        UserError: they are of another model.
    """
    content = _read_weights(path)
    weights = {name.removeprefix("policy."): value for name, value in content.items() if name.startswith("policy.")}
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{path}: weights of the run's own model expected; {str(error).splitlines()[1].strip()}") from error


def read_record(path: Path) -> dict:
    """What a checkpoint says of its run, beside weights and optimizer states; a whole one's are in it, too, on disk."""
    file = path / SHARDS_RECORD if path.is_dir() else path
    return torch.load(file, map_location="cpu", weights_only=False, mmap=True)


def _read_weights(path: Path) -> dict:
    if not path.is_dir():
        return read_record(path)["state_dict"]
    return _load_state_dict_from_keys({"state_dict"}, checkpoint_id=path)["state_dict"]


def save(trainer: L.Trainer, path: Path) -> None:
    """Write a checkpoint, whole or not at all. Every rank calls it.

    One in shards is a folder, which can't be put in another's place at once; `path` is a link to it then.
    """
    if not getattr(trainer.strategy, "sharded_checkpoints", False):
        part = path.with_suffix(".part")
        trainer.save_checkpoint(part)
        if trainer.is_global_zero:
            os.replace(part, path)
        return
    one, other = (path.with_name(f"{path.stem}_shards_{number}") for number in range(2))
    folder, old = (other, one) if one.exists() and path.exists() and path.samefile(one) else (one, other)
    if trainer.is_global_zero:
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed while it wrote
    trainer.strategy.barrier()
    trainer.save_checkpoint(folder)  # where the first process says
    if trainer.is_global_zero:
        link = path.with_suffix(".part")
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        os.replace(link, path)
        shutil.rmtree(old, ignore_errors=True)

"""checkpoints/last.ckpt, what a stopped run goes on from, and best.ckpt, the policy with the best evaluation so far.

Lightning's ModelCheckpoint names a second run's file last-v1.ckpt, and writes none at the end if it has written one
before. Its CheckpointIO writes through a temporary file in $TMPDIR, which may lie on another disk; that of a run is InPlace.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint
from torch.distributed.checkpoint import CheckpointException

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.policy import Policy
from edge_lightning.training import checkpoint_files
from edge_lightning.training.interruption import Interruption, StoppedTogether
from edge_lightning.whole import on_disk, part_of


class InPlace(TorchCheckpointIO):
    """Writes where it is told to: what `save` calls for lies beside its target already, on the same disk."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        checkpoint_files.dump(checkpoint, Path(path))


class LastCheckpoint(Checkpoint):
    """Writes last.ckpt each n steps or minutes, and at the end, whole or not at all, after all other callbacks.

    An evaluation has it written before it begins, too, and so has whatever stops the run. Until a step's optimizer moves the
    weights, all that the step has done is forgotten without loss, so a signal stops the run there at once; behind that
    point the step is brought to its end first.

    Args:
        dirpath: folder of the file.
        every_n_steps: the most steps that a killed run does again.
        every_n_minutes: the longest that it does again, to within a step, where steps are slow.
        keep_previous: keep the one before as previous.ckpt, which takes its room on disk once more.
    """

    def __init__(self, *, dirpath: Path, every_n_steps: int = 25, every_n_minutes: float = 10.0, keep_previous: bool = True):
        require_at_least_one("callbacks.last_checkpoint.every_n_steps", every_n_steps)
        if not every_n_minutes > 0:
            raise UserError(f"callbacks.last_checkpoint.every_n_minutes={every_n_minutes}: above 0 expected")
        self.every_n_minutes = every_n_minutes
        self.saved_at = time.monotonic()
        self.path = Path(dirpath) / "last.ckpt"
        self.every_n_steps = every_n_steps
        self.keep_previous = keep_previous
        self.interruption = Interruption()
        self.saved_step = 0
        self.loops: dict[str, Any] | None = None  # Lightning's account of progress behind the last whole step

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.saved_step = trainer.global_step
        self.loops = trainer.fit_loop.state_dict()
        if trainer.world_size == 1:  # several have to stop at one place, which StopCallback sees to
            self.interruption.begin()
        for optimizer in trainer.optimizers:
            optimizer.register_step_pre_hook(lambda *_: self.interruption.hold())

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs, batch, batch_idx: int) -> None:
        minutes = pl_module.ranks.first((time.monotonic() - self.saved_at) / 60)  # clocks differ; all of them write
        if trainer.should_stop:  # all of several processes are here
            self.write(trainer)
            raise StoppedTogether
        if (batch.step + 1) % self.every_n_steps == 0 or minutes >= self.every_n_minutes:
            self.write(trainer)
        else:
            self._release(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.write(trainer)
        self.interruption.end()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Keep the steps since the last checkpoint, if the weights are those of a recorded step.

        Of several processes one that fails can't: the others are elsewhere.
        """
        self.interruption.end()
        whole = self.loops is not None and not self.interruption.held
        if trainer.world_size == 1 and whole and trainer.global_step > self.saved_step:
            try:
                save(trainer, self.path, keep_previous=self.keep_previous)
            except OSError as error:  # what stopped the run is what has to be said
                exception.add_note(f"{self.path} was not written either: {error}")

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Stamp it; in the middle of a step, the loops' state is that of the last whole one."""
        checkpoint[checkpoint_files.STAMP] = checkpoint_files.stamp(self.path.parents[1])
        if self.loops is not None and not self.interruption.held:
            checkpoint["loops"]["fit_loop"] = self.loops

    def write(self, trainer: L.Trainer) -> None:
        """Write it behind a whole step: its record is on disk, and a signal that came meanwhile is heeded after it."""
        self.interruption.hold()
        save(trainer, self.path, keep_previous=self.keep_previous)
        self.saved_at, self.saved_step = time.monotonic(), trainer.global_step
        self._release(trainer)

    def _release(self, trainer: L.Trainer) -> None:
        self.loops = trainer.fit_loop.state_dict()
        self.interruption.release()


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
        UserError: it is no checkpoint, or its weights are of another model.
    """
    content = checkpoint_files.weights(path)
    weights = {name.removeprefix("policy."): value for name, value in content.items() if name.startswith("policy.")}
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{path}: weights of the run's own model expected; {str(error).splitlines()[1].strip()}") from error


def save(trainer: L.Trainer, path: Path, *, keep_previous: bool = False) -> None:
    """Write a checkpoint, whole or not at all. Every rank calls it.

    One in shards is a folder, which can't be put in another's place at once; `path` is a link to it then.
    """
    if getattr(trainer.strategy, "sharded_checkpoints", False):
        _save_shards(trainer, path, keep_previous=keep_previous)
    elif trainer.is_global_zero:
        checkpoint_files.write(path, trainer.save_checkpoint, keep_previous=keep_previous)
        _remove_unused(path)
    else:
        trainer.save_checkpoint(part_of(path))


def _save_shards(trainer: L.Trainer, path: Path, *, keep_previous: bool) -> None:
    folder = trainer.strategy.broadcast(checkpoint_files.free_folder(path))
    if trainer.is_global_zero:
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed while it wrote
    trainer.strategy.barrier()
    try:
        trainer.save_checkpoint(folder)  # ends with a barrier
    except CheckpointException as error:  # of any rank
        raise checkpoint_files.cause_of(error) from error
    if trainer.is_global_zero:
        on_disk(folder)
        checkpoint_files.write(path, lambda part: part.symlink_to(folder.name), keep_previous=keep_previous)
        _remove_unused(path)


def _remove_unused(path: Path) -> None:
    """Shards that no link leads to any more."""
    for left in checkpoint_files.unused_folders(path):
        shutil.rmtree(left, ignore_errors=True)

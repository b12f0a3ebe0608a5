"""checkpoints/last.ckpt: what a killed run goes on from.

Lightning's ModelCheckpoint writes through a temporary file that may lie on another disk, names a second run's file
last-v1.ckpt, and writes none at the end if it has written one before.
"""

from __future__ import annotations

import os
from pathlib import Path

import lightning as L
from lightning.pytorch.callbacks import Checkpoint

from edge_lightning.errors import require_at_least_one


class LastCheckpoint(Checkpoint):
    """Writes last.ckpt each n steps and at the end, whole or not at all, after all other callbacks.

    Args:
        dirpath: folder of the file.
        every_n_steps: the most steps that a killed run does again.
    """

    def __init__(self, *, dirpath: Path, every_n_steps: int = 25):
        require_at_least_one("callbacks.last_checkpoint.every_n_steps", every_n_steps)
        self.path = Path(dirpath) / "last.ckpt"
        self.every_n_steps = every_n_steps

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs, batch, batch_idx: int) -> None:
        if (batch.step + 1) % self.every_n_steps == 0:
            self._save(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._save(trainer)

    def _save(self, trainer: L.Trainer) -> None:
        part = self.path.with_suffix(".part")
        trainer.save_checkpoint(part)
        if trainer.is_global_zero:
            os.replace(part, self.path)

"""checkpoints/best.ckpt: the policy with the best evaluation so far."""

from __future__ import annotations

import os
from pathlib import Path

import lightning as L
from lightning.pytorch.callbacks import Checkpoint


class BestCheckpoint(Checkpoint):
    """Writes best.ckpt after an evaluation during training that beats all before it, whole or not at all.

    Evaluations are those of evaluation.every_n_steps and the one after the last step. Without any there is no file.

    Args:
        dirpath: folder of the file.
        monitor: a metric of trainer.callback_metrics, larger is better; a run that has no such metric writes nothing.
    """

    def __init__(self, *, dirpath: Path, monitor: str):
        self.path = Path(dirpath) / "best.ckpt"
        self.monitor = monitor
        self.best: float | None = None

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs, batch, batch_idx: int) -> None:
        evaluated = trainer.callback_metrics.get("evaluation/step")
        if evaluated is None or int(evaluated) != trainer.global_step or self.monitor not in trainer.callback_metrics:
            return
        value = float(trainer.callback_metrics[self.monitor])
        if self.best is None or value > self.best:
            self.best = value
            part = self.path.with_suffix(".part")
            trainer.save_checkpoint(part)
            if trainer.is_global_zero:
                os.replace(part, self.path)

    def state_dict(self) -> dict:
        return {"best": self.best}

    def load_state_dict(self, state: dict) -> None:
        self.best = state["best"]

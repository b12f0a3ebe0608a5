"""SIGTERM to a run in several processes: the step that is under way is ended, a checkpoint written, and all stop."""

from __future__ import annotations

import signal

import lightning as L
import torch

from edge_lightning.training.module import PolicyModule


class StopCallback(L.Callback):
    """All ranks stop after the step in which one of them was told to.

    In the place of Lightning's own handler, which meets the other ranks while it handles the signal and waits for ever for
    those that are elsewhere. A process by itself keeps that one.
    """

    def __init__(self) -> None:
        self.asked = False

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if pl_module.ranks.size > 1:
            signal.signal(signal.SIGTERM, self._ask)

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch, batch_idx: int) -> None:
        if pl_module.ranks.all_reduce(torch.tensor(int(self.asked)), "max"):
            trainer.should_stop = True

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True

"""Ctrl-C and SIGTERM to a run in several processes: the step under way is ended, a checkpoint written, and all stop."""

from __future__ import annotations

import signal

import lightning as L
import torch

from edge_lightning.experience import Rollout
from edge_lightning.training.interruption import SIGNALS
from edge_lightning.training.module import PolicyModule


class StopCallback(L.Callback):
    """All ranks stop after the step in which one of them was told to; `trainer.should_stop` is true from then on.

    In the place of Lightning's own handler, which meets the other ranks while it handles the signal and waits for ever for
    those that are elsewhere. Outside a step (a start, an evaluation) a signal ends its process at once, and so does a second
    one: what is on disk is whole, and the other ranks notice. A process by itself keeps its own way (interruption.py).
    """

    def __init__(self) -> None:
        self.in_step = False
        self.asked = False

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if pl_module.ranks.size > 1:
            for number in SIGNALS:
                signal.signal(number, self._ask)

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: PolicyModule, batch: Rollout, batch_idx: int) -> None:
        self.in_step = True

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        if pl_module.ranks.all_reduce(torch.tensor(int(self.asked)), "max"):
            trainer.should_stop = True
        else:
            self.in_step = False

    def _ask(self, number: int, frame: object) -> None:
        if self.asked or not self.in_step:
            raise KeyboardInterrupt
        self.asked = True

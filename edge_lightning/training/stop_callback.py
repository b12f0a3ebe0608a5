"""Ctrl-C and SIGTERM to a run in several processes: the step under way is ended, a checkpoint written, and all stop."""

from __future__ import annotations

import signal

import lightning as L
import torch

from edge_lightning.experience import Rollout
from edge_lightning.training.evaluation_callback import EvaluationCallback
from edge_lightning.training.interruption import SIGNALS
from edge_lightning.training.module import PolicyModule


class StopCallback(L.Callback):
    """All ranks stop after the step in which one of them was told to; `trainer.should_stop` is true from then on.

    In the place of Lightning's own handler, which meets the other ranks while it handles the signal and waits for ever for
    those that are elsewhere. In an evaluation a signal ends its process at once, and so does a second one anywhere: what is
    on disk is whole, and the other ranks notice. A process by itself keeps its own way (interruption.py).

    Args:
        evaluations: which stand behind this callback, and do none any more once the ranks are to stop.
    """

    def __init__(self, evaluations: EvaluationCallback):
        self.evaluations = evaluations
        self.asked = False

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if pl_module.ranks.size > 1:
            for number in SIGNALS:
                signal.signal(number, self._ask)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        if pl_module.ranks.all_reduce(torch.tensor(int(self.asked)), "max"):
            trainer.should_stop = True

    def _ask(self, number: int, frame: object) -> None:
        if self.asked or self.evaluations.at_work:
            raise KeyboardInterrupt
        self.asked = True

"""Says in one line when a run learns nothing, and why: for n steps no group had anything to compare."""

from __future__ import annotations

import lightning as L
import torch

from edge_lightning.errors import require_at_least_one
from edge_lightning.evaluation.progress import Display
from edge_lightning.experience import Rollout
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.update import Update


class SignalWatch(L.Callback):
    """Counts steps in which no token had an advantage other than 0, and tells of each n of them in a row.

    Args:
        display: where the line is shown.
        after_n_steps: how many of them are worth a line.
    """

    def __init__(self, *, display: Display, after_n_steps: int = 20):
        self.display = display
        require_at_least_one("callbacks.signal_watch.after_n_steps", after_n_steps)
        self.after_n_steps = after_n_steps
        self.steps = 0
        self.right = self.wrong = self.groups = 0

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        line = self.see(batch, pl_module.update)
        if line is not None and trainer.is_global_zero:
            self.display.line(line)

    def see(self, rollout: Rollout, update: Update) -> str | None:
        """The line that is due behind this step, if one is."""
        if bool((update.token_advantages_N != 0).any()):
            self.steps = self.right = self.wrong = self.groups = 0
            return None
        self.steps += 1
        groups = len(rollout.problems)
        right_B = torch.tensor([r.grade.right for r in rollout.responses])
        for group in range(groups):
            here = right_B[rollout.group_B == group]
            self.groups += 1
            self.right += bool(here.all())
            self.wrong += not bool(here.any())
        if self.steps % self.after_n_steps:
            return None
        other = "easier" if self.wrong > self.right else "harder"
        return (
            f"steps {rollout.step - self.steps + 1} to {rollout.step}: nothing was learned, since in none of {self.groups} "
            f"groups did rewards differ ({self.wrong} all wrong, {self.right} all right); take {other} problems, raise "
            "rollout.group_size or rollout.temperature, or set correction=gec"
        )

    def state_dict(self) -> dict:
        return {"steps": self.steps, "right": self.right, "wrong": self.wrong, "groups": self.groups}

    def load_state_dict(self, state: dict) -> None:
        self.steps, self.right, self.wrong, self.groups = (state[k] for k in ("steps", "right", "wrong", "groups"))

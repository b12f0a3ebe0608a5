"""A progress bar with what one wants to see of a run: reward, own accuracy, collapsed groups, entropy."""

from __future__ import annotations

from datetime import timedelta

import lightning as L

from edge_lightning.errors import require_at_least_one
from edge_lightning.evaluation.progress import Display
from edge_lightning.experience import Rollout
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.record_callback import RecordCallback


class ProgressCallback(L.Callback):
    """Shows steps, time left, reward after correction, what the policy sampled by itself (its accuracy, and the share of
    groups in which all rewards are equal), mean entropy in nats.

    Entropy is that of the latest step that scored every response (module.entropy_every_n_steps). On a terminal a bar;
    elsewhere a line each n steps.

    Args:
        record: whose latest figures are shown; it stands in front of this callback.
        display: that evaluations show themselves in, too.
        line_every_n_steps: where there is no terminal.
    """

    def __init__(self, *, record: RecordCallback, display: Display, line_every_n_steps: int = 25):
        self.record = record
        self.display = display
        require_at_least_one("callbacks.progress.line_every_n_steps", line_every_n_steps)
        self.line_every_n_steps = line_every_n_steps
        self.entropy: float | None = None

    def on_fit_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        """Without steps there are evaluations to show."""
        if trainer.datamodule.steps == 0:
            self.display.start()

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        self.task = self.display.bar("steps", trainer.datamodule.steps, completed=trainer.global_step)
        self.display.start()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        if not trainer.is_global_zero:
            return
        latest = self.record.latest
        self.entropy = latest.get("entropy/mean", self.entropy)
        figures = describe(latest if self.entropy is None else {"entropy/mean": self.entropy, **latest})
        self.display.progress.update(self.task, completed=batch.step + 1, figures=figures)
        steps = trainer.datamodule.steps
        if not self.display.live and ((batch.step + 1) % self.line_every_n_steps == 0 or batch.step + 1 == steps):
            self.display.line(f"step {batch.step + 1}/{steps}  {figures}{self._time_left()}")

    def _time_left(self) -> str:
        """As the bar estimates it; empty where it can't, and at the end."""
        left = next((task.time_remaining for task in self.display.progress.tasks if task.id == self.task), None)
        return f"  {timedelta(seconds=int(left))} left" if left else ""

    def on_train_end(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        self.display.stop()

    def on_fit_end(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        self.display.stop()

    def on_exception(self, trainer: L.Trainer, pl_module: PolicyModule, exception: BaseException) -> None:
        self.display.stop()


def describe(metrics: dict[str, float]) -> str:
    """One line of figures; a dash for what the step has no value for. The loss where the policy sampled nothing."""
    shown = [("reward", "reward/mean"), ("own accuracy", "accuracy/sampled")]
    shown += [("collapsed", "group/zero_variance_sampled"), ("entropy", "entropy/mean")]
    if metrics["tokens/sampled"] + metrics["tokens/regenerated"] == 0:
        shown = [("loss", "loss/value")]
    return "  ".join(f"{label} {metrics[name]:.3f}" if name in metrics else f"{label} -" for label, name in shown)

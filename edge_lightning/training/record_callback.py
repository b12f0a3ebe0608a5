"""Writes each step's record before the next step begins: loggers, metrics.csv, rollouts, a few responses as text."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.loggers import TensorBoardLogger

from edge_lightning.errors import require_at_least_one
from edge_lightning.experience import Rollout
from edge_lightning.policy import Policy
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.training.metrics import step_metrics
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.record import MetricsFile, cut_rollouts_from, write_rollout
from edge_lightning.training.sample_text import as_markdown
from edge_lightning.training.update import Update
from edge_lightning.training.whole_step import whole_step
from edge_lightning.types import Response
from edge_lightning.whole import on_disk


class RecordCallback(L.Callback):
    """The run record.

    Args:
        folder: of the run.
        responses_every_n_steps: put one response of each provenance into tensorboard each n steps; None: never.
    """

    def __init__(self, *, folder: Path, responses_every_n_steps: int | None = 25):
        require_at_least_one("callbacks.record.responses_every_n_steps", responses_every_n_steps)
        self.folder = folder
        self.responses_every_n_steps = responses_every_n_steps
        self.rollouts = folder / "rollouts"
        self.metrics_file = MetricsFile(folder / "metrics.csv")
        self.latest: dict[str, float] = {}
        self.step: tuple[Rollout, Update] | None = None  # the last one, of all ranks, on the first

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        """Cut what lies after the checkpoint that this run goes on from."""
        self.rollouts.mkdir(parents=True, exist_ok=True)
        if trainer.is_global_zero:
            self.metrics_file.cut_from(trainer.global_step)
            cut_rollouts_from(self.rollouts, trainer.global_step)
        pl_module.ranks.barrier()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        """Every rank writes its responses; the first one the figures, which are of all ranks."""
        clock = Stopwatch()
        with clock("record"):
            write_rollout(self.rollouts, batch, pl_module.update, rank=trainer.global_rank)
            self.step = step = whole_step(batch, pl_module.update, pl_module.ranks)
            if step is None:
                return
            metrics = step_metrics(*step)
            every = self.responses_every_n_steps
            if every is not None and batch.step % every == 0:
                self._show_responses(trainer, step[0], pl_module.policy)
        self.latest = {**metrics, "seconds/record": clock.seconds["record"]}
        for logger in trainer.loggers:
            logger.log_metrics(self.latest, step=batch.step)
        self.metrics_file.append(batch.step, self.latest)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: PolicyModule, checkpoint: dict[str, Any]) -> None:
        """What a checkpoint counts as done is on disk before it; responses are, step by step."""
        if not trainer.is_global_zero:
            return
        if self.metrics_file.path.exists():
            on_disk(self.metrics_file.path)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                with suppress(OSError):  # of a full disk: the next figure says so, and a checkpoint may find room
                    logger.experiment.flush()

    def _show_responses(self, trainer: L.Trainer, rollout: Rollout, policy: Policy) -> None:
        shown: dict[str, Response] = {}
        for response in rollout.responses:
            shown.setdefault(str(response.provenance), response)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                for provenance, response in shown.items():
                    told = as_markdown(response, policy.decode)
                    logger.experiment.add_text(f"response/{provenance}", told, rollout.step)

"""Writes each step's record before the next step begins: loggers, metrics.csv, rollouts, a few responses as text."""

from __future__ import annotations

from pathlib import Path

import lightning as L
from lightning.pytorch.loggers import TensorBoardLogger

from edge_lightning.errors import require_at_least_one
from edge_lightning.experience import Rollout
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.training.metrics import step_metrics
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.record import MetricsFile, cut_rollouts_from, write_rollout
from edge_lightning.training.whole_step import whole_step
from edge_lightning.types import Response


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
            step = whole_step(batch, pl_module.update, pl_module.ranks)
            if step is None:
                return
            metrics = step_metrics(*step)
            for logger in trainer.loggers:
                logger.log_metrics(metrics, step=batch.step)
            every = self.responses_every_n_steps
            if every is not None and batch.step % every == 0:
                self._show_responses(trainer, step[0])
        self.latest = {**metrics, "seconds/record": clock.seconds["record"]}
        self.metrics_file.append(batch.step, self.latest)

    def _show_responses(self, trainer: L.Trainer, rollout: Rollout) -> None:
        shown: dict[str, Response] = {}
        for response in rollout.responses:
            shown.setdefault(str(response.provenance), response)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                for provenance, response in shown.items():
                    logger.experiment.add_text(f"response/{provenance}", as_markdown(response), rollout.step)


def as_markdown(response: Response) -> str:
    """A response with its provenance, what the policy said first, and both grades, as tensorboard shows text."""
    first, now = response.sampled_grade, response.grade
    return (
        f"**{response.problem.id}**, response {response.index}, {response.provenance}, ended by {response.finish_reason}"
        f"\n\n**problem** (answer {', '.join(response.problem.answers)})\n\n{_code(response.problem.text)}"
        f"\n\n**sampled** (reward {first.reward:g})\n\n{_code(response.sampled_text)}"
        f"\n\n**trained on** (reward {now.reward:g})\n\n{_code(response.text)}"
    )


def _code(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines() or [""])

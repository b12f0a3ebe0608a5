"""Evaluates the policy before training, every n steps, and after it, with the engine that serves the rollouts or its own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import lightning as L
import torch

from edge_lightning.errors import require_at_least_one
from edge_lightning.evaluation.benchmark import Exam
from edge_lightning.evaluation.progress import Display, average_line, outcome_line
from edge_lightning.evaluation.suite import evaluate_suite
from edge_lightning.experience import Rollout
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.training.checkpoints import LastCheckpoint
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.rollout_callback import RolloutCallback


class EvaluationCallback(L.Callback):
    """Evaluations of a run; `results` maps each evaluated step to metrics named <benchmark>/<metric>.

    A checkpoint is written before an evaluation after the first step, so a run that is killed inside it goes on with the
    first responses that are not on disk. Benchmarks never meet correction: what they are handed is the engine, the prompt
    and the reward.

    Args:
        exams: the benchmarks with their problems; may be empty.
        rollouts: whose engine and reward are used.
        folder: of the run.
        display: where progress is shown.
        every_n_steps: None for only before and after.
        before, after: whether to evaluate before the first and after the last step.
    """

    def __init__(
        self,
        *,
        exams: Sequence[Exam],
        rollouts: RolloutCallback,
        folder: Path,
        display: Display,
        every_n_steps: int | None,
        before: bool,
        after: bool,
    ):
        require_at_least_one("evaluation.every_n_steps", every_n_steps)
        self.exams = list(exams)
        self.rollouts = rollouts
        self.folder = folder
        self.display = display
        self.every_n_steps = every_n_steps
        self.before = before
        self.after = after
        self.results: dict[int, dict[str, float]] = {}
        self.clock = Stopwatch()
        self.at_work = False

    def on_fit_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        """The only hook of a run without steps: Lightning starts no training then."""
        if trainer.datamodule.steps == 0 and self.before:
            self._evaluate(trainer, pl_module)

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if trainer.global_step > 0:
            self._go_on(trainer, pl_module)
        elif self.before:
            self._evaluate(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        if self._due(trainer) and self.exams and not trainer.should_stop:  # a run that stops does it when it goes on
            for callback in trainer.callbacks:
                if isinstance(callback, LastCheckpoint):
                    callback.write(trainer)
            self._evaluate(trainer, pl_module)

    def _due(self, trainer: L.Trainer) -> bool:
        step = trainer.global_step
        each = self.every_n_steps is not None and step % self.every_n_steps == 0
        return each or (self.after and step == trainer.datamodule.steps)

    def _evaluate(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        step, self.at_work = trainer.global_step, True
        with self.clock("evaluate"):
            engine = self.rollouts.evaluation_engine
            version = self.rollouts.push(engine, trainer, pl_module)
            self.results[step] = evaluate_suite(
                self.exams,
                policy=pl_module.policy,
                engine=engine,
                reward=self.rollouts.pipeline.reward,
                folder=self.folder,
                step=step,
                weights_version=version,
                ranks=pl_module.ranks,
                show=self.display.benchmark,
                report=lambda name, metrics: self.display.line(outcome_line(step, name, metrics)),
            )
            engine.sleep()
            over_all = average_line(step, self.results[step])
            if over_all:
                self.display.line(over_all)
            self._log(trainer, step)
        self.at_work = False

    def _log(self, trainer: L.Trainer, step: int) -> None:
        metrics = {f"evaluation/{name}": value for name, value in self.results.get(step, {}).items()}
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=step)
        metrics["evaluation/step"] = step
        trainer.callback_metrics.update({name: torch.tensor(float(value)) for name, value in metrics.items()})

    def _go_on(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        """Cut what lies after the checkpoint; do the evaluation of its own step if that was not done.

        A done one is logged again, since tensorboard's purge has taken it too.
        """
        step = trainer.global_step
        if trainer.is_global_zero:
            for folder in (self.folder / "evaluation").glob("step_*"):
                if int(folder.name.split("_")[1]) > step:
                    shutil.rmtree(folder)
        pl_module.ranks.barrier()
        if step not in self.results and self._due(trainer) and self.exams:
            self._evaluate(trainer, pl_module)
        else:
            self._log(trainer, step)

    def state_dict(self) -> dict:
        return {"results": self.results}

    def load_state_dict(self, state: dict) -> None:
        self.results = state["results"]

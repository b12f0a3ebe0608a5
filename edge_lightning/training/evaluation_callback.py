"""Evaluates the policy before training, every n steps, and after it, with the engine that serves the rollouts or its own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import lightning as L
import torch

from edge_lightning.errors import require_at_least_one
from edge_lightning.evaluation.benchmark import Benchmark, evaluate, write_evaluation
from edge_lightning.experience import Rollout
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.rollout_callback import RolloutCallback


class EvaluationCallback(L.Callback):
    """Evaluations of a run; `results` maps each evaluated step to metrics named <benchmark>/<metric>.

    Args:
        benchmarks: may be empty.
        rollouts: whose engine, prompt and reward are used.
        folder: of the run.
        every_n_steps: None for only before and after.
        before, after: whether to evaluate before the first and after the last step.
    """

    def __init__(
        self,
        *,
        benchmarks: Sequence[Benchmark],
        rollouts: RolloutCallback,
        folder: Path,
        every_n_steps: int | None,
        before: bool,
        after: bool,
    ):
        require_at_least_one("evaluation.every_n_steps", every_n_steps)
        self.benchmarks = list(benchmarks)
        self.rollouts = rollouts
        self.folder = folder
        self.every_n_steps = every_n_steps
        self.before = before
        self.after = after
        self.results: dict[int, dict[str, float]] = {}
        self.clock = Stopwatch()

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if trainer.global_step > 0:
            self._go_on(trainer)
        elif self.before:
            self._evaluate(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        last = batch.step + 1 == trainer.datamodule.steps
        due = self.every_n_steps is not None and (batch.step + 1) % self.every_n_steps == 0
        if due or (last and self.after):
            self._evaluate(trainer, pl_module)

    def _evaluate(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        step = trainer.global_step
        with self.clock("evaluate"):
            engine = self.rollouts.evaluation_engine
            version = self.rollouts.push(engine, trainer, pl_module)
            for benchmark in self.benchmarks:
                found = evaluate(
                    benchmark,
                    benchmark.choose(trainer.datamodule.held_out_problems),
                    policy=pl_module.policy,
                    engine=engine,
                    prompt=self.rollouts.pipeline.prompt,
                    reward=self.rollouts.pipeline.reward,
                    step=step,
                    weights_version=version,
                )
                write_evaluation(self.folder / "evaluation", found)
                self.results.setdefault(step, {}).update({f"{benchmark.name}/{k}": v for k, v in found.metrics.items()})
            engine.sleep()
            self._log(trainer, step)

    def _log(self, trainer: L.Trainer, step: int) -> None:
        metrics = {f"evaluation/{name}": value for name, value in self.results.get(step, {}).items()}
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=step)
        metrics["evaluation/step"] = step
        trainer.callback_metrics.update({name: torch.tensor(float(value)) for name, value in metrics.items()})

    def _go_on(self, trainer: L.Trainer) -> None:
        """Cut what lies after the checkpoint, and log its own step again: tensorboard's purge has taken that too."""
        for folder in (self.folder / "evaluation").glob("step_*"):
            if int(folder.name.split("_")[1]) > trainer.global_step:
                shutil.rmtree(folder)
        self._log(trainer, trainer.global_step)

    def state_dict(self) -> dict:
        return {"results": self.results}

    def load_state_dict(self, state: dict) -> None:
        self.results = state["results"]

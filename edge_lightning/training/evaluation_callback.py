"""Evaluates the policy before training, every n steps, and after it, with the engine that serves the rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lightning as L
import torch

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
        self.benchmarks = list(benchmarks)
        self.rollouts = rollouts
        self.folder = folder
        self.every_n_steps = every_n_steps
        self.before = before
        self.after = after
        self.results: dict[int, dict[str, float]] = {}
        self.clock = Stopwatch()

    def on_train_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if self.before and trainer.global_step == 0:
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
            version = self.rollouts.push(trainer, pl_module)
            for benchmark in self.benchmarks:
                found = evaluate(
                    benchmark,
                    benchmark.choose(trainer.datamodule.held_out_problems),
                    policy=pl_module.policy,
                    engine=self.rollouts.engine,
                    prompt=self.rollouts.pipeline.prompt,
                    reward=self.rollouts.pipeline.reward,
                    step=step,
                    weights_version=version,
                )
                write_evaluation(self.folder / "evaluation", found)
                metrics = {f"evaluation/{benchmark.name}/{k}": v for k, v in found.metrics.items()}
                self.results.setdefault(step, {}).update({f"{benchmark.name}/{k}": v for k, v in found.metrics.items()})
                for logger in trainer.loggers:
                    logger.log_metrics(metrics, step=step)
                trainer.callback_metrics.update({k: torch.tensor(float(v)) for k, v in metrics.items()})

    def state_dict(self) -> dict:
        return {"results": self.results}

    def load_state_dict(self, state: dict) -> None:
        self.results = state["results"]

"""Owns the use of the engine: pushes weights, and fills each batch before the module trains on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import lightning as L

from edge_lightning.collective import Ranks
from edge_lightning.engine.base import Engine
from edge_lightning.engine.watched import Watched
from edge_lightning.errors import UserError
from edge_lightning.experience import Pipeline, Rollout
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.training.metrics import mean_engine_gap
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.process_ranks import process_ranks


class EngineDriftError(UserError):
    """The engine's log-probabilities no longer agree with the policy's."""


class RolloutCallback(L.Callback):
    """Rollouts from a colocated engine.

    Args:
        make_engine: builds the engine; gets policy, folder, max_model_len, rank, local_rank, world_size.
        make_pipeline: builds the pipeline; gets policy, engine and ranks.
        max_model_len: the most tokens of prompt, response and correction together.
        folder: where the policy's configuration is written for the engine to start from.
        max_engine_gap: the largest mean difference between engine and policy log-probabilities, nats; None: not watched.
        make_evaluation_engine: builds another engine for evaluation, where the one for rollouts does not sample; None:
            one engine serves both.
    """

    def __init__(
        self,
        *,
        make_engine: Callable[..., Engine],
        make_pipeline: Callable[..., Pipeline],
        max_model_len: int,
        folder: Path,
        max_engine_gap: float | None,
        make_evaluation_engine: Callable[..., Engine] | None = None,
    ):
        self.make_engine = make_engine
        self.make_pipeline = make_pipeline
        self.max_model_len = max_model_len
        self.folder = folder
        self.max_engine_gap = max_engine_gap
        self.make_evaluation_engine = make_evaluation_engine
        self.engine: Engine | None = None
        self.evaluation_engine: Engine | None = None
        self.pipeline: Pipeline | None = None
        self.ready_at: float | None = None  # when engine and trainer stood

    def setup(self, trainer: L.Trainer, pl_module: PolicyModule, stage: str) -> None:
        """Build the engine: after Lightning's process group, which an engine would otherwise start in its own way.

        Every rank has an engine of its own, and they are built together.
        """
        policy, pl_module.ranks = pl_module.policy, process_ranks(trainer.world_size)
        refuse_several_runs(self.folder.parent, trainer.ckpt_path, pl_module.ranks)
        if trainer.is_global_zero:
            policy.save_config(self.folder)
        pl_module.ranks.barrier()
        place = {
            "policy": policy,
            "folder": self.folder,
            "max_model_len": self.max_model_len,
            "rank": trainer.global_rank,
            "local_rank": trainer.local_rank,
            "world_size": trainer.world_size,
        }
        self.engine = Watched(self.make_engine(**place))
        self.evaluation_engine = (
            Watched(self.make_evaluation_engine(**place)) if self.make_evaluation_engine else self.engine
        )
        self.pipeline = self.make_pipeline(policy=policy, engine=self.engine, ranks=pl_module.ranks)

    def on_fit_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        self.ready_at = time.time()

    def push(self, engine: Engine, trainer: L.Trainer, pl_module: PolicyModule) -> int:
        """Give an engine the current weights if it holds others; returns their version, the number of updates so far."""
        version = trainer.global_step
        if engine.weights_version != version:
            pl_module.ranks.barrier()  # a push from shards meets the others: not to wait for them on the engine's time
            engine.push_weights(pl_module.policy, version)
        return version

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: PolicyModule, batch: Rollout, batch_idx: int) -> None:
        clock = Stopwatch()
        with clock("push"):
            version = self.push(self.engine, trainer, pl_module)
        self.pipeline.fill(batch, weights_version=version)
        self.engine.sleep()
        batch.seconds.update(clock.seconds)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        gap = mean_engine_gap(batch.responses, pl_module.update, pl_module.ranks)
        if self.max_engine_gap is not None and gap is not None and gap > self.max_engine_gap:
            raise EngineDriftError(
                f"step {batch.step}: engine and policy log-probabilities differ by {gap:.2g} nats on average, at most "
                f"{self.max_engine_gap:g} expected; the engine does not serve the policy's weights, or its dtype is too "
                "coarse: set model.engine_dtype=float32, or raise rollout.max_engine_gap"
            )

    def teardown(self, trainer: L.Trainer, pl_module: PolicyModule, stage: str) -> None:
        for engine in (self.engine, self.evaluation_engine):
            if engine is not None:
                engine.close()
        if self.pipeline is not None:
            self.pipeline.reward.close()


def refuse_several_runs(folder: Path, checkpoint: str | Path | None, ranks: Ranks) -> None:
    """Raise UserError where the processes of a run would each do another one."""
    found = list(dict.fromkeys(ranks.gather((str(folder), None if checkpoint is None else str(checkpoint)))))
    if len(found) > 1:
        told = " and ".join(f"{folder} from {checkpoint or 'its beginning'}" for folder, checkpoint in found[:2])
        raise UserError(f"all processes in one folder and from one checkpoint expected, {told} came; set hydra.run.dir=DIR")

"""How a training ends: what is left in its folder, and what is said, by one process or by several with one message."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from edge_lightning.cli.build import Run
from edge_lightning.cli.failures import told
from edge_lightning.cli.places import Place
from edge_lightning.cli.ranks import is_first_process, leave, tell_why, turn_deaf
from edge_lightning.cli.resume import last_checkpoint, read_summary, split_resume
from edge_lightning.cli.table import print_summary
from edge_lightning.errors import UserError
from edge_lightning.training import checkpoint_files
from edge_lightning.training.summary import training_figures, write_json
from edge_lightning.versions import git_commit, versions


class Ending:
    """First `leave_record`, whatever has happened; then `tell`, where the process has not been told to end at once.

    Attributes:
        status: of the summary: finished, interrupted or failed.
        failure: what ended the training; None: it was done, or all processes have stopped together.
    """

    def __init__(self, cfg: DictConfig, run: Run, folder: Path, start: float):
        self.status = "failed"
        self.failure: Exception | None = None
        self._cfg, self._run, self._folder, self._start = cfg, run, folder, start
        self._several = run.trainer.world_size > 1
        self._summary: dict = {}

    def leave_record(self) -> None:
        """Write summary.json, in the first process; of several, have the one that knows say why they end."""
        if self._several and self.status != "finished":
            turn_deaf()
        if self._several and self.failure is not None:  # first of all: a launcher may soon end this process, too
            advice = f"stopped {self._how_to_go_on()}"
            tell_why(self.failure, Place.of(self._run.trainer), self._folder, command="fit", advice=advice)
        if not is_first_process():
            return
        try:
            self._summary = self._summarize()
            write_json(self._folder / "summary.json", self._summary)
        except OSError as error:
            if self.status == "finished":
                raise
            print(f"{told(error, self._folder) or error}: no summary was written", file=sys.stderr)

    def tell(self) -> None:
        """Print the summary's table, or raise what the command has to end with; one of several that failed ends here.

        Raises:
            UserError: what stopped the training, and how to go on.
        """
        if self.failure is not None and self._several:
            leave(Place.of(self._run.trainer))
        if self.failure is not None:
            self._say_why(self.failure)
        if not is_first_process():
            return
        if self.status == "interrupted":
            raise UserError(f"interrupted {self._how_to_go_on()}")
        print_summary(self._summary, self._folder)

    def _say_why(self, failure: Exception) -> None:
        advice = f"stopped {self._how_to_go_on()}"
        line = told(failure, self._folder)
        if line is None:
            failure.add_note(advice)
            raise failure
        raise UserError(f"{line}; {advice}") from failure

    def _how_to_go_on(self) -> str:
        step, steps = self._run.trainer.global_step, self._run.datamodule.steps
        if steps == 0:
            return "before the evaluation was done; start it again"
        done = f"after {step} of {steps} steps"
        checkpoint = last_checkpoint(self._folder)
        if not checkpoint.exists() and step == 0:
            return "before the first step was done, and so before the first checkpoint; start it again"
        if not checkpoint.exists():
            return f"{done}, before the first checkpoint; lower callbacks.last_checkpoint.every_n_steps to lose less"
        kept = checkpoint_files.read(checkpoint)["global_step"]
        return f"{done}, {kept} of them in {checkpoint}; go on with edge-lightning fit resume={self._folder}"

    def _summarize(self) -> dict:
        cfg, run = self._cfg, self._run
        results = run.evaluations.results
        rollouts = run.evaluations.rollouts
        figures = training_figures(run.record.metrics_file)
        before = (read_summary(self._folder) or {}).get("seconds", {}) if cfg.resume else {}
        now = time.time()
        here = {
            "evaluate": run.evaluations.clock.seconds.get("evaluate", 0.0),
            "start": (rollouts.ready_at or now) - self._start,
            "whole_run": now - self._start,
        }
        figures["seconds"] |= {name: seconds + before.get(name, 0.0) for name, seconds in here.items()}
        steps = sorted(results)
        return {
            "command": "fit",
            "name": cfg.name,
            "ablation": cfg.ablation.name,
            "model": cfg.model.name,
            "data": cfg.data.name,
            "seed": cfg.seed,
            "problems": run.data["counts"],
            "overrides": split_resume(HydraConfig.get().overrides.task)[1],
            "folder": str(self._folder),
            "status": self.status,
            **figures,
            "before": results.get(0),
            "after": results[steps[-1]] if steps and steps[-1] > 0 else None,
            "evaluated_steps": steps,
            "grading_timeouts": rollouts.pipeline.reward.timeouts if rollouts.pipeline else 0,
            "versions": versions(),
            "git_commit": git_commit(),
        }

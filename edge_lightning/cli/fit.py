"""edge-lightning fit: train, leave the run record, say what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from edge_lightning.cli.process import hush, prepare
from edge_lightning.cli.ranks import end_all, end_with_launcher, is_first_process
from edge_lightning.cli.resume import last_checkpoint, refuse_changes, refuse_finished, refuse_other_data, refuse_second_run
from edge_lightning.errors import UserError


def fit(cfg: DictConfig, folder: Path) -> None:
    """Train the policy that the configuration describes; everything it leaves is in `folder`."""
    start = time.time()
    first = is_first_process()
    end_with_launcher()
    if first:
        (folder / "failure.txt").unlink(missing_ok=True)
    prepare(cfg.cpu_threads)
    from edge_lightning.cli.build import build  # after `prepare`: imports torch
    from edge_lightning.curation import data_metrics, describe
    from edge_lightning.training.summary import write_json

    hush()
    checkpoint = last_checkpoint(folder) if cfg.resume else None
    if checkpoint is not None:
        refuse_finished(folder)
        refuse_changes(cfg, folder)
    elif first:
        refuse_second_run(folder)
    run = build(cfg, folder, purge_step=_purge_step(checkpoint))
    if run.datamodule.steps == 0 and not (run.evaluations.before and run.evaluations.exams):
        raise UserError(
            f"steps=0 is an evaluation alone, and evaluation={cfg.evaluation.name} has none before the first step; "
            "set evaluation=smoke, evaluation.before=true, or steps"
        )
    refuse_other_data(run.data, folder)
    if first:
        write_json(folder / "data.json", run.data)
        if checkpoint is None:
            OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), folder / "config.yaml")
        processes = f" in {run.trainer.world_size} processes" if run.trainer.world_size > 1 else ""
        print(
            f"{cfg.data.name}: {describe(run.data['counts'])}\n"
            f"{cfg.name}: {run.datamodule.steps} steps{processes}; starting engine={cfg.engine._target_.rsplit('.', 1)[-1]}",
            file=sys.stderr,
        )
    summary = {
        "command": "fit",
        "name": cfg.name,
        "ablation": cfg.ablation.name,
        "model": cfg.model.name,
        "data": cfg.data.name,
        "seed": cfg.seed,
        "problems": run.data["counts"],
        "overrides": [o for o in HydraConfig.get().overrides.task if not o.startswith("resume=")],
        "folder": str(folder),
    }
    status, failure = "failed", None
    try:
        if checkpoint is None and first:
            for logger in run.trainer.loggers:
                logger.log_metrics(data_metrics(run.data["counts"]), step=0)
        run.trainer.fit(run.module, run.datamodule, ckpt_path=checkpoint)
        done = run.trainer.global_step >= run.datamodule.steps
        status = "finished" if done else "interrupted"
        if run.datamodule.steps > 0:  # else it is the policy that the run was given
            run.module.policy.save(folder / "checkpoints" / "hf", write=first)
            run.module.ranks.barrier()  # a process that ends takes its part of the group with it
        if not done:
            raise SystemExit(1)
    except SystemExit:  # Lightning's answer to Ctrl-C and SIGTERM
        status = "interrupted"
        if not first:
            raise
        raise UserError(_how_to_go_on(run, folder)) from None
    except Exception as error:
        if run.trainer.world_size == 1:
            raise
        failure = error
    finally:
        if first:
            summary = _finish(summary, run, folder, status, start)
    if failure is not None:
        end_all(failure, run.trainer, folder, command="fit", advice=_how_to_go_on(run, folder))
    if first:
        from edge_lightning.cli.table import print_summary

        print_summary(summary, folder)


def _how_to_go_on(run, folder: Path) -> str:
    if run.datamodule.steps == 0:
        return "interrupted before the evaluation was done; start it again"
    done = f"interrupted after {run.trainer.global_step} of {run.datamodule.steps} steps"
    checkpoint = last_checkpoint(folder)
    if not checkpoint.exists():
        return f"{done}, before the first checkpoint; lower callbacks.last_checkpoint.every_n_steps to lose less"
    return f"{done}, {_steps_done(checkpoint)} of them in {checkpoint}; go on with edge-lightning fit resume={folder}"


def _steps_done(checkpoint: Path | None) -> int | None:
    """Steps in a checkpoint; None without one."""
    return None if checkpoint is None else _load(checkpoint)["global_step"]


def _purge_step(checkpoint: Path | None) -> int | None:
    """The step from which tensorboard's files are void; None where training is over and nothing will be written again."""
    if checkpoint is None:
        return None
    content = _load(checkpoint)
    over = content["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"] > 0
    return None if over else content["global_step"]


def _load(checkpoint: Path) -> dict:
    from edge_lightning.training.checkpoints import read_record

    return read_record(checkpoint)


def _finish(summary: dict, run, folder: Path, status: str, start: float) -> dict:
    from edge_lightning.training.summary import training_figures, write_json
    from edge_lightning.versions import git_commit, versions

    results = run.evaluations.results
    figures = training_figures(run.record.metrics_file)
    figures["seconds"]["evaluate"] = run.evaluations.clock.seconds.get("evaluate", 0.0)
    figures["seconds"]["start"] = (run.evaluations.rollouts.ready_at or time.time()) - start
    figures["seconds"]["whole_run"] = time.time() - start
    steps = sorted(results)
    summary = {
        **summary,
        "status": status,
        **figures,
        "before": results.get(0),
        "after": results[steps[-1]] if steps and steps[-1] > 0 else None,
        "evaluated_steps": steps,
        "grading_timeouts": run.evaluations.rollouts.pipeline.reward.timeouts if run.evaluations.rollouts.pipeline else 0,
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder / "summary.json", summary)
    return summary

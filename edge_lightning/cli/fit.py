"""edge-lightning fit: train, leave the run record, say what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from edge_lightning.cli.failures import told
from edge_lightning.cli.places import Place
from edge_lightning.cli.process import hush, prepare
from edge_lightning.cli.ranks import end_with_launcher, is_first_process, leave, tell_why, turn_deaf
from edge_lightning.cli.resume import last_checkpoint, refuse_changes, refuse_finished, refuse_other_data, refuse_second_run
from edge_lightning.errors import UserError
from edge_lightning.whole import on_disk, whole


def fit(cfg: DictConfig, folder: Path) -> None:
    """Train the policy that the configuration describes; everything it leaves is in `folder`."""
    start = time.time()
    first = is_first_process()
    end_with_launcher()
    if first:
        (folder / "failure.txt").unlink(missing_ok=True)
    prepare(cfg.cpu_threads, offline=cfg.offline)
    from torch.distributed.checkpoint import CheckpointException

    from edge_lightning.cli.build import build  # after `prepare`: imports torch
    from edge_lightning.curation import data_metrics, describe
    from edge_lightning.training import checkpoint_files
    from edge_lightning.training.interruption import StoppedTogether
    from edge_lightning.training.summary import write_json

    hush()
    checkpoint = last_checkpoint(folder) if cfg.resume else None
    content = None
    if checkpoint is not None:
        refuse_finished(folder)
        changed = refuse_changes(cfg, folder)
        content = checkpoint_files.read(checkpoint, folder)
        _refuse_fewer_steps(cfg, content, folder)
        if first:
            print(*changed, sep="\n", end="\n" if changed else "", file=sys.stderr)
    elif first:
        refuse_second_run(folder)
    run = build(cfg, folder, purge_step=_purge_step(content))
    several = run.trainer.world_size > 1
    if run.datamodule.steps == 0 and not (run.evaluations.before and run.evaluations.exams):
        raise UserError(
            f"steps=0 is an evaluation alone, and evaluation={cfg.evaluation.name} has none before the first step; "
            "set evaluation=smoke, evaluation.before=true, or steps"
        )
    refuse_other_data(run.data, folder)
    if first:
        write_json(folder / "data.json", run.data)
        if checkpoint is None:
            with whole(folder / "config.yaml") as part:
                OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), part)
            on_disk(folder / ".hydra")  # whose overrides a resumed run reads
        processes = f" in {run.trainer.world_size} processes" if several else ""
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
        run.trainer.fit(run.module, run.datamodule, ckpt_path=checkpoint, weights_only=True)
        done = run.trainer.global_step >= run.datamodule.steps
        status = "finished" if done else "interrupted"
        if run.datamodule.steps > 0:  # else it is the policy that the run was given
            run.module.policy.save(folder / "checkpoints" / "hf", write=first)
        run.module.ranks.barrier()  # a process that ends takes its part of the group with it
    except StoppedTogether:
        status = "interrupted"
    except SystemExit:  # Lightning's answer to Ctrl-C and SIGTERM
        status = "interrupted"
        failure = UserError(status) if several else None  # the others may be anywhere
    except CheckpointException as error:
        failure = checkpoint_files.unreadable(error, checkpoint)
    except Exception as error:
        failure = error
    finally:
        if several and status != "finished":
            turn_deaf()
        if several and failure is not None:  # first of all: a launcher may soon end this process, too
            tell_why(failure, Place.of(run.trainer), folder, command="fit", advice=f"stopped {_how_to_go_on(run, folder)}")
        try:
            if first:
                summary = _finish(summary, run, folder, status, start)
        except OSError as error:
            if status == "finished":
                raise
            print(f"{told(error, folder) or error}: no summary was written", file=sys.stderr)
    if failure is not None and several:
        leave(Place.of(run.trainer))
    if failure is not None:
        _say_why(failure, run, folder)
    if not first:  # which says what came of it
        return
    if status == "interrupted":
        raise UserError(f"interrupted {_how_to_go_on(run, folder)}")
    from edge_lightning.cli.table import print_summary

    print_summary(summary, folder)


def _say_why(failure: Exception, run, folder: Path) -> None:
    """Ends the command of a process by itself."""
    advice = f"stopped {_how_to_go_on(run, folder)}"
    line = told(failure, folder)
    if line is None:
        failure.add_note(advice)
        raise failure
    raise UserError(f"{line}; {advice}") from failure


def _how_to_go_on(run, folder: Path) -> str:
    from edge_lightning.training import checkpoint_files

    if run.datamodule.steps == 0:
        return "before the evaluation was done; start it again"
    done = f"after {run.trainer.global_step} of {run.datamodule.steps} steps"
    checkpoint = last_checkpoint(folder)
    if not checkpoint.exists() and run.trainer.global_step == 0:
        return "before the first step was done, and so before the first checkpoint; start it again"
    if not checkpoint.exists():
        return f"{done}, before the first checkpoint; lower callbacks.last_checkpoint.every_n_steps to lose less"
    kept = checkpoint_files.read(checkpoint)["global_step"]
    return f"{done}, {kept} of them in {checkpoint}; go on with edge-lightning fit resume={folder}"


def _purge_step(content: dict | None) -> int | None:
    """The step from which tensorboard's files are void; None where training is over and nothing will be written again."""
    return None if content is None or _is_over(content) else content["global_step"]


def _is_over(content: dict) -> bool:
    return content["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"] > 0


def _refuse_fewer_steps(cfg: DictConfig, content: dict, folder: Path) -> None:
    """Raise UserError for steps that the run has done already; what is done is never taken back."""
    done, steps = content["global_step"], cfg.steps
    if steps is not None and (steps < done or (_is_over(content) and steps != done)):
        raise UserError(
            f"resume={folder}: steps={steps} came, that run has done {done}"
            + (" and was over; " if _is_over(content) else ", more than these expected; ")
            + "leave steps as they were, or start a new run"
        )


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

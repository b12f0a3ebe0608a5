"""edge-lightning fit: train, leave the run record, say what came of it."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from edge_lightning.cli.process import hush, prepare
from edge_lightning.cli.ranks import end_with_launcher, is_first_process
from edge_lightning.cli.resume import (
    RESUMED,
    last_checkpoint,
    refuse_changes,
    refuse_finished,
    refuse_other_data,
    refuse_second_run,
    split_resume,
)
from edge_lightning.errors import UserError
from edge_lightning.whole import on_disk, whole

if TYPE_CHECKING:
    from edge_lightning.cli.build import Run
    from edge_lightning.cli.ending import Ending
    from edge_lightning.policy import Policy


def fit(cfg: DictConfig, folder: Path) -> None:
    """Train the policy that the configuration describes; everything it leaves is in `folder`."""
    start = time.time()
    end_with_launcher()
    if is_first_process():
        (folder / "failure.txt").unlink(missing_ok=True)
    prepare(cfg.cpu_threads, offline=cfg.offline)
    from edge_lightning.cli.build import build  # after `prepare`: both import torch
    from edge_lightning.cli.ending import Ending

    hush()
    checkpoint = last_checkpoint(folder) if cfg.resume else None
    content = None
    if checkpoint is not None:
        content = _go_on(cfg, checkpoint, folder)
    elif is_first_process():
        refuse_second_run(folder)
    run = build(cfg, folder, purge_step=_purge_step(content))
    _begin(cfg, run, folder, anew=checkpoint is None)
    ending = Ending(cfg, run, folder, start)
    try:
        _train(run, folder, checkpoint, ending)
    finally:
        ending.leave_record()
    ending.tell()


def _go_on(cfg: DictConfig, checkpoint: Path, folder: Path) -> dict:
    """The content of the checkpoint, if the run can go on from it; says which keys are not as they were, and keeps them."""
    from edge_lightning.training import checkpoint_files

    refuse_finished(folder)
    changed = refuse_changes(cfg, folder)
    content = checkpoint_files.read(checkpoint, folder)
    _refuse_fewer_steps(cfg, content, folder)
    if is_first_process():
        print(*changed, sep="\n", end="\n" if changed else "", file=sys.stderr)
        _, task = split_resume(HydraConfig.get().overrides.task)
        with whole(folder / ".hydra" / RESUMED) as part:
            OmegaConf.save(OmegaConf.create(task), part)
    return content


def _begin(cfg: DictConfig, run: Run, folder: Path, *, anew: bool) -> None:
    """Refuse what can't be trained; write down what is trained on, and of a run that begins `anew` how."""
    from edge_lightning.curation import describe
    from edge_lightning.training.summary import write_json

    if run.datamodule.steps == 0 and not (run.evaluations.before and run.evaluations.exams):
        raise UserError(
            f"steps=0 is an evaluation alone, and evaluation={cfg.evaluation.name} has none before the first step; "
            "set evaluation=smoke, evaluation.before=true, or steps"
        )
    if not anew:
        refuse_other_data(run.data, folder)
    if not is_first_process():
        return
    write_json(folder / "data.json", run.data)
    if anew:
        with whole(folder / "config.yaml") as part:
            OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), part)
        on_disk(folder / ".hydra")  # whose overrides a resumed run reads
    several = run.trainer.world_size > 1
    processes = f" in {run.trainer.world_size} processes" if several else ""
    print(
        f"{cfg.data.name}: {describe(run.data['counts'])}\n"
        f"{cfg.name}: {run.datamodule.steps} steps{processes}; starting engine={cfg.engine._target_.rsplit('.', 1)[-1]}",
        file=sys.stderr,
    )


def _train(run: Run, folder: Path, checkpoint: Path | None, ending: Ending) -> None:
    """Train to the end, or note in `ending` what has come between."""
    from torch.distributed.checkpoint import CheckpointException

    from edge_lightning.curation import data_metrics
    from edge_lightning.training import checkpoint_files
    from edge_lightning.training.interruption import StoppedTogether

    try:
        if checkpoint is None and is_first_process():
            for logger in run.trainer.loggers:
                logger.log_metrics(data_metrics(run.data["counts"]), step=0)
        run.trainer.fit(run.module, run.datamodule, ckpt_path=checkpoint, weights_only=True)
        if run.datamodule.steps > 0:  # else it is the policy that the run was given
            _export(run.module.policy, folder / "checkpoints" / "hf")
        run.module.ranks.barrier()  # a process that ends takes its part of the group with it
        ending.status = "finished" if run.trainer.global_step >= run.datamodule.steps else "interrupted"
    except StoppedTogether:
        ending.status = "interrupted"
    except (SystemExit, KeyboardInterrupt):  # Lightning's answer to Ctrl-C and SIGTERM; one behind the last step
        ending.status = "interrupted"
        if run.trainer.world_size > 1:  # the others may be anywhere
            ending.failure = UserError(ending.status)
    except CheckpointException as error:  # is no Exception
        ending.failure = checkpoint_files.unreadable(error, checkpoint)
    except Exception as error:
        ending.failure = error


def _export(policy: Policy, place: Path) -> None:
    """Write the policy as a transformers folder, whole or not at all. All ranks call it; the first one writes."""
    if not is_first_process():
        policy.save(place, write=False)
        return
    with whole(place) as part:
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed here
        policy.save(part)
        shutil.rmtree(place, ignore_errors=True)  # of one killed behind it; a folder can't be put in another's place


def _purge_step(content: dict | None) -> int | None:
    """The step from which tensorboard's files are void; None where training is over and nothing will be written again.

    A new run says 0: tensorboard takes the first such mark as a start, and only further ones as restarts.
    """
    if content is None:
        return 0
    return None if _is_over(content) else content["global_step"]


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

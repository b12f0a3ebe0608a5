"""edge-lightning validate: evaluate a run's checkpoint, a transformers folder or a hub id."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict

from edge_lightning.cli.places import Place, share_command
from edge_lightning.cli.process import hush, prepare
from edge_lightning.cli.ranks import end_with_launcher, is_first_process, leave, tell_why, turn_deaf
from edge_lightning.cli.resume import read_yaml, refuse_changes, refuse_finished, refuse_second_run
from edge_lightning.errors import UserError


def validate(cfg: DictConfig, folder: Path) -> None:
    """Put every benchmark of cfg.evaluation to the policy at cfg.ckpt; rows and summary go to `folder`.

    Several processes share the problems; they end together, with one message.
    """
    end_with_launcher()
    if is_first_process():
        (folder / "failure.txt").unlink(missing_ok=True)
    prepare(cfg.cpu_threads, offline=cfg.offline)
    from edge_lightning.cli.schema import check_call

    hush()
    check_call(share_command, {key: cfg[key] for key in ("devices", "num_nodes")}, "")
    place = share_command(cfg.devices, cfg.num_nodes)
    advice = f"go on with edge-lightning validate resume={folder}"
    try:
        _validate(cfg, folder, place)
    except (Exception, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        if place.size > 1:
            turn_deaf()
            failure = UserError(str(error) or "interrupted") if interrupted else error
            tell_why(failure, place, folder, command="validate", advice=advice)
            leave(place)
        if interrupted and str(error):
            raise UserError(f"{error}; {advice}") from None
        raise


def _validate(cfg: DictConfig, folder: Path, place: Place) -> None:
    import torch

    from edge_lightning.cli.build import build_benchmarks, build_policy, build_problem_set
    from edge_lightning.cli.checks import check_prompts, exam_length
    from edge_lightning.cli.schema import check, check_call
    from edge_lightning.cli.table import print_summary
    from edge_lightning.curation import usable_held_out
    from edge_lightning.engine.watched import Watched
    from edge_lightning.evaluation.progress import Display, outcome_line
    from edge_lightning.evaluation.suite import evaluate_suite
    from edge_lightning.stopwatch import Stopwatch
    from edge_lightning.training.checkpoints import load_weights
    from edge_lightning.training.process_ranks import process_ranks
    from edge_lightning.training.summary import write_json
    from edge_lightning.versions import git_commit, versions

    start, first = time.time(), place.rank == 0
    check_call(policy_source, {"ckpt": cfg.ckpt}, "")
    check_call(usable_held_out, {"on_bad_row": cfg.data.on_bad_row}, "data")
    check_call(check_prompts, {"prompt_limit": cfg.rollout.prompt_limit}, "rollout")
    check(cfg)
    path, checkpoint = policy_source(cfg.ckpt)
    with open_dict(cfg):
        cfg.model.path = path
        cfg.model.lora = adapters_in(checkpoint)
    if first and cfg.resume:
        refuse_finished(folder)
        refuse_changes(cfg, folder)
    elif first:
        refuse_second_run(folder)
    benchmarks = build_benchmarks(cfg)
    if not benchmarks:
        raise UserError("evaluation.benchmarks is empty: at least one benchmark expected; set evaluation=smoke")
    policy = build_policy(cfg.model, folder, temperature=1.0).eval()
    if checkpoint is not None:
        load_weights(policy, checkpoint)
    if torch.cuda.is_available():  # not yet run on hardware
        policy.cuda(place.local_rank)
    of_the_data = any(benchmark.problem_set is None for benchmark in benchmarks)
    prompt, reward = instantiate(cfg.prompt), instantiate(cfg.reward)
    held_out = []
    if of_the_data:
        problem_set = build_problem_set(cfg)
        held_out, bad = usable_held_out(
            problem_set,
            on_bad_row=cfg.data.on_bad_row,
            prompt=prompt,
            policy=policy,
            reward=reward,
            prompt_limit=cfg.rollout.prompt_limit,
        )
        if bad and first:
            print(f"{cfg.data.name}: left out: {bad}", file=sys.stderr)
    exams = [benchmark.exam(held_out, prompt) for benchmark in benchmarks]
    limit = max(exam_length(exam, policy) for exam in exams)
    if first and not cfg.resume:
        OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), folder / "config.yaml")
    if first:
        policy.save_config(folder / "policy")
        processes = f" in {place.size} processes" if place.size > 1 else ""
        print(f"{cfg.name}: starting engine={cfg.engine._target_.rsplit('.', 1)[-1]}{processes}", file=sys.stderr)
    ranks = process_ranks(place.size)
    ranks.barrier()
    made = {"policy": policy, "folder": folder / "policy", "max_model_len": limit}
    made |= {"rank": place.rank, "local_rank": place.local_rank, "world_size": place.size}
    engine = Watched(instantiate(cfg.engine)(**made))
    display, clock = Display(hidden=not first), Stopwatch()
    done: list[str] = []

    def report(name: str, metrics: dict[str, float]) -> None:
        done.append(name)
        display.line(outcome_line(0, name, metrics))

    try:
        engine.push_weights(policy, 0)
        display.start()
        metrics = evaluate_suite(
            exams,
            policy=policy,
            engine=engine,
            reward=reward,
            folder=folder,
            step=0,
            weights_version=0,
            ranks=ranks,
            show=display.benchmark,
            report=report,
            clock=clock,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted after {len(done)} of {len(exams)} benchmarks") from None
    finally:
        display.stop()
        engine.close()
        reward.close()
    timeouts = sum(ranks.gather(reward.timeouts))
    if not first:
        return
    summary = {
        "command": "validate",
        "name": cfg.name,
        "status": "finished",
        "ckpt": cfg.ckpt,
        "policy": str(checkpoint or path),
        "data": cfg.data.name if of_the_data else None,
        "metrics": metrics,
        "seconds": {**clock.seconds, "whole_run": time.time() - start},
        "grading_timeouts": timeouts,
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder / "summary.json", summary)
    print_summary(summary, folder)


def policy_source(ckpt: str) -> tuple[str, Path | None]:
    """Where the policy is loaded from, a transformers folder or a hub id, and the checkpoint whose weights it then gets.

    A run's folder stands for its exported policy. A .ckpt file is laid over the policy that its run started from.

    Raises:
        UserError: a folder or file that is none of these.
    """
    from edge_lightning.cli.checks import names_a_folder

    place = Path(ckpt)
    if place.suffix == ".ckpt":
        run = _run_of(place)
        if not place.exists() or not (run / "config.yaml").exists():
            raise UserError(f"ckpt={ckpt}: a checkpoint inside its run's folder expected (RUN/checkpoints/best.ckpt)")
        return str(_model_of(run)["path"] or run / "untrained"), place
    exported = place / "checkpoints" / "hf"
    if exported.is_dir():
        return str(exported), None
    if names_a_folder(ckpt) and not (place / "config.json").exists():
        raise UserError(
            f"ckpt={ckpt}: the folder of a finished run (with checkpoints/hf), a checkpoint of a run (best.ckpt, last.ckpt) "
            "or a transformers folder (with config.json) expected"
        )
    return ckpt, None


def adapters_in(checkpoint: Path | None) -> dict | None:
    """What model.lora was in the run of a checkpoint; None without a checkpoint, since folders hold merged weights."""
    return None if checkpoint is None else _model_of(_run_of(checkpoint)).get("lora")


def _model_of(run: Path) -> dict:
    path = run / "config.yaml"
    config = read_yaml(path)
    model = config.get("model") if isinstance(config, dict) else None
    if not isinstance(model, dict) or "path" not in model:
        raise UserError(f"{path}: the configuration of a run expected, one without model.path came; put it back as it was")
    return model


def _run_of(checkpoint: Path) -> Path:
    return checkpoint.parents[1] if len(checkpoint.parents) > 1 else checkpoint.parent

"""edge-lightning validate: evaluate a run's checkpoint, a transformers folder or a hub id."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID

from edge_lightning.cli.process import hush, prepare
from edge_lightning.errors import UserError


def validate(cfg: DictConfig, folder: Path) -> None:
    """Put every benchmark of cfg.evaluation to the policy at cfg.ckpt; rows and summary go to `folder`."""
    prepare(cfg.cpu_threads)
    import torch

    from edge_lightning.cli.build import build_benchmarks, build_policy
    from edge_lightning.cli.checks import check_prompts, length_limit
    from edge_lightning.cli.schema import check, check_call
    from edge_lightning.cli.table import print_summary
    from edge_lightning.evaluation.benchmark import evaluate, write_evaluation
    from edge_lightning.training.summary import git_commit, versions, write_json

    hush()
    start = time.time()
    check_call(policy_folder, {"ckpt": cfg.ckpt}, "")
    check_call(check_prompts, {"prompt_limit": cfg.rollout.prompt_limit}, "rollout")
    check(cfg)
    path = policy_folder(cfg.ckpt)
    with open_dict(cfg):
        cfg.model.path = path
    benchmarks = build_benchmarks(cfg)
    if not benchmarks:
        raise UserError("evaluation.benchmarks is empty: at least one benchmark expected; set evaluation=smoke")
    policy = build_policy(cfg.model, folder, temperature=1.0).eval()
    if torch.cuda.is_available():  # not yet run on hardware
        policy.cuda()
    prompt, reward = instantiate(cfg.prompt), instantiate(cfg.reward)
    held_out = instantiate(cfg.data.problem_set).held_out()
    chosen = {benchmark.name: benchmark.choose(held_out) for benchmark in benchmarks}
    for problems in chosen.values():
        check_prompts(problems, prompt, policy, cfg.rollout.prompt_limit)
    OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), folder / "config.yaml")
    policy.save_config(folder / "policy")
    limit = length_limit(policy, cfg.rollout.prompt_limit, [b.response_limit for b in benchmarks])
    engine = instantiate(cfg.engine)(policy=policy, folder=folder / "policy", max_model_len=limit)
    bars = Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True))
    try:
        engine.push_weights(policy, 0)
        results, seconds = {}, {}
        bars.start()
        for benchmark in benchmarks:
            began = time.time()
            bar = bars.add_task(benchmark.name, total=len(chosen[benchmark.name]))
            found = evaluate(
                benchmark,
                chosen[benchmark.name],
                policy=policy,
                engine=engine,
                prompt=prompt,
                reward=reward,
                step=0,
                weights_version=0,
                on_progress=partial(_advance, bars, bar),
            )
            write_evaluation(folder / "evaluation", found)
            results |= {f"{benchmark.name}/{key}": value for key, value in found.metrics.items()}
            seconds[benchmark.name] = time.time() - began
    finally:
        bars.stop()
        engine.close()
        reward.close()
    summary = {
        "command": "validate",
        "name": cfg.name,
        "status": "finished",
        "ckpt": cfg.ckpt,
        "policy": path,
        "data": cfg.data.name,
        "metrics": results,
        "seconds": {**seconds, "whole_run": time.time() - start},
        "grading_timeouts": reward.timeouts,
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder / "summary.json", summary)
    print_summary(summary, folder)


def _advance(bars: Progress, bar: TaskID, problems_done: int) -> None:
    bars.update(bar, completed=problems_done)


def policy_folder(ckpt: str) -> str:
    """The transformers folder of a run, or what was given: a transformers folder or a hub id.

    Raises:
        UserError: a folder that is neither.
    """
    from edge_lightning.cli.checks import names_a_folder

    folder = Path(ckpt)
    exported = folder / "checkpoints" / "hf"
    if exported.is_dir():
        return str(exported)
    if names_a_folder(ckpt) and not (folder / "config.json").exists():
        raise UserError(
            f"ckpt={ckpt}: the folder of a finished run (with checkpoints/hf) or a transformers folder (with config.json) "
            "expected"
        )
    return ckpt

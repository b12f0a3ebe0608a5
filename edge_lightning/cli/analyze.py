"""edge-lightning analyze: what the entropies of a policy's tokens tell of its responses."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_lightning.cli.process import hush, prepare
from edge_lightning.errors import UserError, require_at_least_one, require_file_name
from edge_lightning.types import Problem, Provenance
from edge_lightning.whole import whole

RECORD = ("responses.parquet", "summary.json")  # what an earlier analysis has left


def analyze(cfg: DictConfig, folder: Path) -> None:
    """Sample responses of the policy at cfg.ckpt, take their token entropies, and put cfg.analysis to them."""
    prepare(cfg.cpu_threads, offline=cfg.offline)
    import torch

    from edge_lightning.analysis.base import Tools
    from edge_lightning.analysis.continuation import Continuer
    from edge_lightning.analysis.record import response_rows
    from edge_lightning.analysis.sampling import measured, sampled
    from edge_lightning.cli.build import build_policy, built
    from edge_lightning.cli.checks import length_limit
    from edge_lightning.cli.schema import check_call
    from edge_lightning.cli.validate import adapters_in, policy_source
    from edge_lightning.engine.watched import Watched
    from edge_lightning.evaluation.progress import Display
    from edge_lightning.experience import Pipeline
    from edge_lightning.stopwatch import Stopwatch
    from edge_lightning.training.checkpoints import load_weights
    from edge_lightning.training.summary import write_json
    from edge_lightning.versions import git_commit, versions

    hush()
    start, clock = time.time(), Stopwatch()
    check_call(policy_source, {"ckpt": cfg.ckpt}, "")
    path, checkpoint = policy_source(cfg.ckpt)
    with open_dict(cfg):
        cfg.model.path = path
        cfg.model.lora = adapters_in(checkpoint)
    _check(cfg)
    if any((folder / name).exists() for name in RECORD):
        raise UserError(f"hydra.run.dir={folder}: the record of an analysis is there already; give another folder")
    rollout = cfg.rollout
    analysis, reward = built(cfg.analysis, "analysis", Callable), built(cfg.reward, "reward", object)
    make_engine, prompt = instantiate(cfg.engine), instantiate(cfg.prompt)
    if make_engine.func.provenance is not Provenance.SAMPLED:
        name = make_engine.func.__name__
        raise UserError(f"{name} copies reference solutions: an engine that samples expected; set engine=vllm or hf")
    policy = build_policy(cfg.model, folder, temperature=rollout.temperature).eval()
    if checkpoint is not None:
        load_weights(policy, checkpoint)
    if torch.cuda.is_available():  # not yet run on hardware
        policy.cuda()
    extra = analysis.extra_tokens(policy.encode) if hasattr(analysis, "extra_tokens") else 0
    limit = length_limit(policy, rollout.prompt_limit, rollout.response_limit + extra)
    problems, left_out = _problems(cfg, reward, lambda problem: len(prompt(problem, policy.tokenizer)))
    OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), folder / "config.yaml")
    policy.save_config(folder / "policy")
    print(f"{cfg.name}: starting engine={cfg.engine._target_.rsplit('.', 1)[-1]}", file=sys.stderr)
    engine = Watched(make_engine(policy=policy, folder=folder / "policy", max_model_len=limit))
    display = Display()
    sampling = {"policy": policy, "engine": engine, "reward": reward, "temperature": rollout.temperature}
    sampling["response_limit"] = rollout.response_limit
    try:
        engine.push_weights(policy, 0)
        display.start()
        with clock("sample"), display.counted("problems", len(problems)) as advance:
            responses = sampled(
                problems,
                make_pipeline=partial(Pipeline, prompt=prompt, length_limit=limit, seed=cfg.seed, **sampling),
                group_size=rollout.group_size,
                responses_at_a_time=cfg.responses_at_a_time,
                advance=advance,
            )
        with clock("score"), display.counted("responses scored", len(responses)) as advance:
            found, gap = measured(policy, responses, micro_batch_tokens=cfg.micro_batch_tokens, advance=advance)
        _write(folder / "responses.parquet", response_rows(found))
        continuer = Continuer(responses_at_a_time=cfg.responses_at_a_time, **sampling)
        with clock("analyse"):
            tools = Tools(policy=policy, continuer=continuer, seed=cfg.seed, show=display.counted)
            findings = analysis(found, tools)
    finally:
        display.stop()
        engine.close()
        reward.close()
    for name, content in findings.files.items():
        _write(folder / name, content)
    summary = {
        "command": "analyze",
        "name": cfg.name,
        "status": "finished",
        "analysis": cfg.analysis.name,
        "ckpt": cfg.ckpt,
        "policy": str(checkpoint or path),
        "data": cfg.data.name,
        "problems": {"asked": len(problems), "left_out": left_out},
        "accuracy_sampled": sum(response.grade.right for response in responses) / len(responses),
        "engine_gap_nats": gap,
        "figures": findings.figures,
        "grading_timeouts": reward.timeouts,
        "seconds": {**clock.seconds, "whole_run": time.time() - start},
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder / "summary.json", summary)
    _print(findings, summary, folder)


def problem_choice(problems_from: Literal["held_out", "train"], problems: int | None) -> None:
    """The types of the keys that say which problems are asked."""


def scoring_choice(seed: int, responses_at_a_time: int, micro_batch_tokens: int) -> None:
    """The types of the keys that say how."""


def _check(cfg: DictConfig) -> None:
    """Types and bounds of all values, before torch loads a policy.

    Raises:
        UserError: names the key, what came and what is expected.
    """
    from edge_lightning.cli.checks import check_sampling
    from edge_lightning.cli.schema import check, check_call
    from edge_lightning.curation import usable_held_out

    check_call(usable_held_out, {"on_bad_row": cfg.data.on_bad_row}, "data")
    check_call(problem_choice, {key: cfg[key] for key in ("problems_from", "problems")}, "")
    check_call(scoring_choice, {key: cfg[key] for key in ("seed", "responses_at_a_time", "micro_batch_tokens")}, "")
    check_sampling(cfg.rollout)
    check(cfg)
    require_at_least_one("rollout.group_size", cfg.rollout.group_size)
    for key in ("problems", "responses_at_a_time", "micro_batch_tokens"):
        require_at_least_one(key, cfg[key])
    require_file_name("analysis.name", cfg.analysis.get("name"))


def _problems(cfg: DictConfig, reward, measure: Callable[[Problem], int]) -> tuple[list[Problem], dict[str, int]]:
    """The problems that are asked, and how many were left out for what reason."""
    from edge_lightning.cli.build import build_problem_set
    from edge_lightning.curation import refuse, usable

    problem_set = build_problem_set(cfg)
    report = problem_set.report
    of_split = problem_set.held_out() if cfg.problems_from == "held_out" else problem_set.train()
    kept, bad, _ = usable(of_split, report.source, reward, measure, cfg.rollout.prompt_limit)
    bad = report.bad + bad
    if cfg.data.on_bad_row == "refuse":
        refuse(bad, report.rows)
    wanted = len(kept) if cfg.problems is None else cfg.problems
    if not kept or wanted > len(kept):
        other = "train" if cfg.problems_from == "held_out" else "held_out"
        raise UserError(
            f"problems={cfg.problems}: {cfg.data.name} has {len(kept)} usable problems_from={cfg.problems_from}; lower it, "
            f"set problems_from={other}, or change data.problem_set"
        )
    return kept[:wanted], dict(Counter(row.kind for row in bad))


def _write(path: Path, content: bytes) -> None:
    with whole(path) as part:
        part.write_bytes(content)


def _print(findings, summary: dict, folder: Path) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 120)  # a file has no edge to break lines at
    for title, found in findings.tables.items():
        heading = f"{summary['name']}: {title or summary['status']}"
        console.print(as_rich(found.header, found.rows, title=heading))
    for note in findings.notes:
        console.print(note, markup=False, soft_wrap=True)
    gap = "" if summary["engine_gap_nats"] is None else f", engine and policy {summary['engine_gap_nats']:.1e} nats apart"
    asked = f"{summary['problems']['asked']:,} problems, right as sampled {summary['accuracy_sampled']:.3f}{gap}"
    console.print(f"sampled   {asked}", soft_wrap=True)
    seconds = ", ".join(f"{stage} {value:.1f}" for stage, value in summary["seconds"].items() if stage != "whole_run")
    console.print(f"seconds   {summary['seconds']['whole_run']:.0f} in all: {seconds}", soft_wrap=True)
    place = min(str(folder), os.path.relpath(folder), key=len)
    names = ", ".join(("summary.json", "responses.parquet", *findings.files))
    console.print(f"files     {place}: {names}", markup=False, soft_wrap=True)


def as_rich(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str) -> Table:
    """A table for the terminal: the first column is text, the others are figures."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column(header[0], no_wrap=True)
    for heading in header[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    return table

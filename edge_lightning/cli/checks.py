"""What is refused before anything is trained, beside what the constructors refuse by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from omegaconf import DictConfig

from edge_lightning.cli.schema import check, check_call
from edge_lightning.errors import UserError
from edge_lightning.experience import Pipeline
from edge_lightning.policy import Policy
from edge_lightning.prompts import Prompt
from edge_lightning.training.evaluation_callback import EvaluationCallback
from edge_lightning.training.rollout_callback import RolloutCallback
from edge_lightning.types import Problem


def check_values(cfg: DictConfig) -> None:
    """Types of all values of a fit, those included that build.py hands on by itself, and bounds of the rollout's.

    Raises:
        UserError: names the key, what came and what is expected.
    """
    rollout = cfg.rollout
    check_call(check_prompts, {"prompt_limit": rollout.prompt_limit}, "rollout")
    sampling = {key: rollout[key] for key in ("group_size", "response_limit", "temperature")}
    check_call(Pipeline, sampling, "rollout")
    check_call(RolloutCallback, {"max_engine_gap": rollout.max_engine_gap}, "rollout")
    when = {key: cfg.evaluation[key] for key in ("every_n_steps", "before", "after")}
    check_call(EvaluationCallback, when, "evaluation")
    check(cfg)
    for key in ("prompt_limit", "response_limit"):
        if rollout[key] < 1:
            raise UserError(f"rollout.{key}={rollout[key]}: at least 1 token expected")
    if not rollout.temperature > 0:
        raise UserError(
            f"rollout.temperature={rollout.temperature}: above 0 expected, since log-probabilities are taken at it; "
            "greedy responses have nothing to be compared by"
        )


def check_model(cfg: DictConfig) -> None:
    """Raise UserError for a folder that is not there, or a dtype that torch has none of."""
    if cfg.path is not None and names_a_folder(cfg.path) and not Path(cfg.path, "config.json").exists():
        raise UserError(
            f"model.path={cfg.path}: a transformers folder (with config.json) or a hub id expected, neither is there; "
            "set model.path=DIR"
        )
    if not isinstance(getattr(torch, str(cfg.dtype), None), torch.dtype):
        raise UserError(f"model.dtype={cfg.dtype}: float32, bfloat16 or another floating dtype of torch expected")


def names_a_folder(path: str) -> bool:
    """Whether a path can be no hub id: it is a folder, or begins or branches like one."""
    return Path(path).is_dir() or path.startswith(("/", ".", "~")) or path.count("/") > 1


def check_processes(world_size: int) -> None:
    """Raise UserError for more processes than one."""
    if world_size != 1:
        raise UserError(f"trainer.devices gives {world_size} processes: 1 expected; set trainer.devices=1")


def check_optimizer(policy: Policy, optimizer: Callable, schedule: Callable) -> None:
    """Raise UserError where the optimizer or its schedule refuses its settings; both are built again for the run."""
    try:
        made = optimizer(policy.parameters())
    except (TypeError, ValueError) as error:
        raise UserError(f"optimizer: {error}; change optimizer.*") from error
    try:
        schedule(optimizer=made)
    except (TypeError, ValueError) as error:
        raise UserError(f"schedule: {error}; change schedule.*") from error


def check_prompts(problems: Sequence[Problem], prompt: Prompt, policy: Policy, prompt_limit: int) -> None:
    """Raise UserError for a prompt over the limit."""
    for problem in problems:
        tokens = len(prompt(problem, policy.tokenizer))
        if tokens > prompt_limit:
            raise UserError(
                f"problem {problem.id!r}: prompt of {tokens} tokens, at most rollout.prompt_limit={prompt_limit} "
                "expected; raise it or leave the problem out"
            )


def length_limit(policy: Policy, prompt_limit: int, response_limits: Sequence[int]) -> int:
    """The engine's limit on prompt and response together, in tokens.

    Raises:
        UserError: the model was built for less.
    """
    needed = prompt_limit + max(response_limits)
    if needed > policy.max_positions:
        raise UserError(
            f"rollout.prompt_limit={prompt_limit} and up to {max(response_limits)} tokens of response and correction need "
            f"{needed} positions, the model has {policy.max_positions}; lower rollout.prompt_limit, "
            "rollout.response_limit or rollout.reflection_limit"
        )
    return needed

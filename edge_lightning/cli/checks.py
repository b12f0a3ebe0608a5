"""What is refused before anything is trained, beside what the constructors refuse by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from omegaconf import DictConfig, OmegaConf

from edge_lightning.advantage.base import Advantage
from edge_lightning.cli.schema import check, check_call
from edge_lightning.correction.base import Corrector
from edge_lightning.correction.none import NoCorrection
from edge_lightning.credit.base import Credit
from edge_lightning.credit.none import NoCredit
from edge_lightning.curation import curate
from edge_lightning.engine.base import require_stall
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.evaluation.benchmark import Exam
from edge_lightning.experience import Pipeline
from edge_lightning.lora import LowRankAdapters
from edge_lightning.objective.base import Objective
from edge_lightning.policy import Policy
from edge_lightning.prompts import Prompt
from edge_lightning.training.evaluation_callback import EvaluationCallback
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.rollout_callback import RolloutCallback
from edge_lightning.training.strategies import FullySharded
from edge_lightning.types import Problem, Provenance

PRECISIONS = ("32-true", "bf16-mixed")
SHORTENED_SHARE = 0.01  # of the problems of a benchmark, whose responses may have less room than the response limit
NOT_FOR_THE_TRAINER = {
    "gradient_clip_val": "module.gradient_clip_norm",
    "accumulate_grad_batches": "datamodule.micro_batch_tokens",
    "max_steps": "steps",
    "limit_train_batches": "steps",
    "overfit_batches": "steps",
    "fast_dev_run": "steps",
}


def check_values(cfg: DictConfig) -> None:
    """Types of all values of a fit, those included that build.py hands on by itself, and bounds of the rollout's.

    Raises:
        UserError: names the key, what came and what is expected.
    """
    rollout = cfg.rollout
    check_call(curate, {key: cfg.data[key] for key in ("on_bad_row", "drop_contaminated", "corrupted_solutions")}, "data")
    check_call(RolloutCallback, {"max_engine_gap": rollout.max_engine_gap}, "rollout")
    when = {key: cfg.evaluation[key] for key in ("every_n_steps", "before", "after")}
    check_call(EvaluationCallback, when, "evaluation")
    check_sampling(rollout)
    check(cfg)
    require_at_least_one("rollout.problems_per_step", rollout.problems_per_step)
    require_stall(cfg.engine.get("stall_s"))
    if rollout.max_engine_gap is not None and not rollout.max_engine_gap > 0:
        raise UserError(f"rollout.max_engine_gap={rollout.max_engine_gap}: above 0 expected, null: not watched")
    if rollout.mini_batches > rollout.problems_per_step:
        raise UserError(
            f"rollout.mini_batches={rollout.mini_batches}: at most rollout.problems_per_step={rollout.problems_per_step} "
            "expected, since a mini-batch is made of whole groups"
        )
    if cfg.schedule.get("num_warmup_steps", 0) < 0:
        raise UserError(f"schedule.num_warmup_steps={cfg.schedule.num_warmup_steps}: at least 0 expected")
    for key, instead in NOT_FOR_THE_TRAINER.items():
        if key in cfg.trainer:
            raise UserError(f"trainer.{key} does not hold here, where a step is a rollout; set {instead}")
    if str(cfg.trainer.precision) not in PRECISIONS:
        raise UserError(
            f"trainer.precision={cfg.trainer.precision}: {' or '.join(PRECISIONS)} expected; set model.precision"
        )
    if cfg.callbacks.get("record") is None:
        raise UserError(
            "callbacks.record=null: a run without a record is none; set callbacks.record.responses_every_n_steps"
        )


def check_sampling(rollout: DictConfig) -> None:
    """Types and bounds of how responses are sampled: group size, lengths, temperature.

    Raises:
        UserError: names the key, what came and what is expected.
    """
    check_call(check_prompts, {"prompt_limit": rollout.prompt_limit}, "rollout")
    sampling = {key: rollout[key] for key in ("group_size", "response_limit", "temperature")}
    check_call(Pipeline, sampling, "rollout")
    for key in ("prompt_limit", "response_limit"):
        if rollout[key] < 1:
            raise UserError(f"rollout.{key}={rollout[key]}: at least 1 token expected")
    if not 0.01 <= rollout.temperature <= 100:
        raise UserError(
            f"rollout.temperature={rollout.temperature}: above 0 (0.01 to 100) expected, since log-probabilities are taken "
            "at it; greedy responses have nothing to be compared by"
        )


def check_source(
    engine: Callable,
    objective: Objective,
    advantage: Advantage,
    corrector: Corrector,
    group_size: int,
    refill_rounds: int,
) -> None:
    """Raise UserError where what stands in the groups is not what the objective learns from.

    Args:
        engine: a partial of its class.
    """
    copies = engine.func.provenance is not Provenance.SAMPLED
    name = engine.func.__name__
    if copies and (advantage.smallest_group > 1 or group_size > 1 or not isinstance(corrector, NoCorrection)):
        raise UserError(
            f"{name} copies one reference solution a problem: advantage=none, correction=none and rollout.group_size=1 "
            "expected; set ablation=sft, or engine=vllm"
        )
    if copies and refill_rounds:
        raise UserError(
            f"rollout.refill_rounds={refill_rounds}: {name} copies right answers, so every group would be dropped; "
            "set rollout.refill_rounds=0"
        )
    if objective.imitates and not copies:
        raise UserError(
            f"{type(objective).__name__} imitates whatever stands in the groups, and {name} samples from the policy itself; "
            "set ablation=sft, or objective=ppo_clip"
        )
    if copies and not objective.imitates:
        raise UserError(f"{type(objective).__name__} has nothing to weigh in what {name} copies; set ablation=sft")


def check_credit(credit: Credit, objective: Objective, refill_rounds: int) -> None:
    """Raise UserError where a credit needs what the objective or the sampling takes away."""
    name = type(credit).__name__
    if objective.imitates and not isinstance(credit, NoCredit):
        raise UserError(f"{type(objective).__name__} weighs no response, so {name} would do nothing; set credit=none")
    if credit.scales_clip and not getattr(getattr(objective, "surrogate", None), "scalable", False):
        raise UserError(
            f"{name} scales the bounds of a clip by tokens, which this objective has none of; "
            "set objective=ppo_clip or objective=clip_higher, or another credit"
        )
    if refill_rounds and bool(credit.alive(torch.zeros(1))):
        raise UserError(
            f"rollout.refill_rounds={refill_rounds}: {name} learns from groups that are all right or all wrong, which a "
            "refill drops; set rollout.refill_rounds=0, or another credit"
        )


def check_model(cfg: DictConfig) -> None:
    """Raise UserError for a folder that is not there, a dtype that torch has none of, or another value of the wrong kind."""
    if cfg.path is not None and names_a_folder(cfg.path) and not Path(cfg.path, "config.json").exists():
        raise UserError(
            f"model.path={cfg.path}: a transformers folder (with config.json) or a hub id expected, neither is there; "
            "set model.path=DIR"
        )
    if cfg.path is None and "build" not in cfg:
        raise UserError("model.path=null: a transformers folder or hub id expected; set model.path=DIR")
    dtype = getattr(torch, str(cfg.dtype), None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise UserError(f"model.dtype={cfg.dtype}: float32, bfloat16 or another floating dtype of torch expected")

    lora = cfg.get("lora")
    if lora is not None:
        if not isinstance(lora, Mapping):
            raise UserError(f"model.lora={lora}: {{rank: 32, alpha: 64}} or null expected")
        check_call(LowRankAdapters, OmegaConf.to_container(lora), "model.lora")
    for key in ("gradient_checkpointing", "compile", "trust_remote_code"):
        if not isinstance(cfg.get(key, False), bool):
            raise UserError(f"model.{key}={cfg[key]}: true or false expected")


def names_a_folder(path: str) -> bool:
    """Whether a path can be no hub id: it is a folder, or begins or branches like one."""
    return Path(path).is_dir() or path.startswith(("/", ".", "~")) or path.count("/") > 1


def check_devices(trainer: DictConfig) -> None:
    """Raise UserError for GPUs that are not there, before a policy is loaded or a hub is asked for one."""
    if trainer.accelerator not in ("auto", "gpu", "cuda"):
        return
    found = torch.cuda.device_count()
    if not found and trainer.accelerator != "auto":
        raise UserError(
            f"trainer.accelerator={trainer.accelerator}: a GPU expected, torch {torch.__version__} finds none; "
            "set trainer.accelerator=cpu, or look at the driver and at torch's build"
        )
    if found and isinstance(trainer.devices, int) and trainer.devices > found:
        raise UserError(
            f"trainer.devices={trainer.devices}: at most the {found} GPUs of this machine expected; "
            f"set trainer.devices={found}"
        )


def check_processes(trainer: L.Trainer, cfg: DictConfig, module: PolicyModule) -> None:
    """Raise UserError where several processes have no strategy, or not a response each, or can't do what was asked for."""
    count, rollout = trainer.world_size, cfg.rollout
    responses = rollout.problems_per_step // rollout.mini_batches * rollout.group_size
    strategy = trainer.strategy
    if count > 1 and not isinstance(strategy, (DDPStrategy, FullySharded)):
        raise UserError(
            f"trainer.devices gives {count} processes, which {type(strategy).__name__} does not keep together; "
            "set strategy=ddp or strategy=fsdp"
        )
    if count > responses:
        raise UserError(
            f"{count} processes for {responses} responses of a step or mini-batch: at least one each expected; take fewer, "
            "or raise rollout.problems_per_step or rollout.group_size"
        )
    if isinstance(strategy, FullySharded) and module.credit.needs_padding:
        raise UserError(
            "credit.entropy_over_padding makes as many passes as a process has responses, and strategy=fsdp needs as many "
            "on each; set strategy=ddp"
        )


def check_optimizer(policy: Policy, optimizer: Callable, schedule: Callable) -> None:
    """Raise UserError where the optimizer or its schedule refuses its settings; both are built again for the run."""
    try:
        made = optimizer(policy.trained_parameters())
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: fused together with foreach
        raise UserError(f"optimizer: {error}; change optimizer.*") from error
    try:
        schedule(optimizer=made)
    except (TypeError, ValueError) as error:
        raise UserError(f"schedule: {error}; change schedule.*") from error


def check_prompts(
    problems: Sequence[Problem], prompt: Prompt, policy: Policy, prompt_limit: int, key: str = "rollout.prompt_limit"
) -> list[int]:
    """The tokens of each prompt. Raises UserError for one over the limit, which `key` sets."""
    lengths = {problem.id: len(prompt(problem, policy.tokenizer)) for problem in problems}
    long = [name for name, tokens in lengths.items() if tokens > prompt_limit]
    if long:
        others = f" ({len(long)} of {len(problems)} prompts are longer, up to {max(lengths.values())} tokens)"
        raise UserError(
            f"problem {long[0]!r}: prompt of {lengths[long[0]]} tokens, at most {key}={prompt_limit} "
            f"expected{others}; raise it or leave the problems out"
        )
    return list(lengths.values())


def exam_length(exam: Exam, policy: Policy) -> int:
    """The engine's limit on prompt and response together that an evaluation needs, in tokens.

    Responses to prompts that leave less than the response limit of the model's positions end sooner, and count as cut off.
    The paper's own suite has two such problems for the paper's models (about 1330 + 3000 tokens, 4096 positions).

    Raises:
        UserError: a prompt is over the limit, or more than one in a hundred leaves too little room.
    """
    benchmark = exam.benchmark
    key = benchmark.key("response_limit")
    lengths = check_prompts(exam.problems, exam.prompt, policy, benchmark.prompt_limit, benchmark.key("prompt_limit"))
    needed = [tokens + benchmark.response_limit for tokens in lengths]
    short = sum(tokens > policy.max_positions for tokens in needed)
    if short > len(needed) * SHORTENED_SHARE or max(lengths) >= policy.max_positions:
        raise UserError(
            f"evaluation {benchmark.name}: {short} of {len(needed)} problems need more than the model's "
            f"{policy.max_positions} positions (prompts of up to {max(lengths)} tokens, responses of {key}="
            f"{benchmark.response_limit}), at most {SHORTENED_SHARE:.0%} expected; lower {key}"
        )
    return min(max(needed), policy.max_positions)


def length_limit(policy: Policy, prompt_limit: int, response_limit: int) -> int:
    """The engine's limit on prompt, response and correction together that training needs, in tokens.

    Raises:
        UserError: the model was built for less.
    """
    needed = prompt_limit + response_limit
    if needed > policy.max_positions:
        raise UserError(
            f"rollout.prompt_limit={prompt_limit} and up to {response_limit} tokens of response and correction need "
            f"{needed} positions, the model has {policy.max_positions}; lower rollout.prompt_limit, "
            "rollout.response_limit or rollout.reflection_limit"
        )
    return needed

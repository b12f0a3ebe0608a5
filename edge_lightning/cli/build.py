"""The one place where configuration becomes objects."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lightning as L
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from edge_lightning.cli.checks import (
    check_credit,
    check_devices,
    check_model,
    check_optimizer,
    check_processes,
    check_source,
    check_values,
    exam_length,
    length_limit,
)
from edge_lightning.cli.ranks import is_first_process
from edge_lightning.curation import Limits, curate
from edge_lightning.data.base import ProblemSet
from edge_lightning.errors import UserError
from edge_lightning.evaluation.benchmark import Benchmark
from edge_lightning.evaluation.progress import Display
from edge_lightning.experience import Pipeline, check_group_size
from edge_lightning.layers import compile_layers, recompute_layers
from edge_lightning.lora import LowRankAdapters
from edge_lightning.policy import Policy
from edge_lightning.training.checkpoints import InPlace
from edge_lightning.training.datamodule import ProblemDataModule
from edge_lightning.training.evaluation_callback import EvaluationCallback
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.record_callback import RecordCallback
from edge_lightning.training.rollout_callback import RolloutCallback
from edge_lightning.training.stop_callback import StopCallback
from edge_lightning.types import Provenance


@dataclass(frozen=True)
class Run:
    """A run, ready for `trainer.fit(module, datamodule)`."""

    trainer: L.Trainer
    module: PolicyModule
    datamodule: ProblemDataModule
    record: RecordCallback
    evaluations: EvaluationCallback
    data: dict  # what was found in the problems; see curation.py


def build(cfg: DictConfig, folder: Path, *, purge_step: int | None) -> Run:
    """Build everything that a run needs, and refuse what could not work before anything is trained.

    Args:
        folder: of the run.
        purge_step: the step from which what stands in tensorboard's files is void; None: nothing is.
    """
    check_values(cfg)
    check_devices(cfg.trainer)
    advantage = instantiate(cfg.advantage)
    check_group_size(advantage, cfg.rollout.group_size)
    problem_set = build_problem_set(cfg)
    policy = build_policy(cfg.model, folder, temperature=cfg.rollout.temperature, seed=cfg.seed)
    prompt, corrector = instantiate(cfg.prompt), instantiate(cfg.correction)
    response_limit = cfg.rollout.response_limit + corrector.extra_tokens(policy.encode)
    training_length = length_limit(policy, cfg.rollout.prompt_limit, response_limit)
    make_engine, objective = instantiate(cfg.engine), instantiate(cfg.objective)
    check_source(make_engine, objective, advantage, corrector, cfg.rollout.group_size, cfg.rollout.refill_rounds)
    reward = instantiate(cfg.reward)
    benchmarks = build_benchmarks(cfg)
    curated = curate(
        problem_set,
        on_bad_row=cfg.data.on_bad_row,
        drop_contaminated=cfg.data.drop_contaminated,
        corrupted_solutions=cfg.data.corrupted_solutions,
        prompt=prompt,
        policy=policy,
        reward=reward,
        limits=Limits(
            prompt=cfg.rollout.prompt_limit,
            model=training_length,
            required_solution=cfg.rollout.response_limit if make_engine.func.provenance is Provenance.REFERENCE else None,
        ),
        benchmarks={b.name: b.problem_set.held_out() for b in benchmarks if b.problem_set is not None},
    )
    make_datamodule = instantiate(cfg.datamodule, _partial_=True)  # Hydra would turn the problems into configuration
    datamodule = make_datamodule(train_problems=curated.train, held_out_problems=curated.held_out)
    exams = [benchmark.exam(datamodule.held_out_problems, prompt) for benchmark in benchmarks]
    max_model_len = max([training_length, *(exam_length(exam, policy) for exam in exams)])
    optimizer, schedule = instantiate(cfg.optimizer), instantiate(cfg.schedule)
    check_optimizer(policy, optimizer, schedule)

    credit = instantiate(cfg.credit)
    check_credit(credit, objective, cfg.rollout.refill_rounds)
    module = instantiate(
        cfg.module,
        policy=policy,
        credit=credit,
        objective=objective,
        optimizer=optimizer,
        schedule=schedule,
    )
    rollouts = RolloutCallback(
        make_engine=make_engine,
        make_pipeline=partial(
            Pipeline,
            prompt=prompt,
            reward=reward,
            corrector=corrector,
            advantage=advantage,
            group_size=cfg.rollout.group_size,
            response_limit=cfg.rollout.response_limit,
            length_limit=training_length,
            temperature=cfg.rollout.temperature,
            seed=cfg.seed,
            problems=curated.train,
            refill_rounds=cfg.rollout.refill_rounds,
            mini_batches=cfg.rollout.mini_batches,
        ),
        max_model_len=max_model_len,
        folder=folder / "policy",
        max_engine_gap=cfg.rollout.max_engine_gap,
        make_evaluation_engine=instantiate(cfg.evaluation.engine) if cfg.evaluation.engine and exams else None,
    )
    record = instantiate(cfg.callbacks.record)(folder=folder)
    display = Display(hidden=not is_first_process())
    evaluations = EvaluationCallback(
        exams=exams,
        rollouts=rollouts,
        folder=folder,
        display=display,
        every_n_steps=cfg.evaluation.every_n_steps,
        before=cfg.evaluation.before,
        after=cfg.evaluation.after,
    )
    callbacks = [record]  # a step is recorded before it can be refused
    if cfg.callbacks.get("progress"):  # shown before it is evaluated, which may take longer
        callbacks.append(instantiate(cfg.callbacks.progress)(record=record, display=display))
    if cfg.callbacks.get("signal_watch"):
        callbacks.append(instantiate(cfg.callbacks.signal_watch)(display=display))
    callbacks += [rollouts, StopCallback(evaluations), evaluations]
    if cfg.callbacks.get("tensorboard"):  # behind the evaluations, whose results it tells
        make = instantiate(cfg.callbacks.tensorboard)
        callbacks.append(make(settings=compared_settings(cfg), record=record, evaluations=evaluations))
    callbacks += [
        instantiate(node)(dirpath=folder / "checkpoints")
        for name, node in cfg.callbacks.items()
        if name.endswith("_checkpoint") and node
    ]
    loggers = [
        instantiate(node)(save_dir=folder, name="", version=name, purge_step=purge_step) for name, node in cfg.logger.items()
    ]
    trainer = instantiate(cfg.trainer, callbacks=callbacks, logger=loggers, default_root_dir=folder)
    trainer.strategy.checkpoint_io = InPlace()
    check_processes(trainer, cfg, module)
    return Run(trainer, module, datamodule, record, evaluations, curated.record)


def compared_settings(cfg: DictConfig) -> dict[str, bool | int | float | str]:
    """What tells runs apart in tensorboard: stages by their classes, what is commonly swept, and what was set by hand."""
    stages = ("correction", "advantage", "credit", "objective", "engine")
    found = {key: cfg[key]["_target_"].rsplit(".", 1)[-1] for key in stages}
    found |= {key: cfg[key].name for key in ("ablation", "data", "model")}
    keys = ["seed", "optimizer.lr", *(f"rollout.{key}" for key in ("group_size", "problems_per_step", "temperature"))]
    if HydraConfig.initialized():
        keys += [override.partition("=")[0].lstrip("+") for override in HydraConfig.get().overrides.task]
    for key in keys:
        value = OmegaConf.select(cfg, key)
        if isinstance(value, (bool, int, float, str)) and key not in ("resume", "cpu_threads", *found):
            found[key] = value
    return found


def build_policy(cfg: DictConfig, folder: Path, *, temperature: float, seed: int = 0) -> Policy:
    """Load the policy, or make it first where the model is one to be built.

    Args:
        cfg: the model's.
        seed: of the run; of adapters.
    """
    check_model(cfg)
    lora = cfg.get("lora")
    adapters = None if lora is None else LowRankAdapters(**OmegaConf.to_container(lora))
    path = cfg.path
    if path is None:  # every process of a run makes the same one, in a place of its own
        path = folder / "untrained" if is_first_process() else Path(tempfile.mkdtemp())
        instantiate(cfg.build)(path)
    policy = Policy.load(
        path, dtype=cfg.dtype, temperature=temperature, trust_remote_code=cfg.get("trust_remote_code", False)
    )
    if adapters is not None:
        policy.adapt(adapters, seed=seed)
    if cfg.get("gradient_checkpointing"):
        recompute_layers(policy.model)
    if cfg.get("compile"):
        compile_layers(policy.model)
    return policy


def build_benchmarks(cfg: DictConfig) -> list[Benchmark]:
    """The benchmarks of cfg.evaluation, in order.

    Raises:
        UserError: what stands there is no benchmark, or two have one name.
    """
    key = "evaluation.benchmarks"
    nodes = cfg.evaluation.benchmarks or {}
    if not isinstance(nodes, Mapping):
        raise UserError(f"{key}={nodes}: benchmarks by name expected; set evaluation=smoke")
    # A problem set names its keys as those of the run's own data.
    benchmarks = [
        built(node, f"{key}.{name}", Benchmark, {"data.problem_set.": f"{key}.{name}.problem_set."})
        for name, node in nodes.items()
        if node is not None
    ]
    twice = next((name for name, times in Counter(b.name for b in benchmarks).items() if times > 1), None)
    if twice is not None:
        raise UserError(f"{key}: two benchmarks of the name {twice!r} came, different names expected, since files bear them")
    return benchmarks


def build_problem_set(cfg: DictConfig) -> ProblemSet:
    """The problem set of cfg.data.

    Raises:
        UserError: what stands there is none, or can't be read.
    """
    try:
        return built(cfg.data.problem_set, "data.problem_set", object)
    except UserError as error:
        public = Path(cfg.data_folder)
        if str(public) in str(error) and not public.is_dir():
            raise UserError(f"{error} (there is no folder data_folder={public}; set EDGE_DATA)") from error
        raise


def built(node: object, key: str, kind: type, renamed: Mapping[str, str] | None = None):
    """What a node describes, built with plain values.

    Args:
        key: of the node.
        kind: that it has to be of.
        renamed: what keys in messages are called here.
    Raises:
        UserError: it is no node, its constructor refuses its values, or it builds something else.
    """
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise UserError(f"{key}={node}: a node with a _target_ expected; choose an option of {key.split('.')[0]}")
    try:
        made = instantiate(node, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__
        told = str(cause) if isinstance(cause, UserError) else f"{key}: {type(cause).__name__}: {cause}"
        for there, here in (renamed or {}).items():
            told = told.replace(there, here)
        raise UserError(" ".join(told.split())) from error
    if not isinstance(made, kind):
        raise UserError(f"{key}._target_={node['_target_']}: a {kind.__name__} expected; change it")
    return made

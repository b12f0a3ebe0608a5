"""Composes a command's configuration with Hydra and runs its task; turns what a user can cause into one line.

Hydra's own decorator reads sys.argv, where the command's name would stand in the way and which must stay as it is
(Lightning starts further ranks with it); so Hydra's runner is called with the arguments after the command.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from edge_lightning.cli.resume import quoted, resume_overrides
from edge_lightning.errors import UserError
from edge_lightning.evaluation.benchmark import AVERAGE

PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(folder for folder in (PACKAGE / "conf", PACKAGE.parent / "conf") if folder.is_dir())
TRACEBACK = "EDGE_LIGHTNING_TRACEBACK"
FILE_FIRST = ("grade",)  # commands whose first argument is a file

Task = Callable[[DictConfig, Path], None]

OmegaConf.register_new_resolver("asset", lambda name: str(PACKAGE / "assets" / str(name)), replace=True)


def run(command: str, arguments: list[str], task: Task) -> int:
    """Run a command; returns its exit status. Multirun jobs are processes of their own."""
    if "-h" in arguments or "--help" in arguments:
        print(help_text(command), end="")
        return 0
    args = get_args_parser().parse_args(arguments)
    try:
        _refuse_other_flags(args)
        if command in FILE_FIRST:
            if args.multirun:
                raise UserError("-m is not supported; one file at a time")
            args.overrides = _with_file_named(args.overrides)
        _refuse_groups_without_option(args.overrides)
        overrides = [_with_path_quoted(override) for override in resume_overrides(args.overrides, command)]
        hydra = Hydra.create_main_hydra2("edge_lightning", create_config_search_path(str(CONF)))
        try:
            if args.cfg:
                hydra.show_cfg(command, overrides, cfg_type=args.cfg, package=args.package, resolve=True)
                return 0
            if args.multirun or hydra.get_mode(command, overrides) is RunMode.MULTIRUN:
                return _multirun(hydra, command, overrides)
            failure = hydra.run(command, lambda cfg: _failure_of(task, cfg), overrides).return_value
            if failure is not None:
                raise failure
            return 0
        finally:
            GlobalHydra.instance().clear()
    except (UserError, HydraException, OmegaConfBaseException) as error:
        if os.environ.get(TRACEBACK):
            raise
        print(f"edge-lightning {command}: {one_line(error, command)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if os.environ.get(TRACEBACK):
            raise
        print(f"edge-lightning {command}: interrupted", file=sys.stderr)
        return 130


def _refuse_other_flags(args) -> None:
    """Raise UserError for flags of Hydra's that this command line does not follow."""
    for flag in ("info", "config_name", "config_path", "config_dir", "hydra_help", "shell_completion", "experimental_rerun"):
        if getattr(args, flag):
            raise UserError(f"--{flag.replace('_', '-')} is not supported; -m, --cfg job and key=value are")


def _refuse_groups_without_option(overrides: list[str]) -> None:
    """Raise UserError for group=null where a stage must have an option."""
    for override in overrides:
        group, _, option = override.partition("=")
        if option == "null" and group != "experiment" and (CONF / group).is_dir():
            options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
            raise UserError(f"{group}=null: one of {', '.join(options)} expected")


def _with_file_named(arguments: list[str]) -> list[str]:
    """A first argument that is a file, or can be nothing else, as file=..., whatever characters are in it."""
    if not arguments or ("=" in arguments[0] and not Path(arguments[0]).exists()):
        return arguments
    return [f"file={quoted(arguments[0].replace('${', chr(92) + '${'))}", *arguments[1:]]


def _with_path_quoted(override: str) -> str:
    """A path that exists is taken as it stands: the folders of a sweep have = and , in their names."""
    key, _, value = override.partition("=")
    return f"{key}={quoted(value)}" if re.search("[=,]", value) and Path(value).exists() else override


def _failure_of(task: Task, cfg: DictConfig) -> Exception | None:
    """Run the task; what it raises comes back as a value, since Hydra prints a line of its own for what passes it."""
    try:
        task(cfg, Path(HydraConfig.get().runtime.output_dir))
    except Exception as error:
        return error


def _multirun(hydra: Hydra, command: str, overrides: list[str]) -> int:
    """Each job is a fresh process with the command line of a single run; a failed one is listed, the rest go on."""
    failed, folders = [], []

    def start(cfg: DictConfig) -> None:
        job = HydraConfig.get()
        folders.append(Path(job.runtime.output_dir))
        line = [command, *job.overrides.task, f"hydra.run.dir={quoted(job.runtime.output_dir)}"]
        print(f"job {job.job.num}: edge-lightning {' '.join(line[:-1])}", flush=True)
        if subprocess.run([sys.executable, "-m", "edge_lightning", *line]).returncode:
            failed.append(f"job {job.job.num}: {' '.join(line[1:-1])}")

    hydra.multirun(command, start, overrides)
    for folder in folders:
        print(outcome(folder), flush=True)
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def outcome(folder: Path) -> str:
    """One line on a finished or failed job, from its summary."""
    path = folder / "summary.json"
    if not path.exists():
        return f"failed       {folder}"
    summary = json.loads(path.read_text())
    before, after = summary.get("before") or {}, summary.get("after") or summary.get("metrics") or {}
    names = [name for name in after if name.endswith("/accuracy")]
    if f"{AVERAGE}/accuracy" in names:  # of several benchmarks
        names = [f"{AVERAGE}/accuracy"]
    scores = [
        f"{name.removesuffix('/accuracy')} pass@1 "
        + (f"{before[name]:.3f} -> " if name in before else "")
        + f"{after[name]:.3f}"
        for name in names
    ]
    return f"{summary['status']:<12} {', '.join(scores)}  {os.path.relpath(folder)}"


def one_line(error: BaseException, command: str) -> str:
    """What went wrong and what to change, without Hydra's layers around it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            return str(cause)
        cause = cause.__cause__
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        return f"{group}={option}: one of {', '.join(sorted(error.options))} expected"
    if isinstance(error, MissingMandatoryValue):
        return f"no value for {error.full_key}; set {error.full_key}=..."
    key = getattr(getattr(error, "__cause__", None), "full_key", None)
    if isinstance(error, ConfigCompositionException) and key and "not in struct" in str(error.__cause__):
        known = [k for k in _keys(command) if k != key and not k.startswith(f"{key}.")]
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"no key {key}; {hint}edge-lightning {command} --cfg job prints all of them"
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


def _keys(command: str) -> list[str]:
    """Dotted names of all keys of the default configuration and the groups."""
    hydra = Hydra.create_main_hydra2("edge_lightning", create_config_search_path(str(CONF)))
    try:
        cfg = hydra.compose_config(command, [], run_mode=RunMode.RUN)
    finally:
        GlobalHydra.instance().clear()

    def walk(node: object, prefix: str) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                yield f"{prefix}{key}"
                yield from walk(value, f"{prefix}{key}.")

    return list(walk(OmegaConf.to_container(OmegaConf.masked_copy(cfg, [k for k in cfg if k != "hydra"])), ""))


def help_text(command: str) -> str:
    """A command's options, read from the configuration itself."""
    lines = (CONF / f"{command}.yaml").read_text().splitlines()
    groups = [line.strip(" -").split(":")[0] for line in lines if line.startswith("  - ") and ": " in line]
    usage, purpose = lines[0].removeprefix("# ").split(": ", 1)
    text = f"usage: {usage} [group=option ...] [key=value ...]\n\n{purpose}\n\ngroups:\n"
    for group in groups:
        options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        if options and "override" not in group:
            text += f"  {group:<12}{', '.join(options)}\n"
    return text + (
        "\n-m KEY=A,B sweeps; --cfg job prints the resolved configuration and stops; "
        f"{TRACEBACK}=1 in the environment shows where an error came from.\n"
    )

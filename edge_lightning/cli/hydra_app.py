"""Composes a command's configuration with Hydra and runs its task; turns what a user can cause into one line.

Hydra's own decorator reads sys.argv, where the command's name would stand in the way and which must stay as it is
(Lightning starts further ranks with it); so Hydra's runner is called with the arguments after the command.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from edge_lightning.cli.failures import told
from edge_lightning.cli.multirun import multirun, sweep_overrides
from edge_lightning.cli.ranks import is_first_process, is_first_to_tell, shares_run, started
from edge_lightning.cli.resume import MAY_CHANGE, claimed, quoted, refuse_second_run, resume_overrides, split_resume
from edge_lightning.cli.resume_auto import is_auto, resume_auto
from edge_lightning.errors import UserError, printable
from edge_lightning.training.interruption import sigterm_is_control_c

PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(folder for folder in (PACKAGE / "conf", PACKAGE.parent / "conf") if folder.is_dir())
TRACEBACK = "EDGE_LIGHTNING_TRACEBACK"
# the key that a command's first argument stands for
FILE_FIRST = {"grade": "file", "report": "folder", "inspect": "folder", "analyze_records": "folder"}

Task = Callable[[DictConfig, Path], None]

OmegaConf.register_new_resolver("started", started, replace=True)
OmegaConf.register_new_resolver("asset", lambda name: str(PACKAGE / "assets" / str(name)), replace=True)


def run(command: str, arguments: list[str], task: Task) -> int:
    """Run a command; returns its exit status. Multirun jobs are processes of their own."""
    if "-h" in arguments or "--help" in arguments:
        print(help_text(command), end="")
        return 0
    args = get_args_parser().parse_args(_with_options_as_keys(arguments, command))
    try:
        _refuse_other_flags(args)
        if command in FILE_FIRST:
            if args.multirun:
                raise UserError(f"-m is not supported; one {FILE_FIRST[command]} at a time")
            args.overrides = _with_file_named(FILE_FIRST[command], args.overrides)
        _refuse_groups_without_option(args.overrides)
        many, goes_on = args.multirun or "hydra.mode=MULTIRUN" in args.overrides, False
        if many:
            if not is_first_process():
                raise UserError("-m starts its jobs by itself: one process expected; leave torchrun or srun out, or -m")
            overrides, goes_on = sweep_overrides(args.overrides, command)
        elif is_auto(args.overrides, command):
            overrides = resume_auto(args.overrides, lambda given: _composed(command, given))
        else:
            overrides = resume_overrides(args.overrides, command)
        overrides = [_with_path_quoted(override) for override in overrides]
        if not many and not args.cfg and command in MAY_CHANGE:
            overrides = _without_a_second_record(command, overrides)
        hydra = Hydra.create_main_hydra2("edge_lightning", create_config_search_path(str(CONF)))
        try:
            if args.cfg:
                hydra.show_cfg(command, overrides, cfg_type=args.cfg, package=args.package, resolve=True)
                return 0
            if many:
                return multirun(hydra, command, overrides, goes_on=goes_on)
            failure = hydra.run(command, lambda cfg: _failure_of(task, cfg), overrides).return_value
            if failure is not None:
                raise failure
            return 0
        finally:
            GlobalHydra.instance().clear()
    except (UserError, HydraException, OmegaConfBaseException, FileExistsError, NotADirectoryError) as error:
        if os.environ.get(TRACEBACK):
            raise
        _say(command, one_line(error, command))
        return 1
    except (OSError, MemoryError, RuntimeError) as error:
        line = told(error, "a folder of the run")
        if line is None or os.environ.get(TRACEBACK):
            raise
        _say(command, line)
        return 1
    except KeyboardInterrupt:
        if os.environ.get(TRACEBACK):
            raise
        _say(command, "interrupted")
        return 130


def _say(command: str, line: str) -> None:
    """A line behind a command as it is typed: analyze_records is analyze of a folder."""
    print(f"edge-lightning {command.removesuffix('_records')}: {printable(line)}", file=sys.stderr)


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


def _with_options_as_keys(arguments: list[str], command: str) -> list[str]:
    """`--key value` and `--key=value` of a command that takes a file first as key=value."""
    if command not in FILE_FIRST:
        return arguments
    keys = [line.split(":")[0] for line in (CONF / f"{command}.yaml").read_text().splitlines()]
    found = []
    for argument in arguments:
        name, sign, value = argument.removeprefix("--").partition("=")
        if found and found[-1].endswith("\0"):
            found[-1] = found[-1].replace("\0", argument)
        elif argument.startswith("--") and name in keys:
            found.append(f"{name}={value}" if sign else f"{name}=\0")
        else:
            found.append(argument)
    return [argument.replace("\0", "") for argument in found]


def _with_file_named(key: str, arguments: list[str]) -> list[str]:
    """A first argument that is a path, or can be nothing else, as key=..., whatever characters are in it."""
    if not arguments or ("=" in arguments[0] and not Path(arguments[0]).exists()):
        return arguments
    return [f"{key}={quoted(arguments[0].replace('${', chr(92) + '${'))}", *arguments[1:]]


def _with_path_quoted(override: str) -> str:
    """A path that exists is taken as it stands: the folders of a sweep have = and , in their names."""
    key, _, value = override.partition("=")
    return f"{key}={quoted(value)}" if re.search("[=,]", value) and Path(value).exists() else override


def _without_a_second_record(command: str, overrides: list[str]) -> list[str]:
    """Overrides by which Hydra spoils no record: it would write a second run's over the first's before anyone could refuse.

    Raises:
        UserError: the folder is another run's, or another process is at work in it.
    """
    if not is_first_process():
        return [*overrides, "hydra.output_subdir=null"]
    if any(o.startswith("hydra.run.dir=") for o in overrides) and split_resume(overrides)[0] is None:
        folder = Path(_composed(command, overrides).hydra.run.dir)
        if folder.is_dir():
            with claimed(folder):
                refuse_second_run(folder)
    return overrides


def _failure_of(task: Task, cfg: DictConfig) -> Exception | None:
    """Run the task; what it raises comes back as a value, since Hydra prints a line of its own for what passes it."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    try:
        with sigterm_is_control_c(), nullcontext() if cfg.command in FILE_FIRST else claimed(folder):
            return _told_once(task, cfg, folder)
    except UserError as error:  # another process is at work there
        return error


def _told_once(task: Task, cfg: DictConfig, folder: Path) -> Exception | None:
    """As _failure_of; of several processes that share a command the first that fails tells it."""
    try:
        task(cfg, folder)
    except Exception as error:
        if cfg.command in ("fit", "validate") and shares_run() and not is_first_to_tell(folder, str(error)):
            raise SystemExit(1) from None
        return error


def one_line(error: BaseException, command: str) -> str:
    """What went wrong and what to change, without Hydra's layers around it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            return str(cause)
        cause = cause.__cause__
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return f"{error.filename}: a folder expected, a file is there; give another folder"
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


def _composed(command: str, overrides: list[str]) -> DictConfig:
    """The configuration of a command line, Hydra's own included."""
    hydra = Hydra.create_main_hydra2("edge_lightning", create_config_search_path(str(CONF)))
    try:
        return hydra.compose_config(command, [_with_path_quoted(o) for o in overrides], run_mode=RunMode.RUN)
    finally:
        GlobalHydra.instance().clear()


def _keys(command: str) -> list[str]:
    """Dotted names of all keys of the default configuration and the groups."""
    cfg = _composed(command, [])

    def walk(node: object, prefix: str) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                yield f"{prefix}{key}"
                yield from walk(value, f"{prefix}{key}.")

    return list(walk(OmegaConf.to_container(OmegaConf.masked_copy(cfg, [k for k in cfg if k != "hydra"])), ""))


def _about(lines: list[str]) -> tuple[str, str]:
    """Usage and purpose, the first line of a command's configuration."""
    usage, purpose = lines[0].removeprefix("# ").split(": ", 1)
    return usage, purpose


def help_text(command: str) -> str:
    """A command's options, read from the configuration itself."""
    lines = (CONF / f"{command}.yaml").read_text().splitlines()
    groups = [line.strip(" -").split(":")[0] for line in lines if line.startswith("  - ") and ": " in line]
    usage, purpose = _about(lines)
    text = f"usage: {usage} [group=option ...] [key=value ...]\n\n{purpose}\n"
    other = CONF / f"{command}_records.yaml"  # another command of the same name: what it takes is a folder
    if other.exists():
        second, told = _about(other.read_text().splitlines())
        text = f"usage: {usage} [group=option ...] [key=value ...]\n       {second} [key=value ...]\n"
        text += f"\n{usage.split()[2]}: {purpose}\n{second.split()[2]}: {told}\n"
    text += "\ngroups:\n" if any("override" not in group for group in groups) else ""
    for group in groups:
        options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        if options and "override" not in group:
            text += f"  {group:<12}{', '.join(options)}\n"
    return text + (
        "\n-m KEY=A,B sweeps; --cfg job prints the resolved configuration and stops; "
        f"{TRACEBACK}=1 in the environment shows where an error came from.\n"
    )

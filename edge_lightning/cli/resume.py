"""resume=DIR: go on with a training, a validation or a screening in its own folder, under its own configuration.

The run's overrides are read back from its record; what stands beside resume=DIR on the command line comes on top, and may
change only what does not change what was done so far. resume=auto is in resume_auto.py.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from edge_lightning.cli.ranks import is_first_process
from edge_lightning.errors import UserError

_HOW_IT_RUNS = (
    "resume",
    "cpu_threads",
    "offline",
    "engine.stall_s",
    "model.gradient_checkpointing",
    "model.compile",
    "model.micro_batch_tokens",
    "engine.max_num_seqs",
    "engine.max_batch",
    "engine.kv_cache_gib",
    "engine.gpu_memory_utilization",
    "devices",
    "num_nodes",
)
RESUMED = "resumed.yaml"  # beside Hydra's overrides.yaml: those that the run has gone on with last
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
MAY_CHANGE = {
    "fit": (
        "resume",
        "steps",
        "cpu_threads",
        "offline",
        "engine.stall_s",
        "module.largest_gradient_norm",
        "module.on_unusable_update",
        "callbacks",
        "logger",
        "evaluation",
        "optimizer.lr",
        "model.lr",
        "model.gradient_checkpointing",
        "model.compile",
        "model.micro_batch_tokens",
        "datamodule.micro_batch_tokens",
        "strategy",
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.strategy",
    ),
    "validate": _HOW_IT_RUNS,
    "screen": (*_HOW_IT_RUNS, "selection", "out"),
}


def split_resume(overrides: Iterable[str]) -> tuple[str | None, list[str]]:
    """What resume= says last, None for nothing or null, and the other overrides."""
    given, rest = None, []
    for override in overrides:
        if override.startswith("resume="):
            given = override.split("=", 1)[1].strip("'\"")
        else:
            rest.append(override)
    return (None if given in ("null", "") else given), rest


def resume_overrides(overrides: list[str], command: str) -> list[str]:
    """The overrides of the run to go on with, then these; unchanged without a resume.

    Raises:
        UserError: the folder is no training with a checkpoint, or nothing that this command has begun.
    """
    given, rest = split_resume(overrides)
    if given is None or command not in MAY_CHANGE:  # Hydra says that others have no such key
        return overrides
    folder = Path(given)
    recorded = folder / ".hydra" / "overrides.yaml"
    resumed = folder / ".hydra" / RESUMED
    begun = recorded.exists() and (folder / "config.yaml").exists()
    if not begun and (folder / "multirun.yaml").exists():
        raise UserError(f"resume={folder}: that is a multirun; go on with it by edge-lightning {command} -m resume={folder}")
    earlier_command = command_of(folder) if begun else command
    if earlier_command is None:
        raise UserError(f"{folder}/config.yaml: the configuration of a run expected, something else came; put it back")
    if earlier_command != command:
        raise UserError(
            f"resume={folder}: that folder is of edge-lightning {earlier_command}; go on with it by that command"
        )
    if command == "fit" and begun and not last_checkpoint(folder).exists():
        raise UserError(f"resume={folder}: that run ended before its first checkpoint; start it again")
    if command == "fit" and not begun:
        raise UserError(
            f"resume={folder}: the folder of a run with checkpoints/last.ckpt expected; give a folder under outputs/fit/"
        )
    if not begun:
        raise UserError(
            f"resume={folder}: the folder of a {command} that has begun expected; give a folder under outputs/{command}/"
        )
    _, earlier = split_resume(read_overrides(resumed if resumed.exists() else recorded))
    # Hydra's own record stays the first run's: what is refused later on must not stand in it.
    return [*earlier, *rest, f"resume={quoted(folder)}", f"hydra.run.dir={quoted(folder)}", "hydra.output_subdir=null"]


def last_checkpoint(folder: Path) -> Path:
    """The checkpoint that a run goes on from: the one before the last where that was taken away."""
    path = folder / "checkpoints" / "last.ckpt"
    before = path.with_name("previous.ckpt")
    return before if before.exists() and not path.exists() else path


def command_of(folder: Path) -> str | None:
    """Which command's run a folder is, by its config.yaml; None where that is of none."""
    path = folder / "config.yaml"
    config = read_yaml(path) if path.exists() else None
    return config.get("command") if isinstance(config, dict) else None


def can_go_on(folder: Path, command: str | None) -> bool:
    """Whether `resume=folder` finds what it goes on from: a training a checkpoint, another command its configuration.

    An analysis starts again.
    """
    begun = command in MAY_CHANGE and all((folder / name).exists() for name in (".hydra/overrides.yaml", "config.yaml"))
    return begun and (command != "fit" or last_checkpoint(folder).exists())


def is_finished(folder: Path) -> bool:
    return _status(folder) == "finished"


def refuse_finished(folder: Path) -> None:
    """Raise UserError where the run has nothing left to do."""
    if is_finished(folder):
        raise UserError(f"resume={folder}: an unfinished run expected, that one has done all it had to do; start a new run")


def refuse_second_run(folder: Path) -> None:
    """Raise UserError where another run has left its record: a new one would overwrite it bit by bit."""
    if is_finished(folder) or any((folder / name).exists() for name in ("metrics.csv", "evaluation")):
        unfinished = not is_finished(folder) and can_go_on(folder, command_of(folder))
        way = f"go on with it by resume={folder}" if unfinished else "move it away"
        raise UserError(f"hydra.run.dir={folder}: the record of a run is there already; {way}, or give another folder")


def refuse_changes(cfg: DictConfig, folder: Path) -> list[str]:
    """A line for each key whose value is no longer the run's own.

    Raises:
        UserError: one of them may not change; names all of these.
    """
    refused, allowed = changes(cfg, folder)
    if refused:
        raise UserError(f"resume={folder}: {'; '.join(refused.values())}; leave it as it was, or start a new run")
    return [f"resume={folder}: {line}" for line in allowed.values()]


def changes(cfg: DictConfig, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What differs from the run's own configuration: what may not, and what may. A key that follows another is left out.

    Returns:
        key -> line, twice.
    """
    before = _flat(read_yaml(folder / "config.yaml"))
    now = _flat(OmegaConf.to_container(cfg, resolve=True))
    written = _flat(OmegaConf.to_container(cfg, resolve=False))
    other = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    refused, allowed = {}, {}
    for key in sorted(other):
        source = _REFERENCE.fullmatch(str(written.get(key)))
        follows = source and source[1] in other and all(d.get(key) == d.get(source[1]) for d in (before, now))
        if not follows and key != "resume":
            kind = allowed if is_among(key, MAY_CHANGE[cfg.command]) else refused
            kind[key] = f"{key} was {before.get(key)!r} in that run, {now.get(key)!r} came"
    return refused, allowed


def is_among(key: str, names: Iterable[str]) -> bool:
    """Whether a key is one of these, or below one."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def refuse_other_data(record: dict, folder: Path) -> None:
    """Raise UserError where the problems are not those that the run in the folder has begun with."""
    before = folder / "data.json"
    try:
        known = json.loads(before.read_text())["fingerprint"] if before.exists() else record["fingerprint"]
    except (ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{before}: what a run found in its data expected, it was damaged ({reason}); put it back") from None
    if known != record["fingerprint"]:
        raise UserError(
            f"resume={folder}: the problems of {record['source']} are not those that the run began with (see its "
            "data.json); put the data back as they were, or start a new run"
        )


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a run's folder for this process, however it ends. Of several ranks the first holds it.

    Raises:
        UserError: another process holds it; two would write the same files.
    """
    if not is_first_process():
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UserError(f"{folder}: another process is at work in this folder; let it end, or give another folder") from None
    try:
        yield
    finally:
        os.close(handle)


def move_aside(folder: Path) -> Path:
    """Give a folder the first free name of name-1, name-2, ...; returns where it is now."""
    numbers = itertools.count(1)
    aside = next(path for n in numbers if not (path := folder.with_name(f"{folder.name}-{n}")).exists())
    return folder.rename(aside)


def _status(folder: Path) -> str | None:
    summary = read_summary(folder)
    return None if summary is None else summary["status"]


def read_summary(folder: Path) -> dict | None:
    """summary.json of a run, with its status; None where it has not ended. Raises UserError for a damaged one."""
    summary = folder / "summary.json"
    if not summary.exists():
        return None
    try:
        content = json.loads(summary.read_text())
        content["status"]
        return content
    except (ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{summary}: the summary of a run expected, it was damaged ({reason}); move the folder aside"
        ) from None


def read_yaml(path: Path):
    try:
        return OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system, not of the content
            raise
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path}: readable YAML expected, it was damaged ({reason}); put it back, or move the folder aside"
        ) from None


def read_overrides(path: Path) -> list[str]:
    """Those of a run, as Hydra has recorded them. Raises UserError for what is none."""
    found = read_yaml(path) or []
    if not isinstance(found, list) or not all(isinstance(override, str) for override in found):
        raise UserError(f"{path}: a list of overrides expected, something else came; put it back, or start a new run")
    return found


def quoted(path: Path | str) -> str:
    """A path as the value of an override, whatever characters Hydra's grammar has other uses for."""
    return "'" + str(path).replace("'", "\\'") + "'"


def _flat(node, prefix: str = "") -> dict:
    if not isinstance(node, dict):
        return {prefix[:-1]: node}
    return {k: v for key, value in node.items() for k, v in _flat(value, f"{prefix}{key}.").items()}

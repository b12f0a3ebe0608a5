"""resume=auto: go on with the newest unfinished run of this very command line, or begin it.

For a line that a scheduler gives again and again. Looked at is the folder of the line where it gives one (hydra.run.dir),
else those beside the one that a new run would get. What a run has left that ended before its first checkpoint is moved aside
where it is in the way, never removed. Several processes find the same, each by itself, from what lies on disk before a
step is made; the first alone says so, and moves things.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from edge_lightning.cli.ranks import is_first_process
from edge_lightning.cli.resume import can_go_on, changes, is_among, is_finished, move_aside, quoted, split_resume
from edge_lightning.errors import UserError

OF_AN_EXPERIMENT = ("steps", "optimizer.lr", "model.lr", "evaluation", "callbacks", "module")


def is_auto(overrides: list[str], command: str) -> bool:
    """Whether resume=auto is what these say last of it. Raises UserError for a command that has no such thing."""
    auto = split_resume(overrides)[0] == "auto"
    if auto and command != "fit":
        raise UserError(f"resume=auto: edge-lightning {command} goes on with resume=DIR alone; give the folder")
    return auto


def resume_auto(overrides: list[str], compose: Callable[[list[str]], DictConfig]) -> list[str]:
    """The overrides of the run to go on with, or of a new one.

    Args:
        compose: the whole configuration, Hydra's own included, of overrides.
    """
    _, rest = split_resume(overrides)
    cfg = compose(rest)
    folder = Path(cfg.hydra.run.dir)
    plain = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
    given = any(o.startswith("hydra.run.dir=") for o in rest)
    places = [folder] if given else _newest_first(folder.parent)
    found = [place for place in places if _goes_on(place, plain, own=given)]
    if found:
        _say(f"going on with {found[0]}")
        place = quoted(found[0])
        rest = [o for o in rest if not o.startswith("hydra.run.dir=")]
        return [*rest, f"resume={place}", f"hydra.run.dir={place}", "hydra.output_subdir=null"]
    early = (folder / ".hydra").is_dir() and not can_go_on(folder, "fit") and not is_finished(folder)
    if early and is_first_process() and not _at_work(folder):
        _say(f"moved aside what ended before its first checkpoint, to {move_aside(folder)}")
    _say("no unfinished run of this line; beginning one")
    return rest


def _say(line: str) -> None:
    if is_first_process():
        print(f"resume=auto: {line}", file=sys.stderr)


def _newest_first(parent: Path) -> list[Path]:
    """Folders are named by their times."""
    return sorted(parent.glob("*/"), reverse=True)


def _goes_on(folder: Path, cfg: DictConfig, *, own: bool) -> bool:
    """Whether the line may go on with what is there.

    Args:
        own: the line names the folder: then it may say another rate or number of steps, else it is another experiment.
    """
    if not can_go_on(folder, "fit") or is_finished(folder) or _at_work(folder):
        return False
    refused, allowed = changes(cfg, folder)
    return not refused and (own or not any(is_among(key, OF_AN_EXPERIMENT) for key in allowed))


def _at_work(folder: Path) -> bool:
    """Whether a process holds the folder (resume.claimed); the first of several may be ahead of the others by that."""
    if not is_first_process():
        return False
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False

"""Checkpoint files: written aside and renamed, stamped with their run, read without running anything that is in them.

The one before stays until the next is complete on disk, and after it where there is room for two. A file that is
truncated, no checkpoint, or of another run is refused by name. Left out: checksums of the values themselves.

A checkpoint in shards is a folder (torch.distributed.checkpoint), and what has its name is a link to it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

from edge_lightning.errors import UserError
from edge_lightning.training import plain
from edge_lightning.whole import on_disk, whole

STAMP = "edge_lightning"
PARTS = ("global_step", "state_dict", "optimizer_states", "lr_schedulers", "callbacks", "loops")
IN_SHARDS = ("state_dict", "optimizer_states")
SHARDS_RECORD = "meta.pt"  # Lightning's name for what stands beside the shards


def previous(path: Path) -> Path:
    """Where the one before lies: last.ckpt has previous.ckpt beside it."""
    return path.with_name("previous.ckpt")


def write(path: Path, save: Callable[[Path], None], *, keep_previous: bool = False) -> None:
    """Have `save` write to a place beside `path`, then make that `path`; there is a complete file at every moment.

    Args:
        keep_previous: what was at `path` becomes previous.ckpt.
    """
    with whole(path) as part:
        part.unlink(missing_ok=True)  # of a run that was killed while it wrote
        save(part)
        if keep_previous and path.exists():
            on_disk(part)  # a moment without last.ckpt is coming: previous.ckpt and a complete part are there then
            os.replace(path, previous(path))


def dump(content: dict[str, Any], path: Path) -> None:
    """torch.save straight to a place, with no temporary file elsewhere and no copy of all of it in memory.

    Raises:
        OSError: the disk is full, or whatever else; torch would tell of its own confusion about it.
    """
    try:
        with path.open("wb") as file:
            torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def stamp(folder: Path) -> dict[str, str]:
    """What tells a run's checkpoints from those of another: its configuration, which is written once."""
    return {"run": hashlib.blake2b((folder / "config.yaml").read_bytes(), digest_size=16).hexdigest()}


def read(path: Path, folder: Path | None = None) -> dict[str, Any]:
    """The content of a checkpoint, of one in shards what is not in them; tensors stay on disk until they are looked at.

    Args:
        folder: of the run that it has to be of; None: of any.
    Raises:
        UserError: it is truncated, no checkpoint, holds anything beside plain values and tensors, or is of another run.
    """
    try:
        file = path / SHARDS_RECORD if path.is_dir() else path
        if path.is_dir():
            plain.refuse_code(path / ".metadata")
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except OSError as error:
        raise UserError(f"{path}: a readable checkpoint expected, {error.strerror}; {_instead(path)}") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, AttributeError) as error:
        found = "no whole checkpoint" if isinstance(error, RuntimeError) else "values that only running its code would make"
        raise UserError(f"{path}: a checkpoint of this program expected, {found} came; {_instead(path)}") from error
    parts = [part for part in PARTS if part not in IN_SHARDS or not path.is_dir()]
    missing = [part for part in parts if not isinstance(content, dict) or part not in content]
    if missing:
        raise UserError(
            f"{path}: a checkpoint of this program expected, one without {', '.join(missing)} came; {_instead(path)}"
        )
    if folder is not None and content.get(STAMP) != stamp(folder):
        raise UserError(f"{path}: a checkpoint of the run in {folder} expected, one of another run came; {_instead(path)}")
    return content


def weights(path: Path) -> dict[str, Any]:
    """The state_dict of a checkpoint of any kind, in one process.

    Raises:
        UserError: as `read` does.
    """
    content = read(path)
    if not path.is_dir():
        return content["state_dict"]
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # on being a single process
            return _load_state_dict_from_keys({"state_dict"}, checkpoint_id=path)["state_dict"]
    except CheckpointException as error:
        raise unreadable(error, path) from error


def cause_of(error: CheckpointException) -> Exception:
    """What went wrong with the shards of one of the ranks. CheckpointException itself is no Exception."""
    return next(iter(error.failures.values()))[0]


def unreadable(error: CheckpointException, path: Path) -> UserError:
    """What is to be said of shards that can't be read."""
    cause: Exception | str = cause_of(error)
    if isinstance(cause, pickle.UnpicklingError):
        cause = "values that only running its code would make"
    return UserError(f"{path}: a whole checkpoint of this program expected, {cause} came; {_instead(path)}")


def free_folder(path: Path) -> Path:
    """Where the next checkpoint in shards may go: a folder that neither `path` nor the one before is a link to."""
    return next(folder for folder in _folders(path) if folder.name not in _linked(path))


def unused_folders(path: Path) -> list[Path]:
    return [folder for folder in _folders(path) if folder.exists() and folder.name not in _linked(path)]


def _folders(path: Path) -> list[Path]:
    return [path.with_name(f"{path.stem}_shards_{number}") for number in range(3)]


def _linked(path: Path) -> set[str]:
    return {os.readlink(link) for link in (path, previous(path)) if link.is_symlink()}


def _instead(path: Path) -> str:
    before = previous(path)
    if before == path or not before.exists():
        return "put a whole one back, or start a new run"
    return f"remove it, and the run goes on from {before.name} beside it"

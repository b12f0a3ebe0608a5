"""Files that are there whole or not at all, however a process or the machine ends while they are written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def part_of(path: Path) -> Path:
    """Where `whole` has it written."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; what lies there becomes `path` after the block, unless the block raises.

    What a block that raises has left is removed: on a full disk it would be in the way of everything else.
    """
    part = part_of(path)
    try:
        yield part
        on_disk(part)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # a full disk does not say whose
            error.filename = str(path)
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)
        raise
    os.replace(part, path)
    with suppress(OSError):  # some file systems of networks can't; the content is there
        _synchronize(path.parent)  # a name is on disk when its folder is


def on_disk(path: Path) -> None:
    """Wait until a file's content, or that of a folder's files, is on disk: else a rename may reach the disk before it."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            _synchronize(file)


def _synchronize(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Files that are there whole or not at all, however a process ends while it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; what lies there becomes `path` after the block, unless the block raises."""
    part = path.with_name(f"{path.name}.part")
    yield part
    os.replace(part, path)

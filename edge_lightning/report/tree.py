"""Finding run records below a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from edge_lightning.errors import UserError
from edge_lightning.report.records import METRICS, Damaged, Records, as_settings, read_run, read_yaml

Expand = Callable[[list[str]], list[list[str]]]
RECORD = ("summary.json", "config.yaml", *METRICS, os.path.join(".hydra", "overrides.yaml"))  # any of them makes a record


def read_tree(folder: Path, *, expand: Expand, only: Sequence[str] | None = None) -> Records:
    """Every record in a folder or below it, in the order of their paths.

    Args:
        expand: from the overrides of a sweep to those of its jobs.
        only: names of the folders in it that are looked into; None: all.
    Raises:
        UserError: no such folder, or no record in it.
    """
    if not folder.is_dir():
        raise UserError(f"folder={folder}: the folder of a run, a sweep or a study expected, nothing is there")
    inside = sorted(path.name for path in folder.iterdir() if path.is_dir())
    unknown = [name for name in only or () if name not in inside]
    if unknown:
        raise UserError(f"only={unknown[0]}: a folder in {folder} expected, it has {', '.join(inside) or 'none'}")
    records = Records([], [], 0, [])
    for path in _record_folders(folder, records, expand, inside if only is None else only):
        place = path.relative_to(folder).as_posix()
        before = len(records.damaged)
        run = read_run(path, place, records.damaged)
        if run is not None:
            records.runs.append(run)
        elif len(records.damaged) == before:
            records.others += 1
    if not records.runs:
        damaged = "".join(f"; {path}: {reason}" for path, reason in records.damaged[:1])
        raise UserError(f"folder={folder}: at least one record of a run expected (summary.json, metrics.csv){damaged}")
    return records


def _record_folders(folder: Path, records: Records, expand: Expand, only: Sequence[str]) -> list[Path]:
    """Folders of records; nothing is looked for inside of one. Jobs of sweeps on the way are noted."""
    found = []
    for place, inside, files in os.walk(folder):
        here = Path(place)
        inside[:] = sorted(name for name in inside if here != folder or name in only)
        if "multirun.yaml" in files:
            records.jobs += _jobs(here / "multirun.yaml", folder, records, expand)
        elif any((here / name).exists() for name in RECORD):
            found.append(here)
            inside.clear()
    return found


def _jobs(path: Path, folder: Path, records: Records, expand: Expand) -> list[dict[str, str]]:
    try:
        sweep = read_yaml(path)
        overrides = sweep["hydra"]["overrides"]["task"]
        jobs = [as_settings(job) for job in expand(overrides)]
        for job in jobs:
            int(job.get("seed", 0))  # raises for what is none
        return jobs
    except Damaged as reason:
        records.damaged.append((path.relative_to(folder).as_posix(), str(reason)))
    except (KeyError, TypeError, ValueError):
        records.damaged.append((path.relative_to(folder).as_posix(), "the overrides of a sweep expected, there are none"))
    return []

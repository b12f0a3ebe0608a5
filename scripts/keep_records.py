#!/usr/bin/env python
"""Keep the records of a sweep's finished runs small enough to commit, and put them back.

    scripts/keep_records.py SWEEP KEPT           copy what is finished and not kept yet
    scripts/keep_records.py --back KEPT SWEEP    make kept runs count as finished there, so that a sweep skips them

A kept run has summary.json and config.yaml without this machine's paths, metrics.csv.gz with six significant digits, and of
the first and the last evaluation who was right. The same run gives the same bytes; what is kept already is never changed.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from omegaconf import OmegaConf

from edge_lightning.cli.resume import move_aside

COLUMNS = ["step", "weights_version", "benchmark", "problem_id", "response_index", "correct", "formatted", "tokens"]
PART = ".part"


def finished_runs(folder: Path) -> Iterator[Path]:
    """Folders of finished runs below, by their place in it."""
    for path in sorted(folder.rglob("summary.json")):
        whole = not path.relative_to(folder).parts[0].startswith(PART)
        if whole and json.loads(path.read_text()).get("status") == "finished":
            yield path.parent.relative_to(folder)


def keep(sweep: Path, kept: Path) -> None:
    """Copy each finished run that is not kept yet, whole or not at all."""
    for place in finished_runs(sweep):
        if (kept / place).exists():
            continue
        if "=/" in str(place):
            print(f"left out: {place}: its name holds a path of this machine")
            continue
        part = fresh(kept / f"{PART}-{place.name}")
        slim(sweep / place, part)
        settle(part, kept / place)
        size = sum(path.stat().st_size for path in (kept / place).rglob("*") if path.is_file())
        print(f"kept: {place} ({size:,} bytes)")


def slim(run: Path, part: Path) -> None:
    """The record of a run, in an empty folder."""
    summary = without_paths(json.loads((run / "summary.json").read_text()))
    summary.pop("folder", None)
    (part / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    config = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
    OmegaConf.save(OmegaConf.create(without_paths(config)), part / "config.yaml")
    if (run / "metrics.csv").exists():
        (part / "metrics.csv.gz").write_bytes(packed((run / "metrics.csv").read_text()))
    steps = sorted(summary["evaluated_steps"])
    for step in dict.fromkeys([*steps[:1], *steps[-1:]]):
        for path in sorted((run / "evaluation" / f"step_{step:06d}").glob("*.parquet")):
            target = part / path.relative_to(run)
            target.parent.mkdir(parents=True, exist_ok=True)
            table = pq.read_table(path, columns=COLUMNS).replace_schema_metadata(None)
            pq.write_table(table, target, compression="zstd")


def packed(text: str) -> bytes:
    """A table of figures, rounded and compressed; the same text gives the same bytes."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(
        [rounded(cell) for cell in row] for row in csv.reader(io.StringIO(text))
    )
    whole = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=whole, mtime=0) as file:
        file.write(lines.getvalue().encode())
    return whole.getvalue()


def rounded(cell: str) -> str:
    """Six significant digits; whole numbers and what is none stay as they are."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return str(int(value)) if value.is_integer() else f"{value:.6g}"


def without_paths(node):
    """Paths into a checkout from its package on, of others their last part, whether alone or as the value of an override."""
    if isinstance(node, dict):
        return {key: without_paths(value) for key, value in node.items()}
    if isinstance(node, list):
        return [without_paths(value) for value in node]
    if not isinstance(node, str):
        return node
    return re.sub(r"^([\w.+~]+=)?(['\"]?)/(?:.*?/(?=edge_lightning/)|(?:.*/)?(?=[^/]))", r"\1\2", node)


def put_back(kept: Path, sweep: Path) -> None:
    """Copy each kept run to where the sweep would have put it; what lies there unfinished is moved aside."""
    done = set(finished_runs(sweep))
    for place in finished_runs(kept):
        if place in done:
            continue
        part = fresh(sweep / f"{PART}-{place.name}")
        shutil.copytree(kept / place, part, dirs_exist_ok=True)
        metrics = part / "metrics.csv.gz"
        if metrics.exists():
            (part / "metrics.csv").write_bytes(gzip.decompress(metrics.read_bytes()))
            metrics.unlink()
        if (sweep / place).exists():
            print(f"moved aside: {place}, now {move_aside(sweep / place).name}")
        settle(part, sweep / place)
        print(f"put back: {place}")


def fresh(part: Path) -> Path:
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    return part


def settle(part: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, target)


def main(arguments: list[str]) -> None:
    act, folders = (put_back, arguments[1:]) if arguments[:1] == ["--back"] else (keep, arguments)
    if len(folders) != 2:
        raise SystemExit(f"keep_records: two folders expected, {len(folders)} came; see {Path(__file__).name}'s first lines")
    source, target = map(Path, folders)
    if source.is_dir():  # nothing has been run or kept yet
        act(source, target)


if __name__ == "__main__":
    main(sys.argv[1:])

"""edge-lightning analyze RUN: tables, pictures and parquet files from what runs have left; nothing is generated."""

from __future__ import annotations

import os
import time
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from edge_lightning.cli.analyze import as_rich
from edge_lightning.errors import UserError
from edge_lightning.whole import whole


def analyze_records(cfg: DictConfig, folder: Path) -> None:
    """Put every analysis of records to the runs in cfg.folder; what is written is in cfg.out."""
    from edge_lightning.analysis.collected import sources
    from edge_lightning.analysis.mismatch import mismatch
    from edge_lightning.analysis.reflection import reflection
    from edge_lightning.analysis.training import provenance_effects, trajectories, zero_variance
    from edge_lightning.evaluation.progress import Display
    from edge_lightning.training.summary import write_json
    from edge_lightning.versions import git_commit, versions

    start, place = time.time(), Path(str(cfg.folder))
    if not place.is_dir():
        raise UserError(f"folder={place}: the folder of a run, a sweep or an analysis expected, nothing is there")
    out = place / "analysis" if cfg.out is None else Path(str(cfg.out))
    found, display = sources(place), Display()
    display.start()
    try:
        with display.counted("runs read", len(found)) as advance:
            collected = []
            for run in found:
                collected.append((run, list(run.answers())))
                advance(len(collected))
        asked = (lambda: reflection(collected), lambda: mismatch(collected))
        trained = (lambda: trajectories(found), lambda: zero_variance(found), lambda: provenance_effects(found))
        every = []
        with display.counted("analyses", len(asked) + len(trained)) as advance:
            for analysis in (*asked, *trained):
                every.append(analysis())
                advance(len(every))
    finally:
        display.stop()
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 200)  # a file has no edge to break lines at
    figures, files, text = {}, [], [f"# What {place.resolve().name} tells\n"]
    for findings in every:
        for title, table in findings.tables.items():
            console.print(as_rich(table.header, table.rows, title=title))
            text += [f"## {title}\n", table.markdown(), ""]
        for note in findings.notes:
            console.print(note, markup=False, soft_wrap=True)
            text += [f"{note}\n"]
        for name, content in findings.files.items():
            with whole(out / name) as part:
                part.write_bytes(content)
            files.append(name)
            text += [f"![{name}]({name})\n"] if name.endswith(".png") else []
        figures |= findings.figures
    with whole(out / "analysis.md") as part:
        part.write_text("\n".join(text))
    write_json(
        out / "summary.json",
        {
            "command": "analyze_records",
            "runs": [run.place for run in found],
            "figures": figures,
            "seconds": time.time() - start,
            "versions": versions(),
            "git_commit": git_commit(),
        },
    )
    told = min(str(out), os.path.relpath(out), key=len)
    console.print(f"files     {told}: analysis.md, summary.json, {', '.join(files)}", markup=False, soft_wrap=True)

"""edge-lightning inspect: a group of a training side by side, token by token."""

from __future__ import annotations

import os
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from edge_lightning.cli.resume import read_summary
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.whole import whole

WIDTH = 160  # where there is no terminal


def inspect(cfg: DictConfig, folder: Path) -> None:
    """Show a group of the run in cfg.folder, and write the page."""
    from edge_lightning.cli.schema import check_call
    from edge_lightning.data.sources import names_shown
    from edge_lightning.inspection.page import group_data, page, spread_steps
    from edge_lightning.inspection.rollouts import groups_of, read_groups, read_rows, recorded_steps, rollout_folder
    from edge_lightning.inspection.terminal import show
    from edge_lightning.inspection.tokens import Reader

    check_call(options, {"step": cfg.step, "steps_on_page": cfg.steps_on_page}, "")
    require_at_least_one("steps_on_page", cfg.steps_on_page)
    run = Path(str(cfg.folder))
    rollouts = rollout_folder(run)
    steps = recorded_steps(rollouts)
    step = steps[-1] if cfg.step is None else cfg.step
    if step not in steps:
        raise UserError(f"step={step}: one of the steps that are on disk expected, {steps[0]} to {steps[-1]}")
    groups = groups_of(read_rows(rollouts, step))
    named = None if cfg.problem is None else str(cfg.problem)
    chosen = next((g for g in groups if g.problem_id == named or (named is None and g.corrected)), None)
    if chosen is None and named is not None:
        known = names_shown(g.problem_id for g in groups)
        raise UserError(f"problem={names_shown([named])}: one of step {step} expected: {known}")
    chosen, reader = chosen or groups[0], Reader(run)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    show(console, groups, chosen, reader)

    shown = spread_steps(steps, cfg.steps_on_page, step)
    content = [group_data(group, reader) for group in read_groups(rollouts, shown)]
    about = {"name": run.resolve().name, **_told(run, steps, shown)}
    out = run / "inspect.html" if cfg.out is None else Path(str(cfg.out))
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"out={out}: a file in a folder that is there expected; give another one")
    with whole(out) as part:
        part.write_text(page(about, content, step=step, problem=chosen.problem_id), encoding="utf-8")
    place = min(str(out), os.path.relpath(out), key=len)
    console.print(f"page      {place}: {len(content)} groups of {len(shown)} steps", markup=False, soft_wrap=True)


def options(step: int | None, steps_on_page: int) -> None:
    """The types of the keys."""


def _told(run: Path, steps: list[int], shown: list[int]) -> dict[str, str]:
    """The run's name where its summary has one, and a line on it."""
    about = read_summary(run) or {"status": "under way, or killed"}
    some = "" if len(shown) == len(steps) else f", of which {len(shown)} are here"
    told = f"{about['status']}; {len(steps)} steps on disk, {steps[0]} to {steps[-1]}{some}"
    return {"told": told} | ({"name": about["name"]} if "name" in about else {})

"""edge-lightning report: from the records of runs to tables, pictures and one page."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_lightning.errors import printable, require_at_least_one


def report(cfg: DictConfig, folder: Path) -> None:
    """Report on cfg.folder; what is written is in cfg.out."""
    from edge_lightning.cli.schema import check_call
    from edge_lightning.report.document import document
    from edge_lightning.report.tree import read_tree
    from edge_lightning.report.write import write

    given = {"baseline": cfg.baseline, "running_mean_steps": cfg.running_mean_steps}
    only = None if cfg.only is None else OmegaConf.to_container(OmegaConf.create({"only": cfg.only}))["only"]
    check_call(options, {**given, "only": only}, "")
    require_at_least_one("running_mean_steps", cfg.running_mean_steps)
    source = Path(str(cfg.folder))
    out = source / "report" if cfg.out is None else Path(str(cfg.out))
    records = read_tree(source, expand=sweep_jobs, only=only)
    whole = document(
        records,
        title=f"Report on {shown(source)}",
        command=command_line(cfg),
        baseline=cfg.baseline,
        window=cfg.running_mean_steps,
    )
    print_report(whole, records, write(whole, out))


def options(baseline: str, running_mean_steps: int, only: list[str] | None) -> None:
    """The types of the keys."""


def sweep_jobs(overrides: list[str]) -> list[list[str]]:
    """The overrides of each job of a sweep, as Hydra's own sweeper splits them.

    Raises:
        Damaged: they are none, or name options by a pattern, which takes the configuration of that time.
    """
    from edge_lightning.report.records import Damaged

    try:
        parsed = OverridesParser.create().parse_overrides(overrides)
        return [list(job) for job in BasicSweeper.split_arguments(parsed, None)[0]]
    except HydraException as error:
        raise Damaged(f"the overrides of a sweep expected; {' '.join(str(error).split())[:160]}") from None


def shown(path: Path) -> str:
    """A path as it is told: relative where it is below the working directory, else its last part."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here).as_posix() if whole.is_relative_to(here) and whole != here else whole.name


def command_line(cfg: DictConfig) -> str:
    """What makes the same report again."""
    words = ["edge-lightning", "report", shown(Path(str(cfg.folder)))]
    words += [f"only=[{','.join(cfg.only)}]"] if cfg.only is not None else []
    words += [f"out={shown(Path(str(cfg.out)))}"] if cfg.out is not None else []
    words += [f"baseline={cfg.baseline}"] if cfg.baseline != "grpo" else []
    words += [f"running_mean_steps={cfg.running_mean_steps}"] if cfg.running_mean_steps != 10 else []
    return shlex.join(words)


def print_report(whole, records, files: list[Path]) -> None:
    """A short table a section, what is missing, and where the files are."""
    from edge_lightning.report.records import FINISHED
    from edge_lightning.report.tables import NOTHING, interval_text, mean_sd, number_p

    def say(line: str) -> None:
        console.print(printable(line), markup=False, soft_wrap=True)

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 120)  # a file has no edge to break long labels at
    for section, found, baseline, why in whole.results:
        for name, accuracies in found.accuracies.items():
            table = Table(title=escape(printable(f"{section.name}: {name}")), title_justify="left")
            table.add_column("method", overflow="fold")
            for heading in ("seeds", "accuracy", "difference", "p (Holm)"):
                table.add_column(heading, justify="right", no_wrap=True)
            differences = found.differences.get(name, {})
            for label, it in accuracies.items():
                d = differences.get(label)
                against = (f"{d.mean:+.3f} {interval_text(d.interval)}", number_p(d.p_holm)) if d else (NOTHING, NOTHING)
                table.add_row(*map(escape, (label, f"{len(it.by_seed)}", mean_sd(it.mean, it.sd), *against)))
            console.print(table)
        if why:
            say(f"{section.name}: {why}")
        elif baseline is not None and any(found.differences.values()):
            say(f"difference: paired, to {baseline.label}, with its 95 % interval; p: sign-flip test over problems")
        absent = [(m, seed) for m in section.methods.values() for seed in sorted({*m.others, *m.missing})]
        if absent:
            named = ", ".join(f"{m.label} seed {seed} {m.status(seed)}" for m, seed in absent)
            say(f"{section.name}: not in it: {named}")
    finished = sum(run.status == FINISHED for run in records.runs)
    say(f"runs      {finished} finished of {len(records.runs)}")
    for path, reason in records.damaged:
        say(f"damaged   {path}: {reason}")
    place = min(str(files[-1].parent), os.path.relpath(files[-1].parent), key=len)
    say(f"files     {place}: report.md, report.html, {len(files) - 2} pictures")

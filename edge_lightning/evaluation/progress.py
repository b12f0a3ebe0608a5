"""The one live display of a process, on stderr: the steps of a training and the benchmark that is being put.

On a terminal bars, which one display draws, so that they never fight over the lines; elsewhere plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from edge_lightning.evaluation.benchmark import AVERAGE, Exam
from edge_lightning.evaluation.suite import Advance

SPEED_OVER_S = 3600.0  # that the time left is told from: rich's 30 s hold no two steps of a slow run, and so tell nothing


class Display:
    """Bars on a terminal; elsewhere the lines alone.

    Args:
        console: None for stderr.
        seconds_between_lines: of a benchmark under way, where there is no terminal.
        hidden: show nothing: another process does.
    """

    def __init__(self, console: Console | None = None, *, seconds_between_lines: float = 30.0, hidden: bool = False):
        self.console = console or Console(stderr=True, quiet=hidden)
        self.seconds_between_lines = seconds_between_lines
        self.live = self.console.is_terminal and not hidden
        wide = self.console.width >= 100
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20 if wide else 5),
            MofNCompleteColumn(),
            *([TimeElapsedColumn()] if wide else []),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            console=self.console,
            speed_estimate_period=SPEED_OVER_S,
            expand=True,  # the figures get what is left of a line, and are cut before anything else is
            disable=not self.live,
        )

    def start(self) -> None:
        self.progress.start()

    def stop(self) -> None:
        """Leave the terminal to others. Safe to call twice."""
        self.progress.stop()

    def line(self, text: str) -> None:
        """A line of its own, above the bars."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def bar(self, description: str, total: int, *, completed: int = 0) -> TaskID:
        return self.progress.add_task(description, total=total, completed=completed, figures="")

    @contextmanager
    def benchmark(self, exam: Exam, step: int) -> Iterator[Advance]:
        """A bar for as long as the benchmark takes, or a line now and then."""
        name = exam.benchmark.name
        with self.counted("problems", len(exam.problems), bar=name, line=f"step {step}  {name}  ") as advance:
            yield advance

    @contextmanager
    def counted(self, what: str, total: int, *, bar: str | None = None, line: str = "") -> Iterator[Advance]:
        """A bar for as long as something takes, or a line now and then.

        Args:
            what: is counted, of which there are `total`.
            bar: in front of the bar; None: `what`.
            line: in front of a line.
        """
        task, told = self.bar(bar or what, total), time.monotonic()

        def advance(done: int) -> None:
            nonlocal told
            self.progress.update(task, completed=done)
            if not self.live and done < total and time.monotonic() - told >= self.seconds_between_lines:
                self.line(f"{line}{done:,}/{total:,} {what}")
                told = time.monotonic()

        try:
            yield advance
        finally:
            self.progress.remove_task(task)
            self.progress.refresh()  # what is printed next is not to bring it back


def outcome_line(step: int, name: str, metrics: dict[str, float]) -> str:
    """One line on a finished benchmark: `step 0  smoke  60 x 8  pass@1 .067 [.019, .127]`."""
    size = f"{metrics['problems']:.0f} x {metrics['samples']:.0f}" if "samples" in metrics else f"{metrics['problems']:.0f}"
    accuracy, low, high = (f"{metrics[f'accuracy{end}']:.3f}" for end in ("", "_low", "_high"))
    return f"step {step}  {name}  {size}  pass@1 {accuracy} [{low}, {high}]"


def average_line(step: int, results: dict[str, float]) -> str | None:
    """The same of all benchmarks together; None where there are fewer than two."""
    over_all = {key.removeprefix(f"{AVERAGE}/"): value for key, value in results.items() if key.startswith(f"{AVERAGE}/")}
    return outcome_line(step, AVERAGE, over_all) if over_all else None

"""What one sees of an evaluation: bars or lines while it runs, tables after it."""

import io

import pytest
from rich.console import Console

from edge_lightning.cli.table import tables
from edge_lightning.evaluation.benchmark import Benchmark, Exam
from edge_lightning.evaluation.metrics import named, summarize
from edge_lightning.evaluation.progress import Display, average_line, outcome_line
from edge_lightning.types import Problem

BENCHMARK = Benchmark(
    name="smoke", problems=None, prompt_limit=90, samples=4, temperature=0.7, top_p=0.9, response_limit=20, k=(1, 2)
)
EXAM = Exam(BENCHMARK, [Problem(f"p{n}", "?", ("1",)) for n in range(60)], prompt=None)


def shown(*, terminal, width=80, seconds=0.0):
    """What a benchmark of 60 problems in 3 chunks leaves on the screen, beside a training's bar."""
    file = io.StringIO()
    display = Display(
        Console(file=file, force_terminal=terminal, width=width, color_system=None), seconds_between_lines=seconds
    )
    bar = display.bar("steps", 150)
    display.start()
    display.progress.update(bar, completed=17, figures="reward 0.719  own accuracy 0.000  entropy 0.157")
    with display.benchmark(EXAM, 17) as advance:
        for done in (0, 20, 40, 60):
            advance(done)
        display.progress.refresh()
    display.line("step 17  smoke  60 x 4")
    display.stop()
    display.stop()  # twice does no harm
    return file.getvalue()


def test_without_a_terminal_there_are_lines_and_no_bars():
    assert shown(terminal=False).splitlines() == [
        "step 17  smoke  0/60 problems",
        "step 17  smoke  20/60 problems",
        "step 17  smoke  40/60 problems",
        "step 17  smoke  60 x 4",
    ]


def test_lines_come_no_oftener_than_they_should():
    assert shown(terminal=False, seconds=1000.0) == "step 17  smoke  60 x 4\n"


@pytest.mark.parametrize("width", [80, 120])
def test_both_bars_stand_in_one_display_and_nothing_of_them_is_cut(width):
    text = shown(terminal=True, width=width)
    lines = [line for line in text.replace("\r", "\n").splitlines() if "━" in line or "╸" in line or "╺" in line]
    assert any("steps" in line and "17/150" in line and "entropy 0.157" in line for line in lines)
    assert any("smoke" in line and "60/60" in line for line in lines)
    assert "…" not in text
    last = text[text.rindex("step 17  smoke  60 x 4") :]
    assert "60/60" not in last  # the benchmark's bar is gone, the training's stays
    assert "17/150" in last


def test_the_time_left_is_told_of_steps_of_four_minutes():
    display, clock = Display(Console(file=io.StringIO(), force_terminal=True)), [0.0]
    display.progress.get_time = lambda: clock[0]
    bar = display.bar("steps", 10)
    for done in range(3):
        clock[0] = 240.0 * done
        display.progress.update(bar, completed=done)
    assert display.progress.tasks[0].time_remaining == 8 * 240


def rows_of(*problems):
    return [
        {
            "problem_id": name,
            "response_index": i,
            "correct": mark == "1",
            "answer": mark,
            "formatted": True,
            "finish_reason": "stop",
            "tokens": 30,
        }
        for name, marks in problems
        for i, mark in enumerate(marks)
    ]


ROWS = {"aime": rows_of(("a", "1000")), "olympiad_bench": rows_of(*((f"o{n}", "1100") for n in range(675)))}
METRICS = named(ROWS, {name: summarize(rows, samples=4, k=(1, 2, 4)) for name, rows in ROWS.items()})


def test_a_finished_benchmark_is_a_line_and_so_is_the_average():
    figures = {key.split("/")[1]: value for key, value in METRICS.items() if key.startswith("aime/")}
    assert outcome_line(3, "aime", figures) == "step 3  aime  1 x 4  pass@1 0.250 [0.250, 0.250]"
    accuracy = (0.25 + 675 * 0.5) / 676
    assert average_line(3, METRICS).startswith(f"step 3  average  676 x 4  pass@1 {accuracy:.3f} [")
    assert average_line(3, {"aime/accuracy": 0.25}) is None


def printed(summary):
    file = io.StringIO()
    console = Console(file=file, width=80, color_system=None)
    for table in tables(summary):
        console.print(table)
    return [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in file.getvalue().splitlines() if line.startswith("│")
    ]


def test_the_table_of_a_validation_has_a_row_a_benchmark_and_the_averages_below_in_80_columns():
    rows = printed({"command": "validate", "name": "n", "status": "finished", "metrics": METRICS})
    assert rows == [
        ["pass@1, aime (1 x 4)", "0.250 [0.250, 0.250]"],
        ["pass@2", "0.500"],  # 1 - C(3,2)/C(4,2)
        ["pass@4", "1.000"],
        ["pass@1, olympiad_bench (675 x 4)", "0.500 [0.500, 0.500]"],
        ["pass@2", "0.833"],  # 1 - 1/6
        ["pass@4", "1.000"],
        ["pass@1, average (676 x 4)", rows[6][1]],
        ["pass@1, mean of benchmarks", "0.375"],
        ["pass@2", "0.833"],
        ["pass@4", "1.000"],
        ["aime", "100 %", "0 %", "30", "0.406", "0.500"],  # 1000: 3 of 6 pairs agree
        ["olympiad_bench", "100 %", "0 %", "30", "0.500", "0.333"],  # 1100: 2 of 6, log 2 / log 4
        ["average", "100 %", "0 %", "30", "0.500", "0.334"],
    ]
    assert rows[6][1].startswith("0.500 [0.499, ")


def test_the_table_of_a_training_has_before_and_after():
    summary = {"command": "fit", "name": "n", "status": "finished", "steps": 3, "before": METRICS, "after": None}
    rows = printed(summary)
    assert rows[0] == ["pass@1, aime (1 x 4)", "0.250 [0.250, 0.250]", "-"]
    assert rows[7] == ["pass@1, mean of benchmarks", "0.375", "-"]
    assert len(rows) == 10
    ended = printed({**summary, "after": {**METRICS, "average/accuracy_of_benchmarks": 0.5}})
    assert ended[7] == ["pass@1, mean of benchmarks", "0.375", "0.500"]
    assert ended[10] == ["aime", "100 %", "0 %", "30", "0.406", "0.500"]

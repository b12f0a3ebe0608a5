"""What scripts/soak calls growth: a leak is found, and noise, a warm-up and a bounded cache are none."""

import os
import runpy
import threading
import time
from pathlib import Path

import numpy as np
import pytest

SOAK = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))
HOURS = np.linspace(0, 2 / 3, 480)


def found(name, values):
    return SOAK["series"](name, HOURS, values)


def test_a_slope_is_found_with_its_interval():
    noise = np.random.default_rng(0).normal(0, 5, 480)
    leak = found("memory held, MiB", 700 + 300 * HOURS + noise)  # 160 MiB in what is looked at
    assert leak.grows
    assert leak.change[1] < 300 < leak.change[2]
    assert leak.change[2] - leak.change[1] < 30
    assert found("open files", np.floor(60 + 6 * HOURS)).grows


@pytest.mark.parametrize(
    "values",
    [
        700 + np.random.default_rng(1).normal(0, 5, 480),
        np.where(HOURS < 0.1, 300 + 4000 * HOURS, 700.0),  # imports and caches
        700 + 20 * HOURS,  # 11 MiB of 700
        700 - 300 * HOURS,
        np.where(np.arange(480) % 7, 840 + 100 * HOURS, 664.0),  # what the C library keeps, and gives back now and then
    ],
    ids=["noise", "a warm-up", "little", "it shrinks", "freed"],
)
def test_what_does_not_grow(values):
    assert not found("memory held, MiB", values).grows


def test_a_peak_is_a_mean_of_its_part():
    values = np.where(np.arange(480) % 2, 900.0, 1000.0)
    assert found("memory at its peak, MiB", values).values == pytest.approx(np.full(20, 950), abs=3)
    assert found("memory held, MiB", values).values == pytest.approx(np.full(20, 900))


def test_a_process_is_counted_whole():
    before = SOAK["sample"](os.getpid(), 0)
    kept = b"x" * 2**26
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    with Path(__file__).open():
        after = SOAK["sample"](os.getpid(), 0)
    stop.set()
    assert after["memory held, MiB"] - before["memory held, MiB"] == pytest.approx(64, abs=16), len(kept)
    assert after["threads"] - before["threads"] == 3
    assert after["open files"] - before["open files"] == 1


def test_what_a_step_needs_is_told_from_what_is_held():
    """64 MiB that come and go in turn of .2 s, beside what the process has."""
    done = threading.Event()

    def steps():
        while not done.is_set():
            needed = b"x" * 2**26
            time.sleep(0.2)
            assert len(needed) == 2**26
            del needed
            time.sleep(0.2)

    thread = threading.Thread(target=steps)
    thread.start()
    seen = SOAK["sample"](os.getpid(), 2.0)
    done.set()
    thread.join()
    assert seen["memory at its peak, MiB"] - seen["memory held, MiB"] == pytest.approx(64, abs=16)


def test_the_report_is_a_table_with_a_row_for_each():
    series = [found("memory held, MiB", 700 + 300 * HOURS), found("threads", np.full(480, 9.0))]
    text = SOAK["report"](series, 1234, 40.0, ["engine=hf"])
    assert text.startswith("`scripts/soak 40 engine=hf`: 1234 steps; 20 parts behind the first fifth:")
    assert "| memory held, MiB | 817.1 | 740.1 | 892.5 | +300 [+300, +300] | yes |" in text
    assert "| threads | 9 | 9 | 9 | +0 [+0, +0] | no |" in text

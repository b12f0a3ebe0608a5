"""Kill -9 at random moments of whole runs, and go on each time.

    python -m tests.faults.random_kills [KILLS] [SEED] [OVERRIDE...]

A run is started again and again by the same line with resume=auto, in a process of its own, and killed after a random time,
three of four times in its training and else on the way there, until it has been killed so often; then it may end. It has
to equal a run that nobody disturbed: weights, figures, responses, evaluations, what tensorboard shows.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.child import said_by, start_child
from tests.run_record import SMALL, assert_same_run, metrics, points, rollouts

STEPS = 60
LINE = (
    "engine=hf",
    *SMALL,
    "optimizer.lr=1e-3",
    "schedule=linear",
    "evaluation.every_n_steps=10",
    "evaluation.benchmarks.smoke.problems=4",
    "evaluation.benchmarks.smoke.samples=4",
    "evaluation.benchmarks.smoke.k=[1,4]",
    "module.entropy_every_n_steps=1",
    "callbacks.record.responses_every_n_steps=1",
    "callbacks.last_checkpoint.every_n_steps=3",
)


def trains(folder: Path, before: int | None) -> bool:
    """Whether a run has come to its training: metrics.csv is written anew then."""
    return _number(folder) not in (None, before)


def _number(folder: Path) -> int | None:
    path = folder / "metrics.csv"
    return path.stat().st_ino if path.exists() else None


def main(kills: int, seed: int, overrides: list[str]) -> None:
    rng = random.Random(seed)
    place = Path(tempfile.mkdtemp(prefix="random_kills_"))
    line = (*LINE, f"steps={STEPS}", *overrides)
    begun = time.monotonic()
    run = start_child(place / "unbroken", line)
    while not trains(place / "unbroken", None):
        time.sleep(0.02)
    start_s = time.monotonic() - begun
    run.join()
    assert run.exitcode == 0, said_by(place / "unbroken")
    training_s = time.monotonic() - begun - start_s
    folder = place / "killed"
    for kill in range(1, kills + 1):
        before = _number(folder)
        run = start_child(folder, (*line, "resume=auto"))
        on_the_way = rng.random() < 0.25
        if on_the_way:
            run.join(rng.uniform(0, start_s))
        else:
            while run.exitcode is None and not trains(folder, before):
                time.sleep(0.02)
            run.join(rng.uniform(0, 2 * training_s / kills))
        if run.exitcode is not None:
            assert run.exitcode == 0, said_by(folder)
            print(f"the run has ended after {kill - 1} kills", flush=True)
            break
        run.kill()
        run.join()
        steps = len(metrics(folder)) if (folder / "metrics.csv").exists() else 0
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.part"))
        where = "on the way to training" if on_the_way else "in training"
        print(f"kill {kill}, {where}: {steps} rows of metrics, unfinished files: {', '.join(left) or 'none'}", flush=True)
    else:
        run = start_child(folder, (*line, "resume=auto"))
        run.join()
        assert run.exitcode == 0, said_by(folder)
    assert_same_run(place / "unbroken", folder)
    assert [int(row["step"]) for row in metrics(folder)] == list(range(STEPS))
    assert rollouts(folder)["step"].to_pylist() == [step for step in range(STEPS) for _ in range(8)]
    assert points(folder)["advantage/of_responses"], "histograms expected"
    print(f"{STEPS} steps, {STEPS * 8} responses: equal to the unbroken run to the last bit", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:])

"""Kill -9 at random moments of whole runs, and go on each time.

    python -m tests.faults.random_kills [KILLS] [SEED] [OVERRIDE...]

A run is started again and again by the same line with resume=auto, in a process of its own, and killed after a random time,
until it has been killed so often; then it may end. It has to equal a run that nobody disturbed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.run_record import SMALL, assert_same_run, metrics, rollouts

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
    "callbacks.last_checkpoint.every_n_steps=3",
)


def start(folder: Path, *overrides: str) -> subprocess.Popen:
    line = [sys.executable, "-m", "edge_lightning", "fit", *LINE, f"hydra.run.dir={folder}", *overrides]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def main(kills: int, seed: int, overrides: list[str]) -> None:
    rng = random.Random(seed)
    place = Path(tempfile.mkdtemp(prefix="random_kills_"))
    overrides = ["steps=60", *overrides]
    begun = time.monotonic()
    unbroken = start(place / "unbroken", *overrides)
    assert unbroken.wait() == 0, unbroken.stderr.read()
    whole_s = time.monotonic() - begun
    folder, done = place / "killed", 0
    while done < kills:
        run = start(folder, "resume=auto", *overrides)
        first = time.monotonic()
        while not (folder / "metrics.csv").exists() and run.poll() is None:  # a kill in the start tells nothing
            time.sleep(0.05)
        wait_s = rng.uniform(0, (whole_s + time.monotonic() - first) / kills * 2)
        try:
            run.wait(wait_s)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            done += 1
            steps = len(metrics(folder)) if (folder / "metrics.csv").exists() else 0
            left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.part"))
            print(f"kill {done}: {steps} rows of metrics, unfinished files: {', '.join(left) or 'none'}", flush=True)
            continue
        assert run.returncode == 0, run.stderr.read()
        print(f"the run has ended after {done} kills", flush=True)
        break
    if done == kills:
        last = start(folder, "resume=auto", *overrides)
        assert last.wait() == 0, last.stderr.read()
    assert_same_run(place / "unbroken", folder)
    steps = [int(row["step"]) for row in metrics(folder)]
    assert steps == list(range(len(steps)))
    print(f"{done} kills, {len(steps)} steps, {len(rollouts(folder))} responses: equal to the unbroken run to the last bit")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:])

"""Kill -9 at each stage of a step: the run that goes on ends as the unbroken one, to the last bit."""

from __future__ import annotations

import random
import signal

import pytest

from tests.faults.child import run_child
from tests.faults.stages import STAGES, die_at
from tests.run_record import TINY, assert_same_run, metrics, rollouts

pytestmark = pytest.mark.slow

STEPS = len(STAGES) + 1
EVALUATED = 9  # and the last one
LINE = (
    *TINY,
    f"steps={STEPS}",
    "schedule=linear",
    "evaluation.before=false",
    f"evaluation.every_n_steps={EVALUATED}",
    "evaluation.benchmarks.smoke.samples=1",
    "evaluation.benchmarks.smoke.k=[1]",
    "callbacks.record.responses_every_n_steps=1",
    "datamodule.micro_batch_tokens=64",
    "module.entropy_every_n_steps=1",
    "module.gradient_shares_every_n_steps=null",
    "callbacks.last_checkpoint.every_n_steps=1",
)


def test_a_run_that_is_killed_at_each_stage_in_turn_equals_the_unbroken_one(tmp_path):
    assert run_child(tmp_path / "unbroken", LINE)[0] == 0
    folder = tmp_path / "killed"
    stages = sorted(STAGES)
    random.Random(8).shuffle(stages)  # each is met behind another than its neighbour in the list
    # Tensorboard takes the first mark of a restart for a start, so the first run has to leave events to be forgotten.
    for stage, place in (("half an event", 0), ("half an evaluation", EVALUATED - 2)):
        here = stages.index(stage)
        stages[here], stages[place] = stages[place], stages[here]
    for step, stage in enumerate(stages, start=1):
        status, said = run_child(folder, (*LINE, "resume=auto"), die_at, stage, step)
        assert status == -signal.SIGKILL, (stage, said)
    for stage, step in (("half an export", STEPS - 1), ("exported", -1)):  # no step is left to be made the second time
        status, said = run_child(folder, (*LINE, "resume=auto"), die_at, stage, step)
        assert status == -signal.SIGKILL, (stage, said)
        assert (folder / "checkpoints" / "hf").exists() is (stage == "exported")
    assert not (folder / "summary.json").exists()
    status, said = run_child(folder, (*LINE, "resume=auto"))
    assert status == 0, said
    assert f"resume=auto: going on with {folder}" in said
    assert_same_run(tmp_path / "unbroken", folder)
    assert [int(row["step"]) for row in metrics(folder)] == list(range(STEPS))
    assert rollouts(folder)["step"].to_pylist() == [step for step in range(STEPS) for _ in range(8)]
    left = {path.name for path in folder.rglob("*.part")}
    assert not left, left

"""What the progress of a training shows, step by step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edge_lightning.cli.table import print_summary
from edge_lightning.training.progress import ProgressCallback

SAMPLED = {"reward/mean": 0.25, "accuracy/sampled": 0.125, "tokens/sampled": 9.0, "tokens/regenerated": 0.0}
SAMPLED |= {"group/zero_variance_sampled": 0.75}


def lines(*steps: dict[str, float], left: float | None = None) -> list[str]:
    """What stands on a stream that is no terminal, a line for each step."""
    shown: list[str] = []
    progress = SimpleNamespace(update=lambda task, **_: None, tasks=[SimpleNamespace(id=0, time_remaining=left)])
    display = SimpleNamespace(live=False, line=shown.append, progress=progress, start=lambda: None, bar=lambda *_, **__: 0)
    record = SimpleNamespace(latest={})
    callback = ProgressCallback(record=record, display=display, line_every_n_steps=1)
    trainer = SimpleNamespace(datamodule=SimpleNamespace(steps=len(steps)), global_step=0, is_global_zero=True)
    callback.on_train_start(trainer, None)
    for number, record.latest in enumerate(steps):
        callback.on_train_batch_end(trainer, None, None, SimpleNamespace(step=number), number)
    return shown


def test_the_latest_entropy_stays_until_the_next():
    with_entropy = [SAMPLED | {"entropy/mean": value} for value in (0.5, 0.25)]
    assert lines(SAMPLED, with_entropy[0], SAMPLED, with_entropy[1]) == [
        "step 1/4  reward 0.250  own accuracy 0.125  collapsed 0.750  entropy -",
        "step 2/4  reward 0.250  own accuracy 0.125  collapsed 0.750  entropy 0.500",
        "step 3/4  reward 0.250  own accuracy 0.125  collapsed 0.750  entropy 0.500",
        "step 4/4  reward 0.250  own accuracy 0.125  collapsed 0.750  entropy 0.250",
    ]


def test_the_time_that_is_left_is_told():
    assert lines(SAMPLED, left=3725.9)[0].endswith("entropy -  1:02:05 left")


def test_a_step_without_sampling_shows_its_loss():
    taught = {"reward/mean": 1.0, "tokens/sampled": 0.0, "tokens/regenerated": 0.0, "loss/value": 1.5}
    assert lines(taught) == ["step 1/1  loss 1.500"]


@pytest.mark.parametrize(("steps", "told"), [(3, True), (0, False)])
def test_where_one_goes_on_to_look_is_told_at_the_end(tmp_path, capsys, steps, told):
    print_summary(
        {"command": "fit", "name": "run", "status": "finished", "steps": steps, "seconds": {"whole_run": 1.0}}
        | {"before": {}, "after": {}},
        tmp_path,
    )
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("curves ") and line.endswith(f"--logdir {tmp_path}") for line in lines)
    assert any(line.startswith("groups ") and line.endswith(f" inspect {tmp_path}") for line in lines) is told

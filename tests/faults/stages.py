"""The stages of a step at which a run can be made to die. Nothing of it is in the product: functions are wrapped from here.

`die_at(stage, step)` makes this process kill itself with SIGKILL, so it is for processes of their own. A function that is no
longer there is an AttributeError, not a stage that is never reached: the harness asserts that the process was killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import lightning as L
import torch
from transformers import PreTrainedTokenizerBase

from edge_lightning.cli import fit
from edge_lightning.evaluation.record import EvaluationFile
from edge_lightning.experience import Pipeline
from edge_lightning.training import checkpoint_files, record, record_callback
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.step_loss import StepLoss

Act = Callable[[], None]


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Now:
    """The step that is being made; -1 before the first."""

    step = -1


def _around(owner: object, name: str, *, before: Callable | None = None, after: Callable | None = None) -> None:
    plain = getattr(owner, name)

    @wraps(plain)
    def wrapped(*args, **kwargs):
        if before is not None:
            before(*args, **kwargs)
        result = plain(*args, **kwargs)
        if after is not None:
            after()
        return result

    setattr(owner, name, wrapped)


def do_at(stage: str, step: int, act: Act) -> None:
    """Have `act` called once at a stage of a step."""
    _around(Pipeline, "fill", before=lambda self, rollout, **_: setattr(_Now, "step", rollout.step))
    done: list[int] = []

    def at_the_step(*_: object, **__: object) -> None:
        if _Now.step == step and not done:
            done.append(step)
            act()

    (STAGES | AT_THE_END)[stage](at_the_step)


def die_at(stage: str, step: int) -> None:
    do_at(stage, step, kill)


def _second_grading(act: Act) -> None:
    """Correction stands between the two."""
    calls: list[int] = []

    def count(*_: object) -> None:
        calls.append(_Now.step)
        if calls.count(_Now.step) == 2:
            act()

    _around(Pipeline, "_grade", before=count)


def _between_micro_batches(act: Act) -> None:
    plain = StepLoss.__call__

    def pieces(self, *args, **kwargs):
        for number, piece in enumerate(plain(self, *args, **kwargs)):
            if number == 1:
                act()
            yield piece

    StepLoss.__call__ = pieces


def _half_a_parquet(act: Act) -> None:
    def write(table, part, **_: object) -> None:
        Path(part).write_bytes(b"PAR1 the beginning of a file")
        act()
        plain(table, part, **_)

    plain, record.pq.write_table = record.pq.write_table, write


def _half_a_row(act: Act) -> None:
    def append(self, step, metrics) -> None:
        with self.path.open("a") as file:
            file.write(f"{step},0.1")
        act()
        self.cut_from(step)
        plain(self, step, metrics)

    plain, record.MetricsFile.append = record.MetricsFile.append, append


def _half_an_event(act: Act) -> None:
    """Of tensorboard, behind those of the step."""
    plain = record_callback.RecordCallback.on_train_batch_end

    def end(self, trainer, *args) -> None:
        plain(self, trainer, *args)
        trainer.logger.experiment.flush()
        path = max((self.folder / "tensorboard").glob("events*"), key=lambda path: path.stat().st_mtime)
        size = path.stat().st_size
        with path.open("ab") as file:
            file.write(b"\x18\x00\x00")
        act()
        os.truncate(path, size)

    record_callback.RecordCallback.on_train_batch_end = end


def _half_a_checkpoint(act: Act) -> None:
    plain = L.Trainer.save_checkpoint

    def save(self, path, *args, **kwargs) -> None:
        plain(self, path, *args, **kwargs)
        if Path(path).name.startswith("last"):
            whole = Path(path).read_bytes()
            Path(path).write_bytes(whole[: len(whole) // 2])
            act()
            Path(path).write_bytes(whole)

    L.Trainer.save_checkpoint = save


def _between_renames(act: Act) -> None:
    plain = os.replace

    def replace(source, target) -> None:
        plain(source, target)
        if Path(target).name == "previous.ckpt":
            act()

    checkpoint_files.os.replace = replace


STAGES: dict[str, Callable[[Act], None]] = {
    "sampled": lambda act: _around(Pipeline, "_sample", after=act),
    "graded": lambda act: _around(Pipeline, "_grade", after=act),
    "corrected": _second_grading,
    "filled": lambda act: _around(Pipeline, "fill", after=act),
    "scored": lambda act: _around(PolicyModule, "_score", after=act),
    "between micro-batches": _between_micro_batches,
    "before the optimizer": lambda act: _around(torch.optim.AdamW, "step", before=lambda *_, **__: act()),
    "behind the optimizer": lambda act: _around(torch.optim.AdamW, "step", after=act),
    "half a parquet": _half_a_parquet,
    "parquet written": lambda act: _around(record_callback, "write_rollout", after=act),
    "half a row": _half_a_row,
    "step recorded": lambda act: _around(record.MetricsFile, "append", after=act),
    "half an event": _half_an_event,
    "half a checkpoint": _half_a_checkpoint,
    "between the renames": _between_renames,
    "checkpoint written": lambda act: _around(checkpoint_files, "write", after=act),
    "half an evaluation": lambda act: _around(EvaluationFile, "write_chunk", after=act),
}
AT_THE_END: dict[str, Callable[[Act], None]] = {  # behind the last step
    "half an export": lambda act: _around(PreTrainedTokenizerBase, "save_pretrained", before=act),
    "exported": lambda act: _around(fit, "_export", after=act),
}

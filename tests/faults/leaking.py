"""A run that leaks on purpose, for scripts/soak to find:

scripts/soak 2 +callbacks.leak_checkpoint._target_=tests.faults.leaking.Leaking +callbacks.leak_checkpoint._partial_=true
"""

from __future__ import annotations

from pathlib import Path

import lightning as L


class Leaking(L.Callback):
    """Keeps two MiB and, each tenth step, a file open. Made as a checkpoint callback, which the configuration may add."""

    def __init__(self, *, dirpath: Path):
        self.kept: list[object] = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        self.kept.append(b"x" * 2**21)
        if batch_idx % 10 == 0:
            self.kept.append(Path(__file__).open())  # noqa: SIM115

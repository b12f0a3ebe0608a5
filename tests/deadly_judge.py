"""A process that grades, as edge_lightning/rewards/worker.py, and dies of answers with an x in them."""

import os
import signal
from collections.abc import Sequence

from edge_lightning.rewards.worker import serve
from edge_lightning.types import Verdict


def judged(golds: Sequence[str], answer: str) -> Verdict:
    if "x" in answer:
        os.kill(os.getpid(), signal.SIGKILL)
    return Verdict.MATCHED


def main(limit_s: float, parent: int) -> None:
    serve(judged, limit_s, parent, first=(["1"], "1"))

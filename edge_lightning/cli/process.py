"""What must be settled in a process before torch is imported, and the quiet that a terminal wants."""

from __future__ import annotations

import logging
import os
import warnings


def prepare(cpu_threads: int | None) -> None:
    """Threads of torch and the engine, offline hubs where asked for, no chatter. Call before importing torch."""
    if cpu_threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for about in (".*does not have many workers.*", ".*Checkpoint directory.*exists.*", ".*LeafSpec.*", ".*treespec.*"):
        warnings.filterwarnings("ignore", message=about)


def hide_loading_bars() -> None:
    """transformers' weight-loading bars; after its import."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()

"""What must be settled in a process before torch is imported, and the quiet that a terminal wants."""

from __future__ import annotations

import logging
import os
import warnings

from edge_lightning.errors import UserError


def prepare(cpu_threads: int | None) -> None:
    """Threads of torch and the engine, offline hubs where asked for, no chatter. Call before importing torch.

    Raises:
        UserError: the threads are no count.
    """
    if cpu_threads is not None:
        if isinstance(cpu_threads, bool) or not isinstance(cpu_threads, int) or cpu_threads < 1:
            raise UserError(f"cpu_threads={cpu_threads}: an integer of at least 1 expected, null for all cores")
        os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # vLLM's note on NUMA at each start
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for about in (
        ".*does not have many workers.*",
        ".*across ranks is zero.*",  # steps=0 has no batches
        ".*LeafSpec.*",
        ".*treespec.*",
        r".*module\(s\) in eval mode.*",  # transformers loads a model so; ours has no other mode
        ".*overridden `transfer_batch_to_device` in `LightningModule`.*",
    ):
        warnings.filterwarnings("ignore", message=about)


def hush() -> None:
    """Lightning's notes and transformers' weight-loading bars; after their import, which sets levels of its own."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.WARNING)

"""What must be settled in a process before torch is imported, and the quiet that a terminal wants."""

from __future__ import annotations

import logging
import os
import socket
import sys
import warnings

from edge_lightning.errors import UserError


def prepare(cpu_threads: int | None, *, offline: bool = False) -> None:
    """Threads of torch and the engine, no network where none is wanted, no chatter. Call before importing torch.

    Args:
        offline: hubs are not asked, and a connection to another machine is refused, from now on in this process.
    Raises:
        UserError: the threads are no count.
    """
    if not isinstance(offline, bool):
        raise UserError(f"offline={offline}: true or false expected")
    if offline:
        os.environ.update(dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1"))
        sys.addaudithook(_refuse_connections)
    if cpu_threads is not None:
        if isinstance(cpu_threads, bool) or not isinstance(cpu_threads, int) or cpu_threads < 1:
            raise UserError(f"cpu_threads={cpu_threads}: an integer of at least 1 expected, null for all cores")
        os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads))
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # torch.distributed.checkpoint would unpickle anything
    # oneDNN keeps a matrix product for each number of tokens in a prompt, 1024 of them at some 250 KiB; a pass needs five
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
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


def _refuse_connections(event: str, arguments: tuple) -> None:
    """An audit hook: connections of Python's own sockets, and look-ups of names. What stays on this machine may pass."""
    if event == "socket.connect":
        connected, address = arguments
        elsewhere = connected.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(str(address[0]))
        name = address[0] if elsewhere else None
    elif event == "socket.getaddrinfo":
        name = arguments[0] if arguments[0] and not _is_here(str(arguments[0])) else None
    else:
        return
    if name is not None:
        raise ConnectionRefusedError(f"offline=true: {name} was asked for; set offline=false, or use what lies on disk")


def _is_here(host: str) -> bool:
    return host in ("localhost", "::1", "0.0.0.0", "::", socket.gethostname()) or host.startswith("127.")


def hush() -> None:
    """Lightning's notes and transformers' weight-loading bars; after their import, which sets levels of its own."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.WARNING)

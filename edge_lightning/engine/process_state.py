"""One process, two tenants: what vLLM changes in it is undone whenever the trainer runs.

vLLM seeds every global generator, replaces functions of torch by stand-ins, edits the environment and freezes the
garbage collector's heap. The trainer's values return when the block ends; the engine's stand-ins return when the next
block begins. Left out: the NUMA memory policy and an addition to sys.path, which harm nobody.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
from contextlib import contextmanager

import numpy as np
import torch

REPLACED = (
    (torch, "set_num_threads"),
    (torch, "Event"),
    (torch.Tensor, "pin_memory"),
    (torch.Tensor, "record_stream"),
    (torch.cuda, "Event"),
    (torch.cuda, "Stream"),
    (torch.cuda, "current_stream"),
    (torch.cuda, "set_stream"),
    (torch.cuda, "stream"),
    (torch.accelerator, "empty_cache"),
    (torch.accelerator, "get_memory_info"),
    (torch.accelerator, "synchronize"),
    (logging, "_logRecordFactory"),
    (sys, "excepthook"),
)
_engine_values: dict = {}  # what engines put there; of the process, since vLLM does it once, while it is imported


@contextmanager
def engine_side():
    """Let an engine run inside the block; on leaving it the process is as the trainer left it.

    Kept: the Python, NumPy, torch and CUDA generators, the number of threads, the environment, REPLACED, and the
    garbage collector's heap. CUDA generators are kept only where CUDA was initialised before the block.
    """
    trainer_values = {(owner, name): getattr(owner, name) for owner, name in REPLACED if hasattr(owner, name)}
    environment = dict(os.environ)
    threads = torch.get_num_threads()
    frozen = gc.get_freeze_count()
    cuda = torch.cuda.is_initialized()
    generators = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda_generators = torch.cuda.get_rng_state_all() if cuda else []
    for (owner, name), value in _engine_values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in trainer_values.items():
            if getattr(owner, name) is not value:
                _engine_values[owner, name] = getattr(owner, name)
                setattr(owner, name, value)
        restore_environment(environment)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if gc.get_freeze_count() and not frozen:
            gc.unfreeze()
        random.setstate(generators[0])
        np.random.set_state(generators[1])
        torch.set_rng_state(generators[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda_generators)


def restore_environment(environment: dict[str, str]) -> None:
    """Make os.environ equal to `environment`, writing only what differs."""
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value

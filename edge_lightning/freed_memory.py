"""Memory that was freed and that the C library keeps: on CPU a run of hours would otherwise come to hold ever more of it."""

from __future__ import annotations

import ctypes
from functools import cache

EVERY_N_STEPS = 25  # what is given back has to be asked for again


def give_back() -> None:
    """Have glibc give what lies free between pieces in use back to the system; does nothing with another C library."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim():
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None

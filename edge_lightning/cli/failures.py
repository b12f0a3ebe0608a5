"""What a running command may meet that is nobody's bug: a full disk, a folder that can't be written, too little memory."""

from __future__ import annotations

import errno
import os

from edge_lightning.errors import UserError

_CURES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on file sizes",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the limit on open files",
    errno.EIO: "look after the disk",
    errno.ESTALE: "look after the disk",
}
_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory", "not enough memory", "std::bad_alloc")


def told(error: BaseException, place: object) -> str | None:
    """One line for what went wrong and what to change, None where it is a bug or unknown.

    Args:
        place: what was written to, where the error does not say.
    """
    if isinstance(error, UserError):
        return str(error)
    number = error.errno if isinstance(error, OSError) else None
    if os.strerror(errno.ENOSPC) in str(error):  # of libraries that have errors of their own: safetensors, torch
        number = errno.ENOSPC
    if number in _CURES:
        return f"{getattr(error, 'filename', None) or place}: {os.strerror(number)}; {_CURES[number]}"
    if port_taken(error):
        port = os.environ.get("MASTER_PORT", "")
        return (
            f"MASTER_PORT={port}: a free port expected, another process has this one; set another (torchrun: --standalone)"
        )
    short = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if short or (isinstance(error, RuntimeError) and any(sign in str(error) for sign in _MEMORY)):
        said = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return (
            f"memory ran short ({said}); lower datamodule.micro_batch_tokens or engine.kv_cache_gib, "
            "or set model.gradient_checkpointing=true"
        )
    return None


def port_taken(error: BaseException) -> bool:
    """Whether processes could not meet because another one listens at the place where they were to."""
    return isinstance(error, RuntimeError) and "EADDRINUSE" in str(error)

"""The process that reads and compares answers; `pool.py` starts it.

Reads one JSON line [golds, answer] at a time and writes one line: "ready" first, then a verdict for each.
It ends when its input closes, when its parent is gone, and when a comparison takes longer than the limit, so that it
can't outlive a killed run. Left out: torch and whatever else would make a replacement start slowly.
"""

from __future__ import annotations

import os

os.environ["SYMPY_GROUND_TYPES"] = "python"  # read on import; no verdict may depend on whether gmpy2 is there

import json
import logging
import resource
import select
import signal
from collections.abc import Callable, Iterator, Sequence

from edge_lightning.rewards.brackets import Tokens, without_spaces
from edge_lightning.rewards.comparison import same
from edge_lightning.rewards.forms import parsed
from edge_lightning.rewards.reading import read
from edge_lightning.rewards.symbolic import Symbolic
from edge_lightning.types import Verdict

MEMORY_BYTES = 2 * 2**30  # a text that asks for more is a MemoryError here and not the machine's end
_LOOK_FOR_PARENT_S = 5.0


def judged(golds: Sequence[str], answer: str) -> Verdict:
    """Whether the answer equals one of the golds. Runs as long as it runs; raises for no text."""
    wanted = [tokens for tokens in map(_read, golds) if tokens]
    if not wanted:
        return Verdict.UNPARSABLE_GOLD
    found = _read(answer)
    if found and any(_equal(tokens, found) for tokens in wanted):
        return Verdict.MATCHED
    return Verdict.DIFFERS


def _read(text: str) -> Tokens | None:
    try:
        return read(text)
    except Exception:  # a text that the reader stumbles over is one that can't be read
        return None


def _equal(gold: Tokens, answer: Tokens) -> bool:
    try:
        return without_spaces(gold) == without_spaces(answer) or same(parsed(gold), parsed(answer), Symbolic())
    except Exception:  # whatever sympy makes of a model's text, the text is not the answer
        return False


def main(limit_s: float, parent: int) -> None:
    """Judge lines by `judged`."""
    # What loads with the first comparison takes none of its time.
    serve(judged, limit_s, parent, first=([r"\frac{\sqrt{2}}{2}x"], r"x/\sqrt{2}"))


def serve(
    judge: Callable[[Sequence[str], str], Verdict], limit_s: float, parent: int, *, first: tuple[Sequence[str], str]
) -> None:
    """Answer lines until there are no more or the process `parent` is gone; `limit_s` seconds at most for each.

    Args:
        first: judged before anything is asked, so that its imports are done.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the parsers print is no reply
    logging.disable()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(
        resource.RLIMIT_AS, (MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard), hard)
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    judge(*first)
    print("ready", file=replies, flush=True)
    for line in _lines(parent):
        golds, answer = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, limit_s)  # no handler: the kernel ends the process
        verdict = judge(golds, answer)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(verdict, file=replies, flush=True)


def _lines(parent: int) -> Iterator[bytes]:
    """Lines of the input until it closes or the parent is gone: a fork of the parent may hold the other end open."""
    held = b""  # the parent is named by itself: it may be gone before this process is ready
    while True:
        ready, _, _ = select.select([0], [], [], _LOOK_FOR_PARENT_S)
        if not ready:
            if os.getppid() != parent:
                return
            continue
        read_now = os.read(0, 65536)
        if not read_now:
            return
        *lines, held = (held + read_now).split(b"\n")
        yield from lines

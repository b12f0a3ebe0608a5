"""The process that compares answers with math-verify; `equivalence.py` starts it.

Reads one JSON line [golds, answer] at a time and writes one line: "ready" first, then "1" or "0" for each.
A comparison that takes longer than the limit ends the process from within, so that it can't outlive a killed run.
Left out: any import of this package, so that a replacement starts soon.
"""

from __future__ import annotations

import os

os.environ["SYMPY_GROUND_TYPES"] = "python"  # read on import; no verdict may depend on whether gmpy2 is there

import json
import logging
import resource
import signal
import sys
from collections.abc import Sequence

from math_verify import LatexExtractionConfig, parse, verify

_LATEX = [LatexExtractionConfig()]
_MEMORY_BYTES = 4 * 2**30  # a power tower asks for more; then it is a MemoryError here and not the machine's end


def equivalent(golds: Sequence[str], answer: str) -> bool:
    """Whether math-verify takes the answer for one of the golds. Runs as long as it runs."""
    try:
        found = parse(f"${answer}$", _LATEX, parsing_timeout=None)
        wanted = [parse(f"${gold}$", _LATEX, parsing_timeout=None) for gold in golds]
        return any(verify(gold, found, timeout_seconds=None) for gold in wanted)
    except Exception:  # whatever sympy makes of a model's text, the text is not the answer
        return False


def main(limit_s: float) -> None:
    """Answer lines until there are no more; `limit_s` seconds at most for each."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the parsers print is no reply
    logging.disable()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    equivalent([r"\frac{1}{2}"], "0.5")  # what loads with the first comparison takes none of its time
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        golds, answer = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, limit_s)  # no handler: the kernel ends the process
        verdict = equivalent(golds, answer)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(int(verdict), file=replies, flush=True)

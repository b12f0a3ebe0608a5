"""Randomness as a function of counters.

A draw depends on what it is for (run seed, step, problem, response) and never on what was drawn before it. So a resumed
run repeats an unbroken one, and the layout of ranks and batches changes nothing.
"""

from __future__ import annotations

import hashlib


def counter_seed(*counters: int | str) -> int:
    """A 63-bit seed from the counters, the same on every machine.

    Neighbouring counters give unrelated seeds, so an engine that derives further seeds by addition meets no other's.
    """
    digest = hashlib.blake2b("\x1f".join(map(str, counters)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def counter_uniform(*counters: int | str) -> float:
    """A number in [0, 1) from the counters."""
    return (counter_seed(*counters) >> 10) / 2**53

"""Whether answers equal golds: at a glance here, else by reading and computer algebra in a process that can be killed.

The order of decisions; the first that decides ends it:

    equal texts but for the spaces and dollars around them, any length     here    matched
    the answer and every gold are plain numbers                            here    compared exactly
    everything else, what is over 1,000 characters as an empty text        in a worker, within `timeout_s`

No text is read in the run's own process, so that none can hang it or overflow its stack.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.rewards.plain import LONGEST, number, stripped
from edge_lightning.rewards.pool import Pool
from edge_lightning.types import Verdict

_CACHED = 10_000
_KEPT = 100

Pair = tuple[tuple[str, ...], str]


class Equivalence:
    """Compares answers with golds. Each pair is judged once, and once more if it is asked again after it ran out of time,
    which may have been the machine's fault; the verdicts of the last 10,000 are kept.

    Args:
        timeout_s: wall clock for one answer and all its golds; past it the answer is wrong.
        workers: processes that compare, started when first needed.

    Attributes:
        timeouts: pairs that ran out of time.
        given_up: the last 100 of those pairs.
    """

    def __init__(self, timeout_s: float = 5.0, workers: int = 2):
        if not 0 < timeout_s < math.inf:
            raise UserError(f"reward.parts.accuracy.timeout_s={timeout_s}: a finite number of seconds above 0 expected")
        require_at_least_one("reward.parts.accuracy.workers", workers)
        self.timeouts = 0
        self.given_up: deque[Pair] = deque(maxlen=_KEPT)
        self._pool = Pool(timeout_s, workers)
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[Pair, Verdict] = OrderedDict()
        self._again: OrderedDict[Pair, bool] = OrderedDict()  # what ran out of time, and whether it may be tried again

    def __call__(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The verdict on each (golds, answer), in order.

        Raises:
            RuntimeError: a process does not start at all. No text is a reason to raise.
        """
        keys = [(tuple(golds), answer) for golds, answer in pairs]
        with self._lock:
            known = {key: self._verdicts[key] for key in set(keys) if key in self._verdicts and not self._again.get(key)}
            new = [key for key in dict.fromkeys(keys) if key not in known]
            known |= {key: _at_a_glance(*key) for key in new}
            asked = [key for key in new if known[key] is None]
            for key, verdict in zip(asked, self._pool([_readable_part(*key) for key in asked]), strict=True):
                known[key] = verdict
                if verdict is Verdict.TIMED_OUT:
                    self._count(key)
                else:
                    self._again.pop(key, None)
            self._remember(known)
        return [known[key] for key in keys]

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether each gold can be compared with: not empty, braces paired, no command without its argument, not over
        1,000 characters. Words and what no parser knows are readable; they match their own spelling."""
        asked = [gold for gold in dict.fromkeys(golds) if number(gold) is None]
        verdicts = dict(zip(asked, self._pool([_readable_part((gold,), "") for gold in asked]), strict=True))
        return [verdicts.get(gold, Verdict.DIFFERS) is Verdict.DIFFERS for gold in golds]

    def close(self) -> None:
        """End the processes. Safe to call twice; another comparison starts new ones."""
        self._pool.close()

    def _count(self, key: Pair) -> None:
        first = key not in self._again
        self._again[key] = first
        if first:
            self.timeouts += 1
            self.given_up.append(key)
        while len(self._again) > _CACHED:
            self._again.popitem(last=False)

    def _remember(self, verdicts: dict[Pair, Verdict]) -> None:
        for key, verdict in verdicts.items():
            self._verdicts[key] = verdict
            self._verdicts.move_to_end(key)
        while len(self._verdicts) > _CACHED:
            self._verdicts.popitem(last=False)


def _at_a_glance(golds: tuple[str, ...], answer: str) -> Verdict | None:
    """The verdict as far as it takes no reading; None if it does."""
    spelling = stripped(answer)
    if spelling and any(stripped(gold) == spelling for gold in golds):
        return Verdict.MATCHED
    value = number(answer)
    values = [number(gold) for gold in golds] if value is not None else []
    if value is not None and value in values:
        return Verdict.MATCHED
    return Verdict.DIFFERS if values and None not in values else None


def _readable_part(golds: tuple[str, ...], answer: str) -> Pair:
    """What a process is asked: an empty text, which equals nothing, for one that is too long to be read."""
    return tuple(gold if len(gold) <= LONGEST else "" for gold in golds), answer if len(answer) <= LONGEST else ""

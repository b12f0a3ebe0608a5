"""Whether answers equal golds: as text, as numbers and forms, else by computer algebra in a process that can be killed.

The order of decisions, cheapest first; the first that decides ends it:

    equal texts                                      here, any length
    not read: braces do not pair, over 1,000 characters     differs
    equal forms, plain arithmetic, items of them     here, exactly
    too costly for computer algebra                  differs
    everything else                                  in a worker, within `timeout_s`
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.rewards.brackets import without_spaces
from edge_lightning.rewards.comparison import same
from edge_lightning.rewards.exact import Exact, Undecided
from edge_lightning.rewards.forms import parsed
from edge_lightning.rewards.pool import Pool
from edge_lightning.rewards.reading import read
from edge_lightning.types import Verdict

_CACHED = 10_000
_KEPT = 100

Pair = tuple[tuple[str, ...], str]


class Equivalence:
    """Compares answers with golds. Each pair is judged once; the verdicts of the last 10,000 are kept.

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

    def __call__(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The verdict on each (golds, answer), in order.

        Raises:
            RuntimeError: a process does not start at all. No text is a reason to raise.
        """
        keys = [(tuple(golds), answer) for golds, answer in pairs]
        with self._lock:
            known = {key: self._verdicts[key] for key in set(keys) if key in self._verdicts}
            new = [key for key in dict.fromkeys(keys) if key not in known]
            known |= {key: _decided_whatever_comes(*key) for key in new}
            asked = [key for key in new if known[key] is None]
            for key, verdict in zip(asked, self._pool(asked), strict=True):
                known[key] = verdict
                if verdict is Verdict.TIMED_OUT:
                    self.timeouts += 1
                    self.given_up.append(key)
            self._remember(known)
        return [known[key] for key in keys]

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether each gold can be compared with: not empty, braces paired, no command without its argument, not over
        1,000 characters. Words and what no parser knows are readable; they match their own spelling."""
        return [bool(read(gold)) for gold in golds]

    def close(self) -> None:
        """End the processes. Safe to call twice; another comparison starts new ones."""
        self._pool.close()

    def _remember(self, verdicts: dict[Pair, Verdict]) -> None:
        for key, verdict in verdicts.items():
            self._verdicts[key] = verdict
            self._verdicts.move_to_end(key)
        while len(self._verdicts) > _CACHED:
            self._verdicts.popitem(last=False)


def _decided_whatever_comes(golds: tuple[str, ...], answer: str) -> Verdict | None:
    try:
        return _decided(golds, answer)
    except Exception:  # a text that the reader stumbles over is no reason to end a run, and not the answer
        return Verdict.DIFFERS


def _decided(golds: tuple[str, ...], answer: str) -> Verdict | None:
    """The verdict as far as it takes no process; None if it does."""
    if answer.strip() and any(gold.strip() == answer.strip() for gold in golds):
        return Verdict.MATCHED
    wanted = [tokens for tokens in map(read, golds) if tokens]
    if not wanted:
        return Verdict.UNPARSABLE_GOLD
    found = read(answer)
    if not found:
        return Verdict.DIFFERS
    if without_spaces(found) in map(without_spaces, wanted):
        return Verdict.MATCHED
    form, undecided = parsed(found), False
    for tokens in wanted:
        try:
            if same(parsed(tokens), form, Exact()):
                return Verdict.MATCHED
        except Undecided:
            undecided = True
    return None if undecided else Verdict.DIFFERS

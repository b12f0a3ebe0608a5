"""Whether an answer equals an accepted one: as text, as numbers, else by math-verify in a process that can be killed.

The process is a fresh interpreter and not one of multiprocessing, whose forkserver and spawn import the run's main
module again in every worker: a script without a main guard would grade nothing, and a command line would load torch.
Left out: anything that knows a data set's habits (units, words, percent signs).
"""

from __future__ import annotations

import json
import math
import re
import select
import shlex
import subprocess
import sys
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import edge_lightning
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.types import Verdict

_LONGEST = 1000  # characters of an answer that is looked at; a longer one is right only if it equals a gold as text
_CACHED = 10_000
_START_S = 120.0
_DOLLAR = re.compile(r"(?<!\\)\$")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)


class Equivalence:
    """Compares answers with golds. Each pair is judged once; the verdicts of the last 10,000 are kept.

    Equal texts are equal. Two plain numbers (an optional sign, digits, at most one point) are compared exactly, so
    0.333 is not 1/3. Everything else is math-verify's to decide, in a process that starts with the first such pair; one
    that takes longer than `timeout_s` seconds, or ends, is killed and replaced, and the answer is wrong.

    Attributes:
        timeouts: pairs that ran out of time.
    """

    def __init__(self, timeout_s: float = 5.0, workers: int = 2):
        if not 0 < timeout_s < math.inf:
            raise UserError(f"reward.parts.accuracy.timeout_s={timeout_s}: a finite number of seconds above 0 expected")
        require_at_least_one("reward.parts.accuracy.workers", workers)
        self.timeout_s = timeout_s
        self.timeouts = 0
        self._verdicts: OrderedDict[tuple[tuple[str, ...], str], Verdict] = OrderedDict()
        self._worker: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize | None = None

    def __call__(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[Verdict]:
        """The verdict on each (golds, answer), in order.

        Raises:
            RuntimeError: the process does not start at all. No text is a reason to raise.
        """
        return [self._judge([_bare(gold) for gold in golds], _bare(answer)) for golds, answer in pairs]

    def readable(self, golds: Sequence[str]) -> list[bool]:
        """Whether each gold can be compared with at all."""
        return [bool(_bare(gold)) for gold in golds]

    def close(self) -> None:
        """End the process. Safe to call twice; another comparison starts a new one."""
        if self._finalizer is not None:
            self._finalizer()
        self._worker = None

    def _judge(self, golds: list[str], answer: str) -> Verdict:
        if answer and answer in golds:
            return Verdict.MATCHED
        if not any(golds):
            return Verdict.UNPARSABLE_GOLD
        if not answer or len(answer) > _LONGEST:
            return Verdict.DIFFERS
        number = _number(answer)
        if number is not None and any(_number(gold) == number for gold in golds):
            return Verdict.MATCHED
        # Two plain numbers have been decided, gold by gold.
        open_golds = [gold for gold in golds if 0 < len(gold) <= _LONGEST and (number is None or _number(gold) is None)]
        if not open_golds:
            return Verdict.DIFFERS
        pair = (tuple(open_golds), answer)
        if pair not in self._verdicts:
            self._verdicts[pair] = self._ask(*pair)
            if len(self._verdicts) > _CACHED:
                self._verdicts.popitem(last=False)
        self._verdicts.move_to_end(pair)
        return self._verdicts[pair]

    def _ask(self, golds: tuple[str, ...], answer: str) -> Verdict:
        if self._worker is not None and self._worker.poll() is not None:
            self.close()  # it ended between two pairs, which is not this pair's fault
        worker = self._worker or self._start()
        try:
            worker.stdin.write(json.dumps([golds, answer]).encode() + b"\n")
            reply = _reply(worker, self.timeout_s)
        except TimeoutError:
            self.timeouts += 1
            self.close()
            return Verdict.TIMED_OUT
        except BrokenPipeError:
            reply = b""
        if not reply:
            self.close()
        return Verdict.MATCHED if reply == b"1\n" else Verdict.DIFFERS

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(edge_lightning.__file__).parents[1])  # at the end of the path, where it hides no module
        code = f"import sys; sys.path.append({root!r}); from edge_lightning.rewards.worker import main; "
        command = [sys.executable, "-P", "-c", f"{code}main({2 * self.timeout_s})"]
        worker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is the run's to handle
        )
        self._worker = worker
        self._finalizer = weakref.finalize(self, _end, worker)  # runs at exit too
        try:
            ready = _reply(worker, _START_S) == b"ready\n"
        except TimeoutError:
            ready = False
        if not ready:
            self.close()
            raise RuntimeError(f"the process that grades did not start; run {shlex.join(command)} to see why")
        return worker


def _reply(worker: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    """The next line, empty if the process has ended. Replies are short, so a line comes whole."""
    waiting = select.poll()  # select.select refuses file descriptors over 1023
    waiting.register(worker.stdout, select.POLLIN)
    if not waiting.poll(1000 * timeout_s):
        raise TimeoutError
    return worker.stdout.read(64)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    worker.stdin.close()
    worker.stdout.close()


def _bare(text: str) -> str:
    """The text without dollar signs that open or close mathematics, and without white space around it."""
    return _DOLLAR.sub("", text).strip()


def _number(text: str) -> Decimal | None:
    return Decimal(text) if len(text) <= _LONGEST and _NUMBER.fullmatch(text) else None

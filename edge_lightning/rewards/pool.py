"""Processes that compare answers and can be killed.

Each is a fresh interpreter and not one of multiprocessing, whose forkserver and spawn import the run's main module
again in every worker: a script without a main guard would grade nothing, and a command line would load torch. The
clock is the parent's: `signal.alarm` works in main threads only, and math-verify cancels the alarms of others.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import edge_lightning
from edge_lightning.errors import UserError
from edge_lightning.types import Verdict

_START_S = 120.0
_SAID = frozenset([Verdict.MATCHED, Verdict.DIFFERS, Verdict.UNPARSABLE_GOLD])
_STARTS = 3  # that fail one after another before it is an error: a process may be killed while it starts, too

Question = tuple[Sequence[str], str]


class Pool:
    """Answers questions (golds, answer) in order, each within `timeout_s` seconds of wall clock.

    A process starts when there is work for it. One that runs out of time is killed and the answer timed out. One that dies
    (of memory, of a signal) is replaced and the question put once more, since the machine may have killed it for the sake of
    others; where it dies of that question again, the answer differs. One call at a time, from any thread.

    Args:
        judge: the module whose `main` the processes run.
    """

    def __init__(self, timeout_s: float, workers: int, *, judge: str = "edge_lightning.rewards.worker"):
        self.timeout_s, self.size, self._judge = timeout_s, workers, judge
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def __call__(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict a question.

        Raises:
            UserError: a process does not start at all. No text is a reason to raise.
        """
        with self._lock:
            try:
                return self._run(questions)
            except BaseException:  # Ctrl-C too: a reply that comes later must not answer another question
                self._end_all()
                raise

    def close(self) -> None:
        """End the processes. Safe to call twice; another question starts new ones."""
        with self._lock:
            self._end_all()

    def _run(self, questions: Sequence[Question]) -> list[Verdict]:
        verdicts: list[Verdict] = [Verdict.DIFFERS] * len(questions)
        waiting = deque(range(len(questions)))
        put_again: set[int] = set()
        while waiting or any(worker.question is not None for worker in self._workers):
            self._keep_alive()
            free = [worker for worker in self._workers if worker.ready and worker.question is None]
            while waiting and free:
                if not free.pop().ask(waiting[0], questions[waiting[0]], self.timeout_s):
                    break  # it ended between two questions, which is not this question's fault
                waiting.popleft()
            starting = sum(not worker.ready for worker in self._workers)
            for _ in range(min(len(waiting) - starting - len(free), self.size - len(self._workers))):
                self._workers.append(_Worker(2 * self.timeout_s, self._judge))
            for worker in _heard(self._workers):
                number, verdict = worker.question, worker.reply()
                if number is None:
                    continue
                if verdict is None and number not in put_again:
                    put_again.add(number)
                    waiting.append(number)
                else:
                    verdicts[number] = verdict or Verdict.DIFFERS
        self._keep_alive()
        return verdicts

    def _keep_alive(self) -> None:
        """Put away the workers that ended, but for those whose last reply is not read yet."""
        for worker in self._workers:
            if worker.question is None:
                worker.look()
            if worker.ready:
                self._failed_starts = 0
            elif worker.ended:
                self._failed_starts += 1
                if self._failed_starts >= _STARTS:
                    self._failed_starts = 0
                    raise UserError(f"the process that grades did not start; run {shlex.join(worker.command)} to see why")
        self._workers = [worker for worker in self._workers if not worker.ended]

    def _end_all(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []


class _Worker:
    """One process: starting, then ready, with or without a question, then ended.

    Attributes:
        question: the number of what it was asked, None while it is asked nothing.
        deadline: the time at which it is given up.
    """

    def __init__(self, limit_s: float, judge: str):
        root = str(Path(edge_lightning.__file__).parents[1])  # at the end of the path, where it hides no module
        call = f"main({limit_s}, {os.getpid()})"
        code = f"import sys; sys.path.append({root!r}); from {judge} import main; {call}"
        self.command = [sys.executable, "-P", "-c", code]
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is the run's to handle
        )
        self.end = weakref.finalize(self, _end, self.process, os.getpid())  # runs at exit too
        self.ready = False
        self.question: int | None = None
        self.deadline = time.monotonic() + _START_S

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        return not self.end.alive

    def look(self) -> None:
        """End what is left of it if the process has ended."""
        if not self.ended and self.process.poll() is not None:
            self.end()

    def ask(self, number: int, question: Question, timeout_s: float) -> bool:
        """Send a question; False if there is no one to hear it."""
        try:
            self.process.stdin.write(json.dumps([list(question[0]), question[1]]).encode() + b"\n")
        except BrokenPipeError:
            self.end()
            return False
        self.question, self.deadline = number, time.monotonic() + timeout_s
        return True

    def reply(self) -> Verdict | None:
        """What it says, or what its silence means; None where it died of something else than its time."""
        if not _readable(self.process.stdout.fileno()):
            line, verdict = b"", Verdict.TIMED_OUT
        else:
            line = self.process.stdout.read(64)  # replies are short, so a line comes whole
            said = line.decode().removesuffix("\n")
            late = not line and time.monotonic() >= self.deadline  # it ended itself before anyone looked
            verdict = Verdict(said) if said in _SAID else Verdict.TIMED_OUT if late else None
        if not self.ready and line == b"ready\n":
            self.ready = True
        elif not self.ready or not line:
            self.end()
        self.question = None
        return verdict


def _heard(workers: Sequence[_Worker]) -> list[_Worker]:
    """The workers that have something to say or have run out of time, once there is one."""
    owing = {worker.process.stdout.fileno(): worker for worker in workers if worker.question is not None or not worker.ready}
    if not owing:
        return []
    poll = select.poll()  # select.select refuses file descriptors over 1023
    for descriptor in owing:
        poll.register(descriptor, select.POLLIN)
    left_s = min(worker.deadline for worker in owing.values()) - time.monotonic()
    heard = {descriptor for descriptor, _ in poll.poll(max(0.0, 1000 * left_s))}
    now = time.monotonic()
    return [worker for descriptor, worker in owing.items() if descriptor in heard or now >= worker.deadline]


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner
        return
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()

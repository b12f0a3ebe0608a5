"""An engine whose calls are watched: it may die, stall, or return less than it was asked for.

What goes wrong in it is one line that names the problems it was at work on, and the caller's state is untouched. An engine
that makes no token for `stall_s` seconds is given up: an exception is raised in the thread that waits for it, and where
that thread is deep in code that hears nothing, the process ends a little later, by itself, with the same line.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edge_lightning.engine.base import Engine, StaleWeightsError
from edge_lightning.errors import UserError, named
from edge_lightning.types import Generation, Provenance, Request, Sampling

if TYPE_CHECKING:
    from edge_lightning.policy import Policy

GRACE_S = 30.0  # from the exception to the end of the process
STALLED = getattr(signal, "SIGUSR2", None)  # reaches the waiting thread; SIGUSR1 is Lightning's under SLURM


class EngineError(UserError):
    """The engine failed, stalled, or returned what can't be."""


class Watched:
    """Passes everything on to an engine, and checks what comes back.

    Attributes:
        engine: the engine itself. `engine.stall_s` is the longest that it may make no token, None: not watched;
            it calls `engine.beat()` after each.
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.stall_s: float | None = getattr(engine, "stall_s", None)
        self._doing = ""
        self._beat_at = 0.0
        if self.stall_s is not None:
            engine.beat = self._beat

    @property
    def provenance(self) -> Provenance:
        return self.engine.provenance

    @property
    def weights_version(self) -> int | None:
        return self.engine.weights_version

    @property
    def max_model_len(self) -> int:
        return self.engine.max_model_len

    def push_weights(self, policy: Policy, version: int) -> None:
        with self._at_work("taking the weights"):
            self.engine.push_weights(policy, version)

    def generate(self, requests: Sequence[Request], sampling: Sampling, *, weights_version: int) -> list[Generation]:
        """One generation per request, in order.

        Raises:
            EngineError: it died, stalled, or returned something else than that.
        """
        names = list(dict.fromkeys(request.problem.id for request in requests))
        with self._at_work(f"generating for {named(names)}"):
            generations = self.engine.generate(requests, sampling, weights_version=weights_version)
        check(requests, generations, type(self.engine).__name__)
        return generations

    def sleep(self) -> None:
        self.engine.sleep()

    def close(self) -> None:
        self.engine.close()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()

    @contextmanager
    def _at_work(self, doing: str) -> Iterator[None]:
        self._doing = doing
        try:
            with self._watch():
                yield
        except (UserError, StaleWeightsError, MemoryError):
            raise
        except Exception as error:
            said = next(iter(str(error).strip().splitlines()), "")
            raise EngineError(f"{type(self.engine).__name__} failed in {doing}: {type(error).__name__}: {said}") from error

    @contextmanager
    def _watch(self) -> Iterator[None]:
        if self.stall_s is None or STALLED is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._beat()
        message = (
            f"{type(self.engine).__name__} made no token for {self.stall_s:g} s in {self._doing}; start again, or raise "
            "engine.stall_s where a token may take so long"
        )

        def stalled(number: int, frame: object) -> None:
            raise EngineError(message)

        before = signal.signal(STALLED, stalled)
        done = threading.Event()
        watch = threading.Thread(target=self._look, args=(done, threading.get_ident(), message), daemon=True)
        watch.start()
        try:
            yield
        finally:
            done.set()
            watch.join()
            signal.signal(STALLED, before)

    def _look(self, done: threading.Event, waiting: int, message: str) -> None:
        while not done.wait(max(0.01, self._beat_at + self.stall_s - time.monotonic())):
            if time.monotonic() - self._beat_at >= self.stall_s:
                signal.pthread_kill(waiting, STALLED)
                if not done.wait(GRACE_S):
                    end_process(message)


def beat_after(part: object, method: str, engine: Engine) -> None:
    """Have a part of an engine call `engine.beat()` after each call of one of its methods."""
    plain = getattr(part, method)

    def beating(*args, **kwargs):
        returned = plain(*args, **kwargs)
        engine.beat()
        return returned

    setattr(part, method, beating)


def end_process(message: str) -> None:
    """For a main thread that hears nothing any more: nothing but ending is left. What is on disk stays."""
    print(f"edge-lightning: {message}", file=sys.stderr, flush=True)
    os._exit(1)


def check(requests: Sequence[Request], generations: Sequence[Generation], name: str) -> None:
    """Raise EngineError unless each request has a response of at least one token with its log-probabilities."""
    if len(generations) != len(requests):
        raise EngineError(f"{name} returned {len(generations)} responses, {len(requests)} were asked for; start again")
    checks: list[tuple[str, Callable[[Request, Generation], bool]]] = [
        ("no token", lambda _, made: not made.token_ids),
        ("more tokens than the limit", lambda asked, made: len(made.token_ids) > asked.max_tokens),
        ("a negative token id", lambda _, made: min(made.token_ids) < 0),
        ("log-probabilities of other tokens", lambda _, made: _logprobs(made) != len(made.token_ids)),
        ("a log-probability that is no number", lambda _, made: not all(map(math.isfinite, made.logprobs or ()))),
    ]
    for fault, is_so in checks:
        bad = [asked.problem.id for asked, made in zip(requests, generations) if is_so(asked, made)]
        if bad:
            problems = named(list(dict.fromkeys(bad)))
            raise EngineError(
                f"{name} returned {fault} for {len(bad)} of {len(requests)} responses, of {problems}; its weights or its "
                "memory may be damaged: start again from the last checkpoint"
            )


def _logprobs(generation: Generation) -> int:
    return len(generation.token_ids) if generation.logprobs is None else len(generation.logprobs)

"""Ctrl-C and SIGTERM during training: at once where nothing is lost by it, else as soon as the step is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedTogether(Exception):
    """All processes of a run have stopped behind a step, with a checkpoint of it."""


class Interruption:
    """Raises KeyboardInterrupt for a signal, but while it is held not before it is released; a second signal raises at once.

    Attributes:
        held: whether weights and record may be out of step.
    """

    def __init__(self) -> None:
        self.held = False
        self._came = False
        self._before: dict[signal.Signals, object] = {}

    def begin(self) -> None:
        """Listen. Only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heard) for number in SIGNALS}

    def end(self) -> None:
        """Listen no more. Safe to call twice. What another has set meanwhile stays."""
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._heard:
                signal.signal(number, handler)
        self._before = {}

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        """Raises KeyboardInterrupt for what came while it was held."""
        self.held = False
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    def _heard(self, number: int, frame: object) -> None:
        if self.held and not self._came:
            self._came = True
        else:
            raise KeyboardInterrupt


@contextmanager
def sigterm_is_control_c() -> Iterator[None]:
    """Inside the block SIGTERM raises KeyboardInterrupt, so that what is open is closed; handlers are put back after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

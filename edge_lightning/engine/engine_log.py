"""What vLLM has to say goes into a file, not over the bars of the terminal, and is shown when it fails."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LAST_LINES = 20
LOGGER = "vllm"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class EngineLog:
    """vLLM's log in a file, from INFO on, or from VLLM_LOGGING_LEVEL where that is set.

    Where VLLM_CONFIGURE_LOGGING=1 or VLLM_LOGGING_CONFIG_PATH is set, vLLM logs as it is told there, and not here.

    Args:
        path: of the file; it is gone on with where it is there.
    Attributes:
        environment: what vLLM has to find when it is imported.
    """

    def __init__(self, path: Path):
        self.path = path
        self.handler: logging.Handler | None = None
        self.environment: dict[str, str] = {}
        if os.environ.get("VLLM_CONFIGURE_LOGGING", "0") != "0" or "VLLM_LOGGING_CONFIG_PATH" in os.environ:
            return
        self.environment = {"VLLM_CONFIGURE_LOGGING": "0"}
        self.handler = _Quiet(path, delay=True, encoding="utf-8")
        self.handler.setFormatter(logging.Formatter(FORMAT))
        logger = logging.getLogger(LOGGER)
        logger.addHandler(self.handler)
        logger.setLevel(os.environ.get("VLLM_LOGGING_LEVEL", "INFO"))
        logger.propagate = False
        logger.disabled = False  # as a configuration of logging leaves those that it does not know

    @contextmanager
    def shown_on_failure(self) -> Iterator[None]:
        """Print the last lines on stderr where the block raises; what it raises goes on."""
        try:
            yield
        except Exception:
            lines = self.last_lines()
            if lines:
                print(f"vLLM failed; the last lines of {self.path}:", *lines, sep="\n  ", file=sys.stderr)
            raise

    def last_lines(self) -> list[str]:
        """The newest lines of the file; none where there is no file."""
        if self.handler is None or not self.path.exists():
            return []
        with self.path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip() for line in deque(file, LAST_LINES)]

    def close(self) -> None:
        """Stop writing. Safe to call twice."""
        if self.handler is not None:
            logging.getLogger(LOGGER).removeHandler(self.handler)
            with suppress(OSError):  # a full disk: what was not written is lost, and no run for it
                self.handler.close()


class _Quiet(logging.FileHandler):
    """Loses what can't be written: a log that fails neither stops a run nor fills its terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # the file is opened here
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        pass

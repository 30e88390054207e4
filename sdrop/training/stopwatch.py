"""Time spent training, apart from the time spent on anything else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Runs inside `running()`, stands still inside `paused()`.

    Args:
        seconds: what it shows to begin with, so that a resumed run goes on counting.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._started: float | None = None

    @property
    def seconds(self) -> float:
        """What it shows now."""
        if self._started is None:
            return self._before
        return self._before + time.perf_counter() - self._started

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs until the end of the block."""
        self._started = time.perf_counter()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stands still until the end of the block; goes on after it if it ran before."""
        ran = self._started is not None
        self._stop()
        try:
            yield
        finally:
            if ran:
                self._started = time.perf_counter()

    def _stop(self) -> None:
        self._before, self._started = self.seconds, None

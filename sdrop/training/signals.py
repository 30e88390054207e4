"""Ctrl-C and SIGTERM as a request to stop between two steps."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Inside, `handler` has the signals; afterwards the handlers from before are back.

    Outside the main thread, where Python allows no handlers, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            # None: a handler that was not set from Python, which Python cannot put back.
            signal.signal(number, signal.SIG_DFL if former is None else former)


class StopRequest:
    """Inside `with StopRequest() as stop:`, the first signal sets `stop.requested` and says so.

    A second one raises KeyboardInterrupt at once. For the handlers see `handled`.
    """

    def __init__(self) -> None:
        self.requested = False
        self._handlers = ExitStack()

    def __enter__(self) -> StopRequest:
        self._handlers.enter_context(handled(self._handle, signal.SIGINT, signal.SIGTERM))
        return self

    def __exit__(self, *error: object) -> None:
        self._handlers.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("stopping; the same again stops at once and loses what is not saved", file=sys.stderr)

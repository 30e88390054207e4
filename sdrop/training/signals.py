"""Ctrl-C and SIGTERM as a request to stop between two steps."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Inside `with StopRequest() as stop:`, the first signal sets `stop.requested` and says so.

    A second one raises KeyboardInterrupt at once. Afterwards the handlers from before are back.
    Outside the main thread, where Python allows no handlers, it changes nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            # None: a handler that was not set from Python, which Python cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("stopping; the same again stops at once and loses what is not saved", file=sys.stderr)

"""Ctrl-C and SIGTERM stop training at a step's boundary, after a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop and did, its state saved. `exit_code` is 130 or 143."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = 128 + number


class StopRequest:
    """Remembers the first signal that asked to stop; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.number = 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Signals are noted inside (in the main thread; elsewhere Python allows no handlers)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request._note) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)

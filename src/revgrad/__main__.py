"""`revgrad`, `python -m revgrad`, and what torchrun starts: `torchrun … -m revgrad train …`."""

from __future__ import annotations

import os
import signal
from typing import Any


def start() -> None:
    """The command line; a signal that comes while it is still being imported is one line too."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    from revgrad.cli import main

    main()


def _leave(number: int, frame: Any) -> None:
    word = b"interrupted" if number == signal.SIGINT else b"terminated"
    os.write(2, b"revgrad: " + word + b"\n")
    os._exit(128 + number)  # nothing has begun that would want an ending


if __name__ == "__main__":
    start()

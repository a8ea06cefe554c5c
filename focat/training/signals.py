"""Signals that ask training to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """A signal asked training to stop; everything is saved."""

    def __init__(self, number: int, update: int) -> None:
        super().__init__(f"stopped at update {update:,}, and saved; the same command goes on from there")
        self.exit_code = 128 + number


class StopSignals:
    """SIGTERM and Ctrl-C stop training after the current update; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None  # number of the signal

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note signals instead of dying of them."""

        def handle(number: int, _: FrameType | None) -> None:
            if self.received == signal.SIGINT and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.received = number

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

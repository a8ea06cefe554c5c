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


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP, the end of the terminal, unless that is ignored, as it is behind `nohup`."""
    ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGTERM] if ignores_hangup else [signal.SIGTERM, signal.SIGHUP]


class StopSignals:
    """Ctrl-C, SIGTERM and the end of the terminal stop training after the current update; a second Ctrl-C at once."""

    def __init__(self) -> None:
        self.received: int | None = None  # number of the signal

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note signals instead of dying of them."""

        def handle(number: int, _: FrameType | None) -> None:
            if self.received == signal.SIGINT and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.received = number

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, *ending_signals())}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

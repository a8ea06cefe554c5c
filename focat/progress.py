"""Progress of long work: a live bar in a terminal, plain lines in a pipe, nothing when told to be quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Bar:
    """How far one piece of work is."""

    def __init__(self, label: str, unit: str, total: int | None, out: TextIO | None) -> None:
        self.label, self.unit, self.total, self.done = label, unit, total, 0
        self._earlier = 0  # how much of it was done before this process began
        self._out = out
        self._live = out is not None and out.isatty()
        self._start = self._shown = time.monotonic()
        self._show()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """How much is done in a second."""
        return (self.done - self._earlier) / max(self.seconds, 1e-6)

    def advance(self, count: int = 1, earlier: bool = False) -> None:
        """Some more is done, now or in an earlier session."""
        self.done += count
        self._earlier += count * earlier
        if time.monotonic() - self._shown > (0.1 if self._live else 10.0):
            self._show()

    def finish(self, how: str) -> None:
        """Say how it ended, and how long it took."""
        if self._out is not None:
            print(f"{self._head()}{self._text()} {how} in {self.seconds:.1f} s", file=self._out, flush=True)

    def _show(self) -> None:
        self._shown = time.monotonic()
        if self._out is not None and (self._live or self.done):
            end = "" if self._live else "\n"
            print(f"{self._head()}{self._text()}{self._left()} …", end=end, file=self._out, flush=True)

    def _head(self) -> str:
        return "\r\x1b[2K" if self._live else ""

    def _text(self) -> str:
        if not self.unit:
            return self.label
        digits = 1 if 0 < self.rate < 10 else 0
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.label}: {self.done:,}{of} {self.unit}, {self.rate:,.{digits}f}/s"

    def _left(self) -> str:
        if not self.total or self.rate == 0:
            return ""
        minutes, seconds = divmod(round((self.total - self.done) / self.rate), 60)
        hours, minutes = divmod(minutes, 60)
        return f", {hours}:{minutes:02}:{seconds:02} left" if hours else f", {minutes}:{seconds:02} left"


class Progress:
    """Where progress is shown; standard error, so that results can be piped."""

    def __init__(self, out: TextIO | None = sys.stderr) -> None:
        self._out = out
        self._open = False  # whether the terminal's last line will be written over

    def log(self, text: str) -> None:
        """One line that stays."""
        if self._out is not None:
            print(("\n" if self._open else "") + text, file=self._out, flush=True)
            self._open = False

    def status(self, text: str) -> None:
        """How things stand: one line that a terminal writes over the next time; in a pipe, a line like any other."""
        if self._out is not None and self._out.isatty():
            print(f"\r\x1b[2K{text}", end="", file=self._out, flush=True)
            self._open = True
        else:
            self.log(text)

    @contextmanager
    def bar(self, label: str, unit: str = "", total: int | None = None) -> Iterator[Bar]:
        """A piece of work that is under way."""
        bar = Bar(label, unit, total, self._out)
        try:
            yield bar
        except BaseException:
            bar.finish("stopped")
            raise
        bar.finish("done")


def shortened(text: str, most: int = 160) -> str:
    """A text that may be long, cut to what fits on a screen."""
    return text if len(text) <= most else text[: most - 1] + "…"


NULL_PROGRESS = Progress(out=None)

"""Progress of long work: a live bar in a terminal, plain lines in a pipe, nothing when it is to be quiet."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as LiveDisplay

from focat.printing import discard_output, printable

_REFRESH_SECONDS = 0.1  # of a live bar
_LINE_SECONDS = 10.0  # between the lines of a pipe


class Bar:
    """How much of one piece of work is done, and how fast."""

    def __init__(self, label: str, unit: str, total: int | None, console: Console | None) -> None:
        self.label, self.unit, self.total, self.done = printable(label), unit, total, 0
        self._done_earlier = 0  # by a process that was interrupted: counts as done, but not for the rate
        self._console = console
        self._start = self._shown = time.monotonic()
        self._live: LiveDisplay | None = None
        if console is not None and console.is_interactive:
            columns = TextColumn("{task.description}", markup=False), BarColumn()
            self._live = LiveDisplay(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self._live.add_task(self._text(), total=total)
            self._live.start()

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Units done per second."""
        return (self.done - self._done_earlier) / max(self.seconds, 1e-6)

    def advance(self, count: int = 1, earlier: bool = False) -> None:
        """Count units as done, by this process or by an earlier one whose work is resumed."""
        self.done += count
        self._done_earlier += count * earlier
        if time.monotonic() - self._shown > (_LINE_SECONDS if self._live is None else _REFRESH_SECONDS):
            self._show()

    def finish(self, how: str) -> None:
        """Replace the bar by one line that says how the work ended and how long it took."""
        if self._live is not None:
            self._live.stop()
        if self._console is not None:
            self._console.out(f"{self._text()} {how} in {self.seconds:.1f} s", highlight=False)

    def _show(self) -> None:
        self._shown = time.monotonic()
        text = f"{self._text()}{self._time_left()} …"
        if self._live is not None:
            self._live.update(self._task, completed=self.done, description=text)
        elif self._console is not None:
            self._console.out(text, highlight=False)

    def _text(self) -> str:
        if not self.unit:
            return self.label
        digits = 1 if 0 < self.rate < 10 else 0
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.label}: {self.done:,}{of} {self.unit}, {self.rate:,.{digits}f}/s"

    def _time_left(self) -> str:
        if not self.total or self.rate == 0:
            return ""
        minutes, seconds = divmod(round((self.total - self.done) / self.rate), 60)
        hours, minutes = divmod(minutes, 60)
        return f", {hours}:{minutes:02}:{seconds:02} left" if hours else f", {minutes}:{seconds:02} left"


class _WhileRead(io.TextIOBase):
    """A stream that may lose its reader, as when a terminal is closed: work whose progress it shows goes on."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._out.encoding

    def isatty(self) -> bool:
        return self._out.isatty()

    def write(self, text: str) -> int:
        with self._reader_may_leave():
            self._out.write(text)
        return len(text)

    def flush(self) -> None:
        with self._reader_may_leave():
            self._out.flush()

    @contextmanager
    def _reader_may_leave(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            with suppress(OSError):  # it may have no file
                discard_output(self._out)


class Progress:
    """Where progress is shown: standard error, so that results can be piped."""

    def __init__(self, out: TextIO | None = sys.stderr) -> None:
        self._out = None if out is None else cast(TextIO, _WhileRead(out))
        self._console = None if self._out is None else Console(file=self._out, force_terminal=self._out.isatty())
        self._status_shown = False  # whether the terminal's last line is a status

    def log(self, text: str) -> None:
        """Show a line that stays."""
        if self._console is not None:
            self._console.out(("\n" if self._status_shown else "") + printable(text), highlight=False)
            self._status_shown = False

    def status(self, text: str) -> None:
        """Show a line that the next status replaces in a terminal; in a pipe, a line like any other."""
        if self._console is not None and self._out is not None and self._console.is_interactive:
            print(f"\r\x1b[2K{printable(text)}", end="", file=self._out, flush=True)
            self._status_shown = True
        else:
            self.log(text)

    @contextmanager
    def bar(self, label: str, unit: str = "", total: int | None = None) -> Iterator[Bar]:
        """Show the progress of the work inside the block, and at its end how long it took."""
        bar = Bar(label, unit, total, self._console)
        try:
            yield bar
        except BaseException:
            bar.finish("stopped")
            raise
        bar.finish("done")


def shortened(text: str, most: int = 160) -> str:
    """Cut a text that may be long to what fits on a screen."""
    return text if len(text) <= most else text[: most - 1] + "…"


NULL_PROGRESS = Progress(out=None)

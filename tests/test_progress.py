"""Progress in a pipe, in a terminal, and not at all. The clock is set by hand, so that nothing waits."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest

from focat import progress
from focat.progress import NULL_PROGRESS, Progress


class Terminal(io.StringIO):
    """Where a person looks on."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can move its cursor, whatever the tests run in."""
    monkeypatch.setenv("TERM", "xterm")


class Clock:
    """Tells the time that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of progress bars alone: a server of other tests may run in a thread, and sleep by the real one."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=clock))
    return clock


def test_a_pipe_gets_a_line_every_ten_seconds_and_one_at_the_end(clock: Clock) -> None:
    out = io.StringIO()
    with Progress(out).bar("reading", "pairs", total=5000) as bar:
        for _ in range(5):
            clock.now += 4
            bar.advance(1000)
    assert out.getvalue().splitlines() == [
        "reading: 3,000 of 5,000 pairs, 250/s, 0:08 left …",  # after 12 seconds, the first that are more than 10
        "reading: 5,000 of 5,000 pairs, 250/s done in 20.0 s",
    ]


def test_a_terminal_gets_a_bar_and_at_the_end_one_line(clock: Clock) -> None:
    out = Terminal()
    with Progress(out).bar("reading", "pairs", total=40) as bar:
        bar.advance(5)  # shows nothing: less than a tenth of a second since the last time
        clock.now += 0.5
        bar.advance(5)
        time.sleep(0.25)  # the display refreshes ten times a second
    assert "reading: 10 of 40 pairs, 20/s, 0:02 left … " in out.getvalue()
    assert "━━━━" in out.getvalue()
    assert out.getvalue().endswith("reading: 10 of 40 pairs, 20/s done in 0.5 s\n")


def test_lines_logged_beside_a_bar_stay(clock: Clock) -> None:
    out = Terminal()
    progress = Progress(out)
    with progress.bar("reading", "pairs"):
        progress.log("one [bold]pair[/bold] has no end")
    assert "one [bold]pair[/bold] has no end\n" in out.getvalue()


def test_work_without_a_count_shows_its_name_and_time(clock: Clock) -> None:
    out = io.StringIO()
    with Progress(out).bar("training the tokenizer"):
        clock.now += 2.25
    assert out.getvalue() == "training the tokenizer done in 2.2 s\n"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_work_that_fails_says_so_and_fails(clock: Clock, error: type[BaseException]) -> None:
    out = Terminal()
    with pytest.raises(error), Progress(out).bar("reading", "pairs"):
        raise error
    assert out.getvalue().endswith("reading: 0 pairs, 0/s stopped in 0.0 s\n")  # what follows starts on its own line


def test_a_line_is_logged_at_once() -> None:
    out = io.StringIO()
    Progress(out).log("store is up to date")
    assert out.getvalue() == "store is up to date\n"


def test_quiet_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    NULL_PROGRESS.log("nothing")
    with NULL_PROGRESS.bar("nothing", "at all") as bar:
        bar.advance()
    assert bar.done == 1
    assert capfd.readouterr() == ("", "")


def test_how_things_stand_is_written_over_in_a_terminal_and_kept_in_a_pipe() -> None:
    written: dict[type, str] = {}
    for kind in (Terminal, io.StringIO):
        out = kind()
        progress = Progress(out)
        progress.status("update 1")
        progress.status("update 2")
        progress.log("validated")
        progress.log("saved")
        written[kind] = out.getvalue()
    assert written[io.StringIO] == "update 1\nupdate 2\nvalidated\nsaved\n"
    assert written[Terminal] == "\r\x1b[2Kupdate 1\r\x1b[2Kupdate 2\nvalidated\nsaved\n"

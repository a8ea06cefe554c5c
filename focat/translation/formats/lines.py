"""The lines of a file to translate, or of standard input, exactly as they are."""

from __future__ import annotations

import io
import os
import re
import select
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from focat.corpus.text_files import CHUNK, Lines, open_bytes
from focat.errors import FocatError

STDIN = Path("-")
_BOM = "\ufeff"
ANY_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
"""A line with its end: a line feed, a carriage return, or both."""
_LINE_END = re.compile(r"(?:\r\n?|\n)\Z")
_PAUSE = 0.01  # seconds without input after which a writer is taken to wait for an answer
_MAX_DELAY = 0.25  # seconds that lines are collected from a writer that makes shorter pauses


class InputLines(Lines):
    """The lines of a UTF-8 file with their ends; `-` is standard input, which can be read once.

    A line ends at a line feed, with or without a carriage return before it; in a file without any line feed, it ends
    at a carriage return.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(Path("standard input") if path == STDIN else path)
        self._stdin = path == STDIN
        self._stream: io.BufferedReader | None = None
        self._complete: deque[bytes] = deque()  # lines that were read and not returned
        self._partial: list[bytes] = []  # the beginning of a line
        self._collecting_since: float | None = None

    def __iter__(self) -> Iterator[str]:
        return self._read_lines(any_end=False)

    def with_any_end(self) -> Iterator[str]:
        """The lines where every carriage return ends one, too."""
        return self._read_lines(any_end=True)

    def plain(self) -> Iterator[tuple[str, str]]:
        """Each line and its end, without a byte-order mark."""
        for line in self:
            text = line.removeprefix(_BOM) if self.number == 1 else line
            yield split_line_end(text)

    def ready(self) -> bool:
        """Whether the next line can be read now. False: whoever writes to this pipe may be waiting for an answer."""
        now = time.monotonic()
        self._collecting_since = self._collecting_since or now
        pause = _PAUSE if now - self._collecting_since < _MAX_DELAY else 0.0
        while self._stream is not None and not self._complete and _readable(self._stream, pause):
            if not self._read_some():
                return True  # the end, which nobody has to wait for
        if self._stream is None or self._complete:
            return True
        self._collecting_since = None
        return False

    def _read_lines(self, any_end: bool) -> Iterator[str]:
        self.number = 0
        self._complete.clear()
        self._partial.clear()
        with self._open() as self._stream:
            try:
                while True:
                    while not self._complete and self._read_some():
                        pass
                    if not self._complete:
                        return
                    raw = self._complete.popleft()
                    any_end |= self.number == 0 and not raw.endswith(b"\n")
                    if not any_end:
                        self.number += 1
                        yield raw.decode()
                        continue
                    for line in ANY_LINE.findall(self._decode_any(raw)):
                        self.number += 1
                        yield line
            except UnicodeDecodeError as error:
                raise self._not_utf8(error) from error
            except OSError as error:
                raise FocatError(f"{self.path}: cannot be read ({error.strerror or error})") from error
            finally:
                self._stream = None

    def _decode_any(self, raw: bytes) -> str:
        """Decode what may be several lines; an error names the one it is in."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            start = raw.rfind(b"\r", 0, error.start) + 1
            self.number += raw.count(b"\r", 0, start) + 1
            raw[start:].decode()
            raise

    def _read_some(self) -> bool:
        """Read what there is, waiting for it if necessary; False at the end."""
        assert self._stream is not None
        chunk = self._stream.read1(CHUNK)
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            self._complete.append(b"".join([*self._partial, line, b"\n"]))
            self._partial.clear()
        if rest:
            self._partial.append(rest)
        if not chunk and self._partial:  # the last line, without an end
            self._complete.append(b"".join(self._partial))
            self._partial.clear()
        return bool(chunk)

    def _open(self) -> io.BufferedReader:
        if not self._stdin:
            return open_bytes(self.path)
        try:
            return os.fdopen(os.dup(0), "rb")
        except OSError:
            raise FocatError("standard input is closed: name a file, or pipe something in") from None


def split_line_end(line: str) -> tuple[str, str]:
    """A line without its end, and the end: a line feed, a carriage return, or both."""
    end = _LINE_END.search(line)
    return (line[: end.start()], end[0]) if end else (line, "")


def _readable(stream: io.BufferedReader, pause: float) -> bool:
    """Whether something can be read from a stream within these seconds; always of a file."""
    try:
        return bool(select.select([stream], [], [], pause)[0])
    except (OSError, ValueError):  # a compressed file, which has no descriptor
        return True

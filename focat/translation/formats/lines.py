"""The lines of a file to translate, or of standard input, exactly as they are."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from focat.corpus.text_files import CHUNK, DEFAULT_LIMIT, LineLimit, Lines, open_bytes
from focat.errors import FocatError
from focat.translation.formats.encodings import UTF8, as_utf8, file_encoding, pipe_encoding

STDIN = Path("-")
_BOM = "\ufeff"
ANY_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
"""A line with its end: a line feed, a carriage return, or both."""
_LINE_END = re.compile(r"(?:\r\n?|\n)\Z")


class InputLines(Lines):
    """The lines of a file with their ends; `-` is standard input, which can be read once.

    A file that is not UTF-8 is read in the encoding that is given, or else in the likeliest one.

    A line ends at a line feed, with or without a carriage return before it; in a file without any line feed, it ends
    at a carriage return.
    """

    encoding_remedy = "name the encoding of the file"

    def __init__(
        self,
        path: Path,
        limit: LineLimit = DEFAULT_LIMIT,
        encoding: str | None = None,
        language: str = "en",
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare to read a file.

        Args:
            encoding: that of the file; it is found out if not given.
            language: that of the text, which helps to find out its encoding.
            report: is told which encoding was found, if it is not UTF-8.
        """
        super().__init__(Path("standard input") if path == STDIN else path, limit)
        self._stdin, self._language, self._report = path == STDIN, language, report
        self._encoding = encoding

    def __iter__(self) -> Iterator[str]:
        return self._read_lines(any_end=False)

    def with_any_end(self) -> Iterator[str]:
        """The lines where every carriage return ends one, too."""
        return self._read_lines(any_end=True)

    def read_bytes(self) -> bytes:
        """The whole file, if it is no text.

        Raises:
            FocatError: it cannot be read.
        """
        with self._open_bytes() as stream:
            try:
                return stream.read()
            except OSError as error:
                raise FocatError(f"{self.path}: cannot be read ({error.strerror or error})") from error

    def plain(self) -> Iterator[tuple[str, str]]:
        """Each line and its end, without a byte-order mark."""
        for line in self:
            text = line.removeprefix(_BOM) if self.number == 1 else line
            yield split_line_end(text)

    def _read_lines(self, any_end: bool) -> Iterator[str]:
        self.number = 0
        with self._open() as stream:
            try:
                for raw in self._raw_lines(stream):
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

    def _decode_any(self, raw: bytes) -> str:
        """Decode what may be several lines; an error names the one it is in."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            start = raw.rfind(b"\r", 0, error.start) + 1
            self.number += raw.count(b"\r", 0, start) + 1
            raw[start:].decode()
            raise

    def _open(self) -> io.BufferedReader:
        stream = self._open_bytes()
        encoding = self._encoding
        if encoding is None and not self._stdin and self.path.is_file():
            encoding = file_encoding(self.path, self._language, self._report)
        elif encoding is None:
            encoding = pipe_encoding(self.path, stream, self._language, self._report)
        return stream if encoding == UTF8 else as_utf8(self.path, stream, encoding)

    def _open_bytes(self) -> io.BufferedReader:
        if not self._stdin:
            return open_bytes(self.path)
        try:
            return io.BufferedReader(io.FileIO(os.dup(0), "rb"), CHUNK)
        except OSError:
            raise FocatError("standard input is closed: name a file, or pipe something in") from None


def split_line_end(line: str) -> tuple[str, str]:
    """A line without its end, and the end: a line feed, a carriage return, or both."""
    end = _LINE_END.search(line)
    return (line[: end.start()], end[0]) if end else (line, "")

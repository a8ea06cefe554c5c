"""The lines of a file to translate, or of standard input, exactly as they are."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

from focat.corpus.text_files import Lines, open_bytes
from focat.errors import FocatError

STDIN = Path("-")
_BOM = "\ufeff"


class InputLines(Lines):
    """The lines of a UTF-8 file with their ends; `-` is standard input, which can be read once."""

    def __init__(self, path: Path) -> None:
        super().__init__(Path("standard input") if path == STDIN else path)
        self._stdin = path == STDIN

    def __iter__(self) -> Iterator[str]:
        self.number = 0
        with self._open() as stream:
            try:
                for raw in stream:
                    self.number += 1
                    yield raw.decode()
            except UnicodeDecodeError as error:
                raise self._not_utf8(error) from error
            except OSError as error:
                raise FocatError(f"{self.path}: cannot be read ({error.strerror or error})") from error

    def plain(self) -> Iterator[tuple[str, str]]:
        """Each line and its end, without a byte-order mark."""
        for line in self:
            text = line.removeprefix(_BOM) if self.number == 1 else line
            yield split_line_end(text)

    def _open(self) -> io.BufferedReader:
        if not self._stdin:
            return open_bytes(self.path)
        try:
            return os.fdopen(os.dup(0), "rb")
        except OSError:
            raise FocatError("standard input is closed: name a file, or pipe something in") from None


def split_line_end(line: str) -> tuple[str, str]:
    """A line without its end, and the end: a line feed, perhaps with a carriage return before it."""
    text = line.removesuffix("\n")
    if text != line:
        text = text.removesuffix("\r")
    return text, line[len(text) :]

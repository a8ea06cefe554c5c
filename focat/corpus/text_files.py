"""Text files, plain or compressed (.gz, .xz, .zst), as lines that know their number.

Whatever is wrong with a file (missing, cut short, not UTF-8, not parallel to its partner) is one clear error.
"""

from __future__ import annotations

import codecs
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

import zstandard

from focat.errors import FocatError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 1 << 16
"""Bytes read from a file at a time."""
# Bytes decompressed at a time, to 128 MiB at most: 4 bytes of a .zst can stand for 128 KiB.
_COMPRESSED_CHUNK = 1 << 12
# Single spaces inside a text are most of its white space and stay: everything else is replaced.
_FOLDED = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]|^ | $")


class LineLimit(NamedTuple):
    """How long a line may be, so that a file without line ends does not fill the memory."""

    bytes: int = 16 << 20
    setting: str | None = None
    """The setting that raises it, if there is one."""

    @property
    def remedy(self) -> str:
        """What to do about a line that is longer."""
        return "break it" if self.setting is None else f"break it, or raise {self.setting}"


DEFAULT_LIMIT = LineLimit()


class DamagedFile(FocatError):
    """A compressed file that ends too early or holds something else than its name says."""


def open_bytes(path: Path) -> io.BufferedReader:
    """The bytes of a file, decompressed if its name ends in .gz, .xz or .zst."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error
    decompressor = DECOMPRESSORS.get(path.suffix.lower())
    if decompressor is None:
        return file
    # The buffered reader finds the ends of lines in C, which is what makes a large corpus quick to read.
    return io.BufferedReader(_Decompressed(path, file, decompressor), CHUNK)


def read_lines(path: Path, limit: LineLimit = DEFAULT_LIMIT) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends."""
    return iter(Lines(path, limit))


class Lines:
    """The lines of a file. While they are iterated over, `number` is that of the line last given.

    A line ends at a line feed (with or without a carriage return before it) and nowhere else: the other
    characters that Unicode calls line breaks occur inside sentences, and would shift one side of a corpus.
    """

    encoding_remedy = "save the file as UTF-8 (iconv -f ITS-ENCODING -t UTF-8)"

    def __init__(self, path: Path, limit: LineLimit = DEFAULT_LIMIT, encoding: str = "utf-8") -> None:
        self.path, self.limit, self.encoding = path, limit, encoding
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        self.number = 0
        with open_bytes(self.path) as stream:
            try:
                for raw in self._raw_lines(stream):
                    self.number += 1
                    if self.number == 1:
                        raw = raw.removeprefix(codecs.BOM_UTF8)
                    yield raw.removesuffix(b"\n").removesuffix(b"\r").decode(self.encoding)
            except UnicodeDecodeError as error:
                raise self._not_utf8(error) from error
            except DamagedFile as error:
                where = f"after line {self.number}" if self.number else "before the end of its first line"
                raise _damaged(self.path, where) from error
            except OSError as error:
                raise _unreadable(self.path, error) from error

    def _raw_lines(self, stream: io.BufferedReader) -> Iterator[bytes]:
        """The lines as bytes, with their ends; one that is too long is an error before it is in memory."""
        for raw in iter(partial(stream.readline, self.limit.bytes + 1), b""):
            if len(raw) > self.limit.bytes:
                self.number += 1
                raise self.error(f"is longer than {self.limit.bytes:,} bytes; {self.limit.remedy}")
            yield raw

    def error(self, problem: str) -> FocatError:
        """An error about the line last given."""
        return FocatError(f"{self.path}, line {self.number}: {problem}")

    def _not_utf8(self, error: UnicodeDecodeError) -> FocatError:
        column = len(error.object[: error.start].decode(self.encoding)) + 1
        return self.error(
            f"byte 0x{error.object[error.start]:02X} at column {column} is not {self.encoding.upper()}; "
            f"{self.encoding_remedy}"
        )


def parallel_lines(*files: Lines) -> Iterator[tuple[str, ...]]:
    """One line of each file at a time; files of unequal length are an error that says where they part."""
    streams = [iter(lines) for lines in files]
    try:
        yield from zip(*streams, strict=True)
    except ValueError as error:
        for stream in streams:
            for _ in stream:  # only counted, so that the error can give the length of each file
                pass
        shortest = min(files, key=lambda lines: lines.number)
        longest = max(files, key=lambda lines: lines.number)
        raise FocatError(
            f"{shortest.path} has {shortest.number} lines but {longest.path} has {longest.number}: "
            f"line {shortest.number + 1} of {longest.path} has no partner; "
            f"the files must correspond line for line"
        ) from error


def is_blank(line: str) -> bool:
    """Whether there is nothing but white space in it."""
    return not line or line.isspace()


def fold_spaces(text: str) -> str:
    """The text on one line: white space of XML and of PO, which is ASCII, becomes one space, and none at the ends."""
    if _FOLDED.search(text) is None:
        return text
    return _FOLDED.sub(" ", text).strip(" ")


class _Decompressor(Protocol):
    """What the decompressors of zlib, lzma and zstandard have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


# Said outright: zlib reads gzip only when asked to, and `zstd --long` writes windows above zstandard's own limit.
DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    ".gz": lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS),
    ".xz": lambda: lzma.LZMADecompressor(),
    ".zst": lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
}


class _Decompressed(io.RawIOBase):
    """The plain bytes of a compressed file.

    One reader for all formats because the libraries' own differ where it matters: zstandard's takes a file
    that was cut short for a whole one, and the other two lose the lines just before the cut.
    """

    def __init__(self, path: Path, file: BinaryIO, new_decompressor: Callable[[], _Decompressor]) -> None:
        self._path = path
        self._file = file
        self._new_decompressor = new_decompressor
        self._decompressor = new_decompressor()
        self._compressed = b""  # read from the file, not yet decompressed
        self._plain = io.BytesIO()  # decompressed, not yet given to the caller

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not (count := self._plain.readinto(buffer)):
            try:
                piece = self._decompress_piece()
            except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
                raise _damaged(self._path) from error
            if piece is None:
                return 0
            self._plain = io.BytesIO(piece)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()

    def _decompress_piece(self) -> bytes | None:
        """The next plain bytes, perhaps none yet, or None at the end of the file."""
        compressed = self._compressed or self._file.read(_COMPRESSED_CHUNK)
        self._compressed = b""
        if not compressed:
            if not self._decompressor.eof:
                raise EOFError
            return None
        if self._decompressor.eof:  # another stream may follow the one that has ended, after a padding of zeros
            compressed = compressed.lstrip(b"\0")
            if not compressed:
                return b""
            self._decompressor = self._new_decompressor()
        plain = self._decompressor.decompress(compressed)
        self._compressed = self._decompressor.unused_data
        return plain


def _damaged(path: Path, where: str = "") -> DamagedFile:
    cut = f"damaged or cut short {where}".rstrip()
    return DamagedFile(f"{path}: not a whole {path.suffix} file, {cut}; fetch or make it again")


def _unreadable(path: Path, error: OSError) -> FocatError:
    if isinstance(error, FileNotFoundError):
        return FocatError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return FocatError(f"{path}: a folder, where a file was expected")
    if isinstance(error, PermissionError):
        return FocatError(f"{path}: no permission to read this file")
    return FocatError(f"{path}: cannot be read ({error.strerror or error})")

"""Where translations are written: files that appear when they are complete, and standard output."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from focat.errors import FocatError
from focat.files import atomic_file
from focat.translation.formats import FileSegment, is_archive
from focat.translation.formats.documents.archives import ArchiveWriter
from focat.translation.formats.encodings import UTF8, TextEncoder
from focat.translation.journal import FileId, Journal
from focat.translation.result import Translation


class SegmentWriter(Protocol):
    """Writes the segments of one file."""

    def write(self, segment: FileSegment, translations: Sequence[Translation]) -> None:
        """Write a segment with its translations.

        Raises:
            FocatError: the encoding of the output does not have one of its characters.
        """

    def finish(self) -> None:
        """Write what is not written yet, when all segments are there."""


class _TextWriter:
    """Writes segments as they come."""

    def __init__(self, out: BinaryIO, path: Path, encoding: str) -> None:
        self._out, self._encoder = out, TextEncoder(path, encoding)

    def write(self, segment: FileSegment, translations: Sequence[Translation]) -> None:
        self._out.write(self._encoder.encode(segment.write(translations), segment.line))

    def finish(self) -> None:
        pass


def segment_writer(out: BinaryIO, format: str, path: Path, encoding: str = UTF8) -> SegmentWriter:
    """What writes a file of a format.

    Args:
        out: where to.
        path: its name, for errors.
        encoding: of what is written, if it is text.
    """
    return ArchiveWriter(out) if is_archive(format) else _TextWriter(out, path, encoding)


class _TextOutput(io.RawIOBase):
    """Standard output that takes text only, as that of a notebook."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        sys.stdout.write(bytes(data).decode())
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def standard_output() -> BinaryIO:
    """Standard output, for bytes."""
    if sys.stdout is None:
        raise FocatError("standard output is closed; give an output file")
    sys.stdout.flush()  # what was printed before comes first
    return cast("BinaryIO", getattr(sys.stdout, "buffer", None) or _TextOutput())


def takes_bytes() -> bool:
    """Whether standard output is a file or a pipe, and no place for text alone, such as a terminal or a notebook."""
    return sys.stdout is None or (hasattr(sys.stdout, "buffer") and not sys.stdout.isatty())


@contextmanager
def output_file(path: Path, journal: Journal, before: FileId | None) -> Iterator[BinaryIO]:
    """A file that appears when the block ends, compressed if its suffix says so; the journal knows which it is."""
    with atomic_file(path) as file:
        compressed = _compressed(path, file)
        yield compressed
        if compressed is not file:
            compressed.close()
        file.flush()
        journal.record_output(file_id(os.fstat(file.fileno())), before)


def file_id(file: os.stat_result) -> FileId:
    """Tells a file from any other, and from itself after a change."""
    return [file.st_ino, file.st_size, file.st_mtime_ns]


def _compressed(path: Path, file: BinaryIO) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast("BinaryIO", gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        case ".xz":
            return cast("BinaryIO", lzma.LZMAFile(file, "wb"))
        case ".zst":
            return cast("BinaryIO", zstandard.ZstdCompressor().stream_writer(file, closefd=False))
        case _:
            return file

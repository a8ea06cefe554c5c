"""ZIP archives of documents: some of their files are translated, all others are copied.

An archive is read into memory and made in memory, so that it may come from a pipe and go into one.
"""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

from focat.errors import FocatError
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markup import check_xml
from focat.translation.formats.segments import FileSegment, Member, verbatim
from focat.translation.result import Translation

_UNPACKED, _RATIO = 64 << 20, 20  # an archive unpacks to no more than so many bytes, and so many times its size
_ENCRYPTED = 1  # flag of a file
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError)

ReadMember = Callable[[str], Iterator[FileSegment]]
"""The segments of a file in an archive, whose name is given."""


class Archive:
    """A document that is read."""

    def __init__(self, lines: InputLines, kind: str) -> None:
        """Read the archive.

        Args:
            lines: of the document.
            kind: what it should be, for errors.

        Raises:
            FocatError: it is no archive, damaged, encrypted, or far larger than it looks.
        """
        self._lines, self._kind = lines, kind
        content = lines.read_bytes()
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGED:
            raise self.error(
                f"is no {kind} file; if it is in an older format, or has a password, save it anew"
            ) from None
        self.files = self._zip.infolist()
        """Its files, in order."""
        names = [info.filename for info in self.files]
        if len(set(names)) < len(names):
            raise self.error("has two files of one name in it; it is damaged")
        if any(info.flag_bits & _ENCRYPTED for info in self.files):
            raise self.error("is encrypted; save it without a password")
        if sum(info.file_size for info in self.files) > _UNPACKED + _RATIO * len(content):
            raise self.error("unpacks to far more than its size, as no document does; it is refused")
        self._names = set(names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            FocatError: it is missing or damaged.
        """
        if name not in self:
            raise self.error(f"is no {self._kind} file: {name} is missing in it")
        try:
            return self._zip.read(name)
        except _DAMAGED:
            raise self.error(f"{name} in it is damaged") from None

    def read_xml(self, name: str) -> str:
        """The text of an XML file.

        Raises:
            FocatError: it is none.
        """
        text = self.read_text(name)
        if "<!DOCTYPE" in text:
            raise self.error(f"{name} in it has a document type, as no such file has; it is refused")
        check_xml(f"{self._lines.path}: {name}", text)
        return text

    def read_text(self, name: str) -> str:
        """The text of a file.

        Raises:
            FocatError: it is not UTF-8, or too long.
        """
        content, limit = self.read(name), self._lines.limit
        if len(content) > limit.bytes:
            remedy = f"raise {limit.setting}" if limit.setting else "split it"
            raise self.error(f"{name} in it has more than {limit.bytes:,} bytes; {remedy}")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise self.error(f"{name} in it is not UTF-8") from None

    def error(self, problem: str) -> FocatError:
        """What is wrong with the document."""
        return FocatError(f"{self._lines.path}: {problem}")

    def segments(self, members: Mapping[str, ReadMember]) -> Iterator[FileSegment]:
        """The segments of all files, in the order of the archive; those that `members` does not have are copied.

        Each file that is translated is a document. Segments are numbered by what there is to translate.
        """
        number = 1
        for info in self.files:
            if info.filename not in members:
                yield replace(verbatim(number, ""), member=Member(info, self.read(info.filename)))
                continue
            member = Member(info)
            for segment in members[info.filename](info.filename):
                yield replace(segment, line=number, member=member)
                number += bool(segment.sentences)
            yield replace(verbatim(number, "", ends_document=True), member=member)


class ArchiveWriter:
    """Writes the segments of an archive."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._content = out, io.BytesIO()
        self._zip = zipfile.ZipFile(self._content, "w")
        self._member: Member | None = None  # what is being written
        self._pieces: list[str] = []

    def write(self, segment: FileSegment, translations: Sequence[Translation]) -> None:
        """Add a segment."""
        if segment.member is not self._member and segment.member is not None:
            self._write_member()
            self._member = segment.member
        self._pieces.append(segment.write(translations))

    def finish(self) -> None:
        """Write the archive."""
        self._write_member()
        self._zip.close()
        self._out.write(self._content.getbuffer())

    def _write_member(self) -> None:
        """Add the file that is complete to the archive, with the time and the compression that it had."""
        if self._member is None:
            return
        old = self._member.info
        new = zipfile.ZipInfo(old.filename, old.date_time)
        new.compress_type, new.external_attr, new.create_system = (
            old.compress_type,
            old.external_attr,
            old.create_system,
        )
        copied = self._member.copied
        self._zip.writestr(new, "".join(self._pieces).encode() if copied is None else copied)
        self._pieces = []

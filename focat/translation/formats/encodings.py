"""Encodings of files to translate: found out where a file is not UTF-8, and of the output where another is asked for.

Input is converted to UTF-8 as it is read, so that formats see UTF-8 only. UTF-8 is recognised by reading the whole
file, because text in another encoding is hardly ever valid UTF-8; the other encodings by a sample of bounded size.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from focat.corpus.text_files import CHUNK, open_bytes
from focat.errors import FocatError, ParameterError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

UTF8 = "utf-8"
_BOM = "\ufeff"
_MARKS = (  # those of UTF-32 begin like those of UTF-16
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 1 << 16
_DECLARATION = re.compile(rb"""(?:charset|<\?xml[^>]*\sencoding)\s*=\s*["']?([\w.:-]+)""")
_DECLARATION_BYTES = 4096  # where a declaration has to be
# Encodings that text files of each group of languages are found in, the usual one first.
_USUAL = {
    "ca da de en es eu fi fr ga gl is it nb nl nn no pt sv": ("cp1252",),
    "bs cs hr hu pl ro sk sl sq": ("cp1250", "iso8859_2"),
    "be bg mk ru sr uk": ("cp1251", "koi8_r", "koi8_u", "cp866", "iso8859_5"),
    "el": ("cp1253", "iso8859_7"),
    "tr az": ("cp1254", "iso8859_9"),
    "he yi": ("cp1255",),
    "ar fa ur": ("cp1256",),
    "et lt lv": ("cp1257",),
    "vi": ("cp1258",),
    "th": ("tis_620",),
    "zh yue": ("gb18030", "big5"),
    "ja": ("cp932", "euc_jp", "iso2022_jp"),
    "ko": ("cp949",),
}
_RARE = ["cp850", "cp437", "cp852", "mac_roman", "mac_cyrillic"]  # of DOS and the first Macs


def encoding_name(parameter: str, name: str) -> str:
    """The name by which Python knows an encoding of text.

    Raises:
        ParameterError: there is no such encoding.
    """
    try:
        found = codecs.lookup(name)
        "".encode(found.name)  # `hex` and the like are codecs of bytes
    except (LookupError, ValueError):
        problem = "there is no such encoding; give one such as utf-8, utf-16, cp1252 or shift_jis"
        raise ParameterError(parameter, name, problem) from None
    return found.name


def declared_as(declared: str, encoding: str) -> str:
    """What a file should say of its encoding: the same as before, if that is right."""
    try:
        right = codecs.lookup(declared).name == codecs.lookup(encoding).name
    except LookupError:
        right = False
    return declared if right else encoding.upper()


def file_encoding(path: Path, language: str, report: Callable[[str], None]) -> str:
    """The encoding of a file in this language, which is reported if it is not UTF-8.

    A byte-order mark says it; else it is UTF-8 if all of the file is; else a sample around the first byte that is not
    UTF-8 decides. UTF-8 if even that does not help: reading the file then is an error that names the byte.
    """
    with open_bytes(path) as stream:
        found = _marked(stream.peek(4)) or _recognised(stream, language)
    return _reported(path, found, report)


def pipe_encoding(path: Path, stream: io.BufferedReader, language: str, report: Callable[[str], None]) -> str:
    """The encoding of what comes through a pipe, by what has arrived when the first of it is there."""
    arrived = stream.peek(CHUNK)
    found = _marked(arrived) or _recognised(io.BytesIO(arrived), language, complete=False)
    return _reported(path, found, report)


def _marked(head: bytes) -> str | None:
    """The encoding that a byte-order mark stands for."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def _recognised(stream: BinaryIO, language: str, complete: bool = True) -> str | None:
    """The encoding of text without a byte-order mark; if it is not complete, it may end in half a character."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    head = before = chunk = b""
    try:
        while chunk := stream.read(CHUNK):
            head = head or chunk
            decoder.decode(chunk)
            before = chunk
        decoder.decode(b"", final=complete)
    except UnicodeDecodeError:
        sample = before[-_SAMPLE_BYTES // 2 :] + chunk + stream.read(_SAMPLE_BYTES // 2)
        return _declared(head, sample) or guess_encoding(sample, language)
    return UTF8


def _declared(head: bytes, sample: bytes) -> str | None:
    """The encoding that a PO, XML or HTML file names at its beginning, if that can be true."""
    match = _DECLARATION.search(head[:_DECLARATION_BYTES])
    try:
        name = codecs.lookup(match[1].decode("ascii", "replace")).name if match else None
        sample.decode(name or UTF8, "strict")
    except (LookupError, UnicodeError):
        return None
    return name


def _reported(path: Path, encoding: str | None, report: Callable[[str], None]) -> str:
    if encoding not in (None, UTF8):
        report(f"{path}: read as {encoding}; if that is wrong, name its encoding")
    return encoding or UTF8


def guess_encoding(sample: bytes, language: str) -> str | None:
    """The likeliest encoding of text that is not UTF-8: one that is usual for its language, or else another."""
    from charset_normalizer import from_bytes  # slow to import, and rarely needed

    code = re.split("[-_]", language)[0].lower()
    usual = [encoding for languages, names in _USUAL.items() if code in languages.split() for encoding in names]
    for candidates in (usual, [encoding for names in _USUAL.values() for encoding in names], _RARE):
        if candidates and (best := from_bytes(sample, cp_isolation=candidates, enable_fallback=False).best()):
            return codecs.lookup(best.encoding).name
    return None


def as_utf8(path: Path, stream: io.BufferedReader, encoding: str) -> io.BufferedReader:
    """The same text in UTF-8, without a byte-order mark of its own encoding."""
    return io.BufferedReader(_Recoded(path, stream, encoding), CHUNK)


class _Recoded(io.RawIOBase):
    """A stream of text in some encoding as one in UTF-8, converted as it is read."""

    def __init__(self, path: Path, stream: io.BufferedReader, encoding: str) -> None:
        self._path, self._stream, self._encoding = path, stream, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._text = io.BytesIO()  # converted, not yet given to the caller
        self._lines = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not (count := self._text.readinto(buffer)):
            if self._ended:
                return 0
            read = self._stream.read1(CHUNK)  # what is there: a line that came through a pipe does not wait
            self._ended = not read
            try:
                text = self._decoder.decode(read, final=self._ended).encode()
            except UnicodeError as error:  # UTF-16 without a mark has an error of its own
                raise self._wrong(read, error) from error
            self._lines += text.count(b"\n")
            self._text = io.BytesIO(text)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _wrong(self, read: bytes, error: UnicodeError) -> FocatError:
        line = self._lines + 1
        where = ""
        if isinstance(error, UnicodeDecodeError):
            line += error.object[: error.start].count(b"\n")
            where = f"byte 0x{error.object[error.start]:02X} "
        return FocatError(
            f"{self._path}, line {line}: {where}cannot be read as {self._encoding}; name the encoding of the file"
        )


class TextEncoder:
    """Encodes what is written, piece by piece; a byte-order mark is written once, if the encoding has one."""

    def __init__(self, path: Path, encoding: str = UTF8) -> None:
        self._path, self._encoding = path, encoding
        self._encoder = codecs.getincrementalencoder(encoding)()
        self._begun = False

    def encode(self, text: str, line: int) -> bytes:
        """The bytes of a text, which begins at this line of the input.

        Raises:
            FocatError: the encoding does not have one of its characters.
        """
        if not self._begun and text:
            self._begun = True
            if self._encoding != UTF8:
                text = text.removeprefix(_BOM)  # of a file in UTF-8; UTF-16 writes its own
        try:
            return self._encoder.encode(text)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            line += error.object.count("\n", 0, error.start)
            raise FocatError(
                f"{self._path}: {character!r} (U+{ord(character):04X}), near line {line} of the input, does not exist "
                f"in {self._encoding}; choose another output encoding, such as utf-8"
            ) from None

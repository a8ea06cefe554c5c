"""Files to translate: text, JSON lines, subtitles, running text, messages of programs, documents, books.

A file is a sequence of segments. A segment has zero or more sentences to translate, and is written when they are
translated; everything else is copied byte for byte. Every format streams, except archives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from focat.corpus.text_files import DECOMPRESSORS
from focat.errors import FocatError, ParameterError
from focat.translation.formats.documents.epub import epub_segments
from focat.translation.formats.documents.office import docx_segments, pptx_segments
from focat.translation.formats.documents.opendocument import opendocument_segments
from focat.translation.formats.encodings import UTF8
from focat.translation.formats.html import html_segments
from focat.translation.formats.jsonl import jsonl_segments
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markdown import markdown_segments
from focat.translation.formats.po import po_segments
from focat.translation.formats.segments import FileSegment, FormatOptions, SubtitleOptions
from focat.translation.formats.subtitles import ass_segments, srt_segments, vtt_segments
from focat.translation.formats.text import running_text_segments, text_segments
from focat.translation.formats.xliff import xliff_segments

__all__ = [
    "FORMATS",
    "FileSegment",
    "FormatOptions",
    "InputLines",
    "SubtitleOptions",
    "check_effect",
    "format_of",
    "is_archive",
    "is_known",
    "read_segments",
]


@dataclass(frozen=True)
class Format:
    """A kind of file: how its names end, and what reads it."""

    suffixes: tuple[str, ...]
    read: Callable[[InputLines, FormatOptions], Iterator[FileSegment]]
    has_columns: bool = False
    """Whether scores and the n best have a place in it."""
    is_archive: bool = False
    """Whether it is a ZIP archive, which has no lines and no encoding of its own."""


FORMATS = {
    "text": Format((".txt",), text_segments, has_columns=True),
    "jsonl": Format((".jsonl", ".ndjson"), jsonl_segments, has_columns=True),
    "srt": Format((".srt",), srt_segments),
    "vtt": Format((".vtt",), vtt_segments),
    "po": Format((".po", ".pot"), po_segments),
    "xliff": Format((".xlf", ".xliff"), xliff_segments),
    "ass": Format((".ass", ".ssa"), ass_segments),
    "html": Format((".html", ".htm", ".xhtml"), html_segments),
    "markdown": Format((".md", ".markdown"), markdown_segments),
    "docx": Format((".docx", ".docm", ".dotx"), docx_segments, is_archive=True),
    "pptx": Format((".pptx", ".pptm"), pptx_segments, is_archive=True),
    "odt": Format((".odt", ".odp"), opendocument_segments, is_archive=True),
    "epub": Format((".epub",), epub_segments, is_archive=True),
}

_SUBTITLES = ("srt", "vtt", "ass")
_WITH_ENTRIES = ("po", "xliff")
_ENCODED = tuple(name for name, format in FORMATS.items() if not format.is_archive)


def format_of(path: Path, languages: tuple[str, ...] = ()) -> str:
    """The format that a file's suffix stands for. A name without one is text, and so is `talk.en` of a language given.

    Raises:
        FocatError: no format has this suffix.
    """
    if path.suffix.lower() in DECOMPRESSORS:
        path = path.with_suffix("")
    suffix = path.suffix.lower()
    if suffix in ("", *(f".{language.lower()}" for language in languages)):
        return "text"
    for name, format in FORMATS.items():
        if suffix in format.suffixes:
            return name
    known = ", ".join(f"{name} ({' '.join(format.suffixes)})" for name, format in FORMATS.items())
    raise FocatError(
        f"{path}: focat does not read {path.suffix} files; it reads {known}. "
        "If each line of it is a sentence, choose the format text"
    )


def is_known(path: Path) -> bool:
    """Whether a file's suffix stands for a format."""
    path = path.with_suffix("") if path.suffix.lower() in DECOMPRESSORS else path
    return any(path.suffix.lower() in format.suffixes for format in FORMATS.values())


def is_archive(name: str) -> bool:
    """Whether the files of a format are archives."""
    return name in FORMATS and FORMATS[name].is_archive


def check_effect(name: str, options: FormatOptions) -> None:
    """Refuse options that change nothing in a file of this format.

    Raises:
        ParameterError: there is one.
    """
    default, given = asdict(SubtitleOptions()), asdict(options.subtitles)
    changed: dict[str, tuple[object, tuple[str, ...]]]
    changed = {option: (value, _SUBTITLES) for option, value in given.items() if value != default[option]}
    if options.all_entries:
        changed["all_entries"] = (True, _WITH_ENTRIES)
    if options.encoding != UTF8:
        changed["output_encoding"] = (options.encoding, _ENCODED)
    for option, (value, formats) in changed.items():
        if name not in formats:
            raise ParameterError(option, value, f"has no effect on {name}, only on {', '.join(formats)}; leave it out")


def read_segments(lines: InputLines, name: str, options: FormatOptions) -> Iterator[FileSegment]:
    """The segments of a file; `name` is its format, one of FORMATS.

    Raises:
        FocatError: there is no such format, or it cannot hold what the options ask for.
    """
    if name not in FORMATS:
        raise ParameterError("format", name, f"there is no such format; choose from {', '.join(FORMATS)}")
    if options.split:
        if name != "text":
            raise FocatError(f"split: is for running text, not for {name}, where the sentences are given")
        if not options.plain:
            raise FocatError("split: running text has no place for scores or nbest")
        return running_text_segments(lines, *options.languages)
    if not (options.plain or FORMATS[name].has_columns):
        raise ParameterError("format", name, "has no place for scores or nbest")
    return FORMATS[name].read(lines, options)

"""WebVTT files; their header, notes, styles, regions, names and positions are copied byte for byte."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from focat.errors import FocatError
from focat.translation.formats.lines import InputLines
from focat.translation.formats.segments import FileSegment, FormatOptions
from focat.translation.formats.subtitles.cues import Cue, Syntax
from focat.translation.formats.subtitles.sentences import cue_segments
from focat.translation.formats.subtitles.srt import LINE_END, TAG, tag_of
from focat.translation.formats.subtitles.timings import bounded, read_timing

_VOICE = re.compile(r"<v[.\s][^<>]*>")  # who speaks
_TIMED_WORD = re.compile(r"<\d[\d:.]*>(?:<c>([^<>]*)</c>)?")  # as in captions of speech recognition


def vtt_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The cues of a WebVTT file, and what stands between them."""
    return cue_segments(_read(lines), SYNTAX, options)


def _read(lines: InputLines) -> Iterator[str | Cue]:
    between: list[str] = []
    body: list[str] | None = None  # the text of the cue that is being read
    start, shown = 0, (0.0, 0.0)
    for line in bounded(lines):
        if lines.number == 1 and not re.match(r"\ufeff?WEBVTT(?:[ \t\r\n]|$)", line):
            raise lines.error("does not begin with WEBVTT; is this WebVTT? (format names others)")
        timing = read_timing(line, lines)
        if body is not None and (timing or not line.strip("\r\n")):  # an empty line ends a cue, and so does a timing
            yield Cue(start, *shown, "".join(body))
            body = None
        if body is not None:
            body.append(line)
            continue
        between.append(line)
        if timing:
            yield "".join(between)
            between, body, start, shown = [], [], lines.number + 1, timing
    if body is not None:
        yield Cue(start, *shown, "".join(body))
    if lines.number == 0:
        raise FocatError(f"{lines.path}: is empty; a WebVTT file begins with WEBVTT")
    yield "".join(between)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _without_word_times(text: str) -> str:
    return _TIMED_WORD.sub(r"\1", text)


SYNTAX = Syntax(LINE_END, TAG, tag_of, html.unescape, _escape, _VOICE, _without_word_times)

"""SubRip files: cues with a number, a timing and text; everything but the words is copied byte for byte.

A subtitle library would write its own model of the file: other numbers, no notes, no positions, no styles. So the
file is read as lines, among which the text of each cue is found by the timing line above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from focat.errors import FocatError
from focat.translation.formats.lines import InputLines
from focat.translation.formats.segments import FileSegment, FormatOptions
from focat.translation.formats.subtitles.cues import Cue, Syntax
from focat.translation.formats.subtitles.sentences import cue_segments
from focat.translation.formats.subtitles.timings import ARROW, bounded, read_timing
from focat.translation.inline import Tag

LINE_END = re.compile(r"\r\n?|\n")
TAG = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")
_NAME = re.compile(r"</?([A-Za-z0-9]+)|\{\\([ibus])[01]?\}")


def srt_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The cues of a SubRip file, and what stands between them."""
    return cue_segments(_read(lines), SYNTAX, options)


def _read(lines: InputLines) -> Iterator[str | Cue]:
    between: list[str] = []  # lines that are not part of a cue's text
    body: list[str] = []
    number = start = shown = None  # of the cue whose text is being read
    for line in bounded(lines):
        timing = read_timing(line, lines)
        if timing is None:
            (between if shown is None else body).append(line)
            continue
        text, rest = _without_next_number(body, number, line_follows=True)
        if shown is not None:
            yield Cue(start or 0, *shown, "".join(text))
        before = [*between, *rest]
        number, start, shown = _number(before), lines.number + 1, timing
        yield "".join([*before, line])
        between, body = [], []
    if shown is not None:
        text, between = _without_next_number(body, number)
        yield Cue(start or 0, *shown, "".join(text))
    elif any(line.strip("\ufeff \t\r\n") for line in between):
        raise FocatError(
            f"{lines.path}: has no line like `00:00:01,000 --> 00:00:02,000`; is this SRT? (format names others)"
        )
    yield "".join(between)


def _number(before: Sequence[str]) -> int | None:
    """The number of a cue, from the lines above its timing."""
    last = before[-1].removeprefix("\ufeff") if before else ""
    return int(last.strip()) if _is_number(last) else None


def _is_number(line: str) -> bool:
    return line.strip().isdecimal() and len(line) < 20


def _without_next_number(
    body: list[str], number: int | None, line_follows: bool = False
) -> tuple[list[str], list[str]]:
    """The text of a cue, and what follows it: blank lines and the number of the next cue.

    `line_follows`: right below is the timing of the next cue, so that its number, if cues have any, is the last line.
    """
    end = len(body)
    above_timing = line_follows and number is not None and end > 1 and bool(body[-1].strip())
    while end and not body[end - 1].strip():
        end -= 1
    last = body[end - 1] if end else ""
    follows_blank = end > 1 and not body[end - 2].strip()
    follows_number = number is not None and _is_number(last) and int(last.strip()) == number + 1
    if _is_number(last) and (follows_blank or follows_number or above_timing):
        end -= 1
        while end and not body[end - 1].strip():
            end -= 1
    return body[:end], body[end:]


def tag_of(text: str) -> Tag:
    """A tag of SRT or WebVTT."""
    match = _NAME.match(text)
    if match is None:  # {\\an8}
        return Tag(text, "single")
    name = (match[1] or match[2]).lower()
    closes = text.startswith("</") or text[2:] in (f"{match[2]}0}}", f"{match[2]}}}")
    return Tag(text, "single" if name == "br" else "close" if closes else "open", name)


def _escape(text: str) -> str:
    return text.replace(ARROW, "→")  # or it might be read as a timing


SYNTAX = Syntax(LINE_END, TAG, tag_of, unescape=str, escape=_escape)

"""Advanced SubStation Alpha and its ancestor SSA: only the text of dialogue is translated, the rest is copied.

Scripts hold styles, fonts, drawings and effects that no library keeps byte for byte, so lines are read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from focat.errors import FocatError
from focat.translation.formats.lines import InputLines, split_line_end
from focat.translation.formats.segments import FileSegment, FormatOptions
from focat.translation.formats.subtitles.cues import Cue, Syntax
from focat.translation.formats.subtitles.sentences import cue_segments
from focat.translation.inline import Tag

_FORMAT = ("layer", "start", "end", "style", "name", "marginl", "marginr", "marginv", "effect", "text")
_DIALOGUE = re.compile(r"(\ufeff?\s*Dialogue\s*:\s*)(.*)", re.IGNORECASE | re.DOTALL)
_FORMAT_LINE = re.compile(r"\s*Format\s*:(.*)", re.IGNORECASE)
_TIME = re.compile(r"\s*(-?)(\d{1,9}):(\d{1,2}):(\d{1,2}(?:[.:,]\d+)?)\s*$")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9][^{}]*\}")
_KARAOKE = re.compile(r"\{\\[kK][fo]?\d+\}")
_SWITCH = re.compile(r"\{\\([ibus])([01]?)\}")  # italics and the like, on or off


def ass_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The dialogue of a script, in the order of the file, and what stands between."""
    return cue_segments(_read(lines), SYNTAX, options)


def _read(lines: InputLines) -> Iterator[str | Cue]:
    fields: tuple[str, ...] = _FORMAT
    section, is_script = "", False
    for line in lines.with_any_end():
        text, end = split_line_end(line)
        if text.strip("\ufeff \t").startswith("["):
            section, is_script = text.strip("\ufeff \t").lower(), True
        elif section == "[events]" and (match := _FORMAT_LINE.match(text)):
            fields = tuple(name.strip().lower() for name in match[1].split(","))
            if fields[-1] != "text" or not {"start", "end"} <= set(fields):
                raise lines.error("should name Start, End and, as the last field, Text")
        if section not in ("", "[events]") or not (match := _DIALOGUE.match(text)):
            yield line
            continue
        is_script = True
        values = match[2].split(",", len(fields) - 1)
        if len(values) < len(fields):
            raise lines.error(f"has {len(values)} fields, but its Format has {len(fields)}; correct it")
        cue = dict(zip(fields, values, strict=True))
        start, stop = (_seconds(cue[name], lines) for name in ("start", "end"))
        said = values[-1]
        if _DRAWING.search(said):
            yield line
            continue
        yield match[1] + "".join(f"{value}," for value in values[:-1])
        yield Cue(lines.number, start, stop, said, f"{cue.get('style', '')}\n{cue.get('name', '')}")
        yield end
    if not is_script and lines.number:
        raise FocatError(f"{lines.path}: has no section such as [Events]; is this ASS or SSA? (format names others)")


def _seconds(time: str, lines: InputLines) -> float:
    match = _TIME.match(time)
    if match is None:
        raise lines.error(f"{time.strip()[:80]}: is no time like `0:00:01.00`; correct it")
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + float(match[4].replace(",", ".").replace(":", "."))
    return -seconds if match[1] else seconds


def _tag_of(text: str) -> Tag:
    match = _SWITCH.fullmatch(text)
    if match is None:
        return Tag(text, "single")
    return Tag(text, "open" if match[2] == "1" else "close", match[1])


def _unescape(text: str) -> str:
    return text.replace("\\h", "\u00a0")


def _escape(text: str) -> str:
    """Characters that would begin mark-up are replaced; a script has no other way to write them."""
    return text.replace("{", "(").replace("}", ")").replace("\\", "/").replace("\u00a0", "\\h")


SYNTAX = Syntax(
    line_end=re.compile(r"\\[Nn]"),
    tag=re.compile(r"\{[^{}]*\}"),
    tag_of=_tag_of,
    unescape=_unescape,
    escape=_escape,
    without_word_times=partial(_KARAOKE.sub, ""),
)

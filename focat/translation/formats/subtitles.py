"""SRT and WebVTT subtitles: one cue in, one cue out; everything but the words is copied byte for byte.

A subtitle library would write its own model of the file: other numbers, no notes, no positions, no styles. So the
file is read as lines, among which the text of each cue is found by the timing line above it.
"""

from __future__ import annotations

import html
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from focat.errors import FocatError
from focat.translation.formats.lines import ANY_LINE, InputLines, split_line_end
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.result import Translation

_WIDTH = 42  # characters of a line: what broadcasters ask for
_MAX_BALANCED = 200  # words of an utterance that is broken into lines of similar length; no cue to be read has more
_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMING = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?$")
_ARROW = "-->"
# a mistyped timing: a time and some other arrow, or two times and nothing else
_NEARLY_TIMING = re.compile(
    r"\s*\d[\d\s]*[:.,][\d\s:.,;<]*(?:[-‐‑–—−=]\s*)+>|\s*(?:\d+\s*:\s*\d+\s*:\s*\d+[\s.,;<\d]*[-‐‑–—−=>]*\s*){2}$"
)
_OVERRIDES = re.compile(r"(?:\{\\[^{}]*\})+")  # {\an8} and the like, in front of a cue
_TAG = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")
_VOICE = re.compile(r"<v[.\s][^<>]*>")  # who speaks, in WebVTT
_OPENING = re.compile(r"\s*(<([A-Za-z]+)[^<>/]*>)")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u4e00-\u9fff]")  # Thai and Lao, Japanese, Chinese
_DASH = re.compile(r"\s*[-‐‑–—]\s*(?=\S)")  # starts an utterance where two people speak


def srt_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The cues of a SubRip file, and what stands between them."""
    between: list[str] = []  # lines that are not part of a cue's text
    body: list[str] = []
    number, start, cues = None, 0, 0  # of the cue whose text is being read
    for line in _bounded(lines):
        if _is_timing(line, lines):
            text, rest = _without_next_number(body, number, line_follows=True)
            if cues:
                yield from _paragraphs(start, text, _srt_unescape, _srt_escape)
            before = [*between, *rest]
            number = _number(before)
            yield verbatim(lines.number, "".join([*before, line]))
            between, body, start, cues = [], [], lines.number + 1, cues + 1
        else:
            (body if cues else between).append(line)
    if cues:
        text, rest = _without_next_number(body, number)
        yield from _paragraphs(start, text, _srt_unescape, _srt_escape)
        between = rest
    elif any(line.strip("\ufeff \t\r\n") for line in between):
        raise FocatError(
            f"{lines.path}: has no line like `00:00:01,000 --> 00:00:02,000`; is this SRT? (format names others)"
        )
    yield verbatim(lines.number, "".join(between))


def vtt_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The cues of a WebVTT file; its header, notes, styles, regions, names and positions are copied."""
    between: list[str] = []
    body: list[str] | None = None  # the text of the cue that is being read
    start = 0
    for line in _bounded(lines):
        if lines.number == 1 and not re.match(r"\ufeff?WEBVTT(?:[ \t\r\n]|$)", line):
            raise lines.error("does not begin with WEBVTT; is this WebVTT? (format names others)")
        timing = _is_timing(line, lines)
        if body is not None and (timing or not line.strip("\r\n")):  # an empty line ends a cue, and so does a timing
            yield from _voices(start, body)
            body = None
        if body is not None:
            body.append(line)
            continue
        between.append(line)
        if timing:
            yield verbatim(lines.number, "".join(between))
            between, body, start = [], [], lines.number + 1
    if body is not None:
        yield from _voices(start, body)
    if lines.number == 0:
        raise FocatError(f"{lines.path}: is empty; a WebVTT file begins with WEBVTT")
    yield verbatim(lines.number, "".join(between))


def _bounded(lines: InputLines) -> Iterator[str]:
    """The lines; an error if there is more text between two timings than a line may have, since it is in memory."""
    characters = 0
    for line in lines.with_any_end():
        characters = 0 if _TIMING.match(line) else characters + len(line)
        if characters > lines.limit.bytes:
            raise lines.error(f"no timing in the last {lines.limit.bytes:,} characters; {lines.limit.remedy}")
        yield line


def _is_timing(line: str, lines: InputLines) -> bool:
    """Whether this line is the timing of a cue; a mistyped one is an error, or its cue would be text of another."""
    if _TIMING.match(line):
        return True
    if _ARROW in line or _NEARLY_TIMING.match(line):
        raise lines.error(f"{line.strip()[:80]}: is no timing like `00:00:01,000 --> 00:00:02,000`; correct it")
    return False


def _number(before: Sequence[str]) -> int | None:
    """The number of a cue, from the lines above its timing."""
    last = before[-1].removeprefix("\ufeff") if before else ""
    return int(last) if _is_number(last) else None


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
    follows_number = number is not None and _is_number(last) and int(last) == number + 1
    if _is_number(last) and (follows_blank or follows_number or above_timing):
        end -= 1
        while end and not body[end - 1].strip():
            end -= 1
    return body[:end], body[end:]


@dataclass(frozen=True)
class Utterance:
    """What one person says in a cue."""

    dash: str
    text: str
    lines: int


@dataclass(frozen=True)
class Cue:
    """The parts of a cue's text."""

    opening: str  # what encloses all of it
    closing: str
    every_line: bool  # whether it encloses each line rather than the whole
    utterances: Sequence[Utterance]
    width: int
    eol: str
    end: str

    def write(self, escape: Callable[[str], str], translations: Sequence[Translation]) -> str:
        """Render the cue with translations of its utterances."""
        lines: list[str] = []
        for utterance, translation in zip(self.utterances, translations, strict=True):
            first, *others = break_lines(translation.text, utterance.lines, self.width)
            lines += [escape(line) for line in (utterance.dash + first, *others)]
        if self.every_line:
            return self.eol.join(f"{self.opening}{line}{self.closing}" for line in lines) + self.end
        return self.opening + self.eol.join(lines) + self.closing + self.end


def _voices(line: int, body: Sequence[str]) -> Iterator[FileSegment]:
    """The segments of a WebVTT cue: where several people speak, each part is a sentence of its own."""
    text = "".join(body)
    starts = [match.start() for match in _VOICE.finditer(text)] if len(set(_VOICE.findall(text))) > 1 else []
    for start, end in itertools.pairwise(sorted({0, *starts, len(text)})):
        part = text[start:end]
        said = part.rstrip(" \t")
        yield from _paragraphs(line, ANY_LINE.findall(said), _vtt_unescape, _vtt_escape)
        yield verbatim(line, part[len(said) :])
        line += len(ANY_LINE.findall(part)) - (not part.endswith(("\r", "\n")))


def _paragraphs(
    line: int, body: Sequence[str], unescape: Callable[[str], str], escape: Callable[[str], str]
) -> Iterator[FileSegment]:
    """The segments of a cue's text: what stands between blank lines, and these."""
    for blank, group in itertools.groupby(body, key=lambda text: not text.strip()):
        texts = list(group)
        yield verbatim(line, "".join(texts)) if blank else cue_segment(line, texts, unescape, escape)
        line += len(texts)


def cue_segment(
    line: int, body: Sequence[str], unescape: Callable[[str], str], escape: Callable[[str], str]
) -> FileSegment:
    """The segment of a cue's text; `unescape` and `escape` convert from and to the format's own spelling."""
    texts = [text for text, _ in map(split_line_end, body)]
    opening, texts, closing, every_line = _enclosed(texts)
    lost = "styling of some words" if any(_TAG.search(text) for text in texts) else None
    utterances = [
        Utterance(utterance.dash, unescape(utterance.text), utterance.lines)
        for utterance in _utterances([" ".join(_TAG.sub("", text).split()) for text in texts])
        if unescape(utterance.text).strip()
    ]
    if not utterances:
        return verbatim(line, "".join(body))
    eol, end = split_line_end(body[0])[1] or "\n", split_line_end(body[-1])[1]
    width = max(_WIDTH, *(len(unescape(_TAG.sub("", text))) for text in texts))
    cue = Cue(opening, closing, every_line, utterances, width, eol, end)
    return FileSegment(line, [utterance.text for utterance in utterances], partial(cue.write, escape), lost=lost)


def _enclosed(texts: list[str]) -> tuple[str, list[str], str, bool]:
    """What encloses a whole cue, or each of its lines alike: before, the lines inside, after, and which of the two."""
    opening = closing = ""
    while texts:
        if match := _OVERRIDES.match(texts[0]):
            opening, texts = opening + match[0], [texts[0][match.end() :], *texts[1:]]
            continue
        match = _OPENING.match(texts[0])
        if not match:
            break
        tag, close = match[1], f"</{match[2]}>"
        inside = [texts[0][match.end() :], *texts[1:]]
        closers = sum(text.count(close) for text in inside)
        if (
            closers == 0 and match[2] == "v" and not _VOICE.search(opening)
        ):  # who speaks; WebVTT lets the whole cue be theirs
            opening, texts = opening + tag, inside
        elif closers == 1 and inside[-1].rstrip().endswith(close) and not any(tag in text for text in inside):
            opening, closing = opening + tag, close + closing
            texts = [*inside[:-1], inside[-1].rstrip().removesuffix(close)]
        elif (
            not opening
            and len(texts) > 1
            and all(t.strip().startswith(tag) and t.strip().endswith(close) and t.count(close) == 1 for t in texts)
        ):
            return tag, [t.strip().removeprefix(tag).removesuffix(close) for t in texts], close, True
        else:
            break
    return opening, texts, closing, False


def _utterances(texts: Sequence[str]) -> list[Utterance]:
    """The lines joined to utterances; a dash starts a new one if the first line has a dash, too."""
    utterances: list[Utterance] = []
    for text in texts:
        dash = _DASH.match(text)
        dashes = utterances and utterances[0].dash
        if not utterances:
            utterances.append(Utterance(dash[0] if dash else "", text[dash.end() if dash else 0 :], 1))
        elif dash and dashes:
            utterances.append(Utterance(dash[0], text[dash.end() :], 1))
        else:
            last = utterances[-1]
            utterances[-1] = Utterance(last.dash, f"{last.text} {text}".strip(), last.lines + 1)
    return utterances


def break_lines(text: str, lines: int, width: int) -> list[str]:
    """Break a text into `lines` lines of about the same length, or more if one would be wider than `width`.

    Breaks after a clause are preferred. A script without spaces is broken anywhere; its characters are twice as wide.
    """
    words = text.split()
    if len(words) < 2:
        half = max(width // 2, 1)
        step = -(-len(text) // max(-(-len(text) // half), 1)) or 1
        return [text[i : i + step] for i in range(0, len(text), step)] if _UNSPACED.search(text) else [text]
    wrapped = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    if len(words) > _MAX_BALANCED:
        return wrapped
    lines = min(max(lines, len(wrapped)), len(words))
    ends = list(itertools.accumulate(len(word) + 1 for word in words))  # where each word ends, with a space after it

    def cost(first: int, last: int) -> float:
        length = ends[last] - 1 - (ends[first - 1] if first else 0)
        return length**2 * (0.8 if words[last][-1] in ",.;:!?…" else 1.0) + (length > width) * 1e9

    # breaks[i]: the cheapest way to break words up to i into the lines so far, and where its last line begins
    breaks = [[(cost(0, i), 0) for i in range(len(words))]]
    for n in range(1, lines):
        above = breaks[-1]
        breaks.append(
            [
                min((above[first - 1][0] + cost(first, i), first) for first in range(n, i + 1)) if i >= n else (1e18, 0)
                for i in range(len(words))
            ]
        )
    found: list[str] = []
    last = len(words) - 1
    for row in reversed(breaks):
        first = row[last][1]
        found.insert(0, " ".join(words[first : last + 1]))
        last = first - 1
    return found


def _srt_unescape(text: str) -> str:
    return text


def _srt_escape(line: str) -> str:
    return line.replace(_ARROW, "→")  # or it might be read as a timing


def _vtt_unescape(text: str) -> str:
    return html.unescape(text)


def _vtt_escape(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

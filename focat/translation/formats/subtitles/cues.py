"""The text of a cue: what each speaker says in it, and everything around that, which stays as it is.

Whatever the format, a cue is a sequence of pieces: strings that are copied, and utterances that are translated.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from focat.translation.formats.segments import SubtitleOptions
from focat.translation.formats.subtitles.layout import WIDTH
from focat.translation.inline import Part, Tag

ELLIPSIS = re.compile(r"\s*(?:\.\.+|…)\s*")
_DASH = re.compile(r"\s*[-‐‑–—]\s*(?=[^\s\-‐‑–—>])")  # starts an utterance where two people speak
_OPENING = re.compile(r"\s*(<([A-Za-z]+)[^<>/]*>)")
_OVERRIDES = re.compile(r"(?:\{\\[^{}]*\})+")  # {\an8} and the like, in front of a cue
_SOUND = re.compile(r"\[[^\[\]]*\]|\([^()a-z]*[A-Z][^()a-z]*\)")  # [door slams], (SIGHS)
_LABEL = re.compile(r"[A-Z][A-Z0-9 .'#-]+:(?=\s)")  # ANN: in front of what she says
_ONLY_SOUND = re.compile(r"(?:\s*(?:\[[^\[\]]*\]|\([^()]*\)))+\s*[.!?]*\s*|\s*#.*|.*[♪♫♬].*", re.DOTALL)
_MAX_TAGS = 100  # of an utterance that a viewer could notice
_MAX_ENCLOSING = 20
_LETTER = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class Cue:
    """A cue as it stands in the file."""

    line: int
    """Where its text begins."""
    start: float
    end: float
    """When it is shown, in seconds."""
    text: str
    """Its text, as it is written."""
    speaker: str = ""
    """Who speaks, if the file says so outside the text."""


@dataclass(frozen=True)
class Syntax:
    """How the text of a cue is written in a format."""

    line_end: re.Pattern[str]
    """What ends a line."""
    tag: re.Pattern[str]
    """Mark-up that is not shown; a pattern without groups."""
    tag_of: Callable[[str], Tag]
    """Which tag it is: one that opens, closes, or stands for itself."""
    unescape: Callable[[str], str]
    escape: Callable[[str], str]
    voice: re.Pattern[str] | None = None
    """A tag that says who speaks from there on."""
    without_word_times: Callable[[str], str] = str
    """Text without mark-up that times single words, which its translation does not have."""


@dataclass
class Utterance:
    """What one person says in a cue."""

    cue: Cue
    parts: list[Part]
    """Its text and tags, with single spaces where lines end."""
    lines: int
    """How many lines it has."""
    width: int
    """How wide a line of its translation may be."""
    line_end: str
    before: str = ""
    """What is written in front of it: a dash, tags that enclose all of it."""
    after: str = ""
    each_line: tuple[str, str] = ("", "")
    """Tags that enclose each of its lines."""
    style: str = ""
    """All tags that enclose it, and who speaks: the next cue can continue it only in the same style."""
    has_dash: bool = False
    lost: str | None = None
    """What of it cannot be kept."""
    lead: str = ""
    """Dots that show that it continues what was said, and so in its translation."""
    trail: str = ""

    @property
    def text(self) -> str:
        """What is said."""
        return "".join(part for part in self.parts if isinstance(part, str))


Piece = str | Utterance


@dataclass(frozen=True)
class _Lines:
    """Neighbouring lines of a cue, with what ends each; the last of them may have no end."""

    texts: list[str]
    ends: list[str]
    each_line: tuple[str, str] = field(default=("", ""))

    @property
    def raw(self) -> str:
        """The lines as they are written, without the last end."""
        opening, closing = self.each_line
        written = (f"{opening}{text}{closing}" for text in self.texts)
        return "".join(itertools.chain(*zip(written, [*self.ends[:-1], ""], strict=True)))


def parse_cue(cue: Cue, syntax: Syntax, options: SubtitleOptions) -> list[Piece]:
    """The pieces of a cue, in order; written one behind the other, they are its text, but for times of single words."""
    pieces: list[Piece] = []
    for part in _voices(syntax.without_word_times(cue.text), syntax):
        said = part.rstrip(" \t")
        for blank, group in itertools.groupby(split_lines(said, syntax.line_end), lambda line: not line[0].strip()):
            lines = list(group)
            if blank:
                pieces += [text + end for text, end in lines]
            else:
                pieces += _paragraph(
                    cue, _Lines([text for text, _ in lines], [end for _, end in lines]), syntax, options
                )
        pieces.append(part[len(said) :])
    return [piece for piece in pieces if piece != ""]


def split_lines(text: str, line_end: re.Pattern[str]) -> list[tuple[str, str]]:
    """The lines of a text, each with its end."""
    found: list[tuple[str, str]] = []
    position = 0
    for match in line_end.finditer(text):
        found.append((text[position : match.start()], match[0]))
        position = match.end()
    return [*found, (text[position:], "")] if position < len(text) else found


def _voices(text: str, syntax: Syntax) -> Iterator[str]:
    """The parts of a cue that different people say, where voices are named."""
    voices = list(syntax.voice.finditer(text)) if syntax.voice else []
    starts = [match.start() for match in voices] if len({match[0] for match in voices}) > 1 else []
    for start, end in itertools.pairwise(sorted({0, *starts, len(text)})):
        yield text[start:end]


def _paragraph(cue: Cue, lines: _Lines, syntax: Syntax, options: SubtitleOptions) -> Iterator[Piece]:
    """The utterances of neighbouring lines: one, or one for each dash if the first line has a dash, too."""
    opening, texts, closing, every_line = _enclosed(lines.texts, syntax)
    inside = _Lines(texts, lines.ends, (opening, closing) if every_line else ("", ""))
    starts = [bool(_DASH.match(syntax.tag.sub("", text))) for text in texts]
    firsts = [i for i, dash in enumerate(starts) if i == 0 or (dash and starts[0])]
    width = options.line_length or max(WIDTH, *(len(syntax.unescape(syntax.tag.sub("", text))) for text in texts))
    if not every_line:
        yield opening
    for first, last in itertools.pairwise([*firsts, len(texts)]):
        said = _Lines(inside.texts[first:last], inside.ends[first:last], inside.each_line)
        yield _utterance(cue, said, opening, width, syntax, options)
        if last < len(texts):
            yield said.ends[-1]
    if not every_line:
        yield closing
    yield lines.ends[-1]


def _utterance(cue: Cue, lines: _Lines, style: str, width: int, syntax: Syntax, options: SubtitleOptions) -> Piece:
    """What is said in these lines; the lines as they are, if that is nothing to translate."""
    texts = list(lines.texts)
    before, has_dash = "", False
    if dash := _DASH.match(texts[0]):
        before, texts[0], has_dash = dash[0], texts[0][dash.end() :], True
    opening, texts, after, _ = _enclosed(texts, syntax, whole=True)
    before += opening
    if not has_dash and (dash := _DASH.match(texts[0])):
        before, texts[0], has_dash = before + dash[0], texts[0][dash.end() :], True
    if options.keep_sounds and (label := _LABEL.match(texts[0])):
        before, texts[0] = f"{before}{label[0]} ", texts[0][label.end() :].lstrip()
    text = " ".join(" ".join(texts).split())
    lost = "times of single words" if syntax.without_word_times(cue.text) != cue.text else None
    if len(syntax.tag.findall(text)) > _MAX_TAGS:
        text, lost = " ".join(syntax.tag.sub("", text).split()), "styling of some words"
    plain = syntax.unescape(syntax.tag.sub("", text))
    if not plain.strip() or (options.keep_sounds and _ONLY_SOUND.fullmatch(plain)):
        return lines.raw
    parts = list(_parts(text, syntax, options.keep_sounds))
    if not _LETTER.search("".join(part for part in parts if isinstance(part, str))):
        return lines.raw
    line_end = next(filter(None, lines.ends), "\n")
    style = f"{cue.speaker}\n{style}{opening}"
    return Utterance(
        cue, parts, len(lines.texts), width, line_end, before, after, lines.each_line, style, has_dash, lost
    )


def _parts(text: str, syntax: Syntax, keep_sounds: bool) -> Iterator[Part]:
    """Text and tags; sounds are tags, too, if they are to be kept."""
    hidden = f"{syntax.tag.pattern}|{_SOUND.pattern}" if keep_sounds else syntax.tag.pattern
    for i, piece in enumerate(re.split(f"({hidden})", text)):
        if i % 2 == 0 and piece:
            yield syntax.unescape(piece)
        elif i % 2:
            yield syntax.tag_of(piece) if syntax.tag.fullmatch(piece) else Tag(piece, "single")


def _enclosed(texts: Sequence[str], syntax: Syntax, whole: bool = False) -> tuple[str, list[str], str, bool]:
    """What encloses lines as a whole, or each of them alike: before, the lines inside, after, and which of the two.

    Args:
        whole: only tags around the whole.
    """
    texts = list(texts)
    opening = closing = ""
    for _ in range(_MAX_ENCLOSING):
        if match := _OVERRIDES.match(texts[0]):
            opening, texts = opening + match[0], [texts[0][match.end() :], *texts[1:]]
            continue
        match = _OPENING.match(texts[0])
        if not match or not syntax.tag.fullmatch(match[1]):
            break
        tag, close = match[1], f"</{match[2]}>"
        inside = [texts[0][match.end() :], *texts[1:]]
        closers = sum(text.count(close) for text in inside)
        opened = any(tag in text for text in inside)
        if closers == 0 and not opened and not (syntax.voice and syntax.voice.search(opening)):
            # never closed: who speaks, or what is closed in a later cue
            opening, texts = opening + tag, inside
        elif closers == 1 and inside[-1].rstrip().endswith(close) and not opened:
            opening, closing = opening + tag, close + closing
            texts = [*inside[:-1], inside[-1].rstrip().removesuffix(close)]
        elif not (opening or whole) and len(texts) > 1 and all(_is_enclosed(text, tag, close) for text in texts):
            return tag, [text.strip().removeprefix(tag).removesuffix(close) for text in texts], close, True
        else:
            break
    return opening, texts, closing, False


def _is_enclosed(text: str, tag: str, close: str) -> bool:
    text = text.strip()
    return text.startswith(tag) and text.endswith(close) and text.count(close) == 1

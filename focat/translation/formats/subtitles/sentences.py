"""Sentences of subtitles: one that runs across cues is translated as one.

A strand is what one person says without a pause for another: an utterance, continued by those that begin the following
cues. Cues that share strands form a block, which is read and written as one segment of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.formats.subtitles.cues import Cue, Syntax, Utterance, parse_cue
from focat.translation.formats.subtitles.writer import Block, BlockWriter, CuePieces, Strand, StrandSentence
from focat.translation.inline import InlineText, Part, Tag
from focat.translation.splitting import separator_of

_LINE_END = re.compile(r"\r\n?|\n")
_MAX_PAUSE = 3.0  # seconds between two cues of one sentence
_MAX_CUES = 6  # of a sentence: speech without punctuation is cut there
_MAX_CHARACTERS = 400
_QUOTES = "['\"”’»“)\\]]*\\s*$"
_SENTENCE_END = re.compile(f"[.!?…。！？।؟]{_QUOTES}")
_NAME_FOLLOWS = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Mme|Mlle|Sr|Sra|Herr|Frau|Hr|Fr)\.?\s*$")
_DOTS_END = re.compile(r"(?:\.\.+|…)\s*$")
_DOTS_START = re.compile(r"\s*(?:\.\.+|…)\s*")
_DASH_END = re.compile(r"[-–—]\s*$")
_COMMA_END = re.compile(f"[,;،、，；]{_QUOTES}")
_SOUND_BEFORE = re.compile(r"[♪♫♬]|[\])]\s*$")  # a song, or [door slams]
_SOUND_AFTER = re.compile(r"\s*[\[(♪♫♬#]")
_FIRST_CHARACTER = re.compile(r"[\W_]*(\w)")
_LAST_WORD = re.compile(r"(?:^|[.!?…]\s)\W*(?P<first>\w[\w'’]*)\W*$|(?P<last>\w[\w'’]*)\W*$")
_UNPUNCTUATED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")  # often no marks in subtitles
_PUNCTUATED_SHARE = 0.7


def cue_segments(items: Iterable[str | Cue], syntax: Syntax, options: FormatOptions) -> Iterator[FileSegment]:
    """The segments of a file that was read as cues, and as text between them, which is copied."""
    block: list[str | CuePieces] = []
    joiner = CueJoiner()
    line = 1
    for item in items:
        if isinstance(item, str):
            if block:
                block.append(item)
            else:
                yield verbatim(line, item)
            line += len(_LINE_END.findall(item))
            continue
        line = item.line + len(_LINE_END.findall(item.text))
        cue = CuePieces(item, parse_cue(item, syntax, options.subtitles), syntax)
        if joiner.continued_by(cue):
            joiner.join(cue)
        else:
            if block:
                yield _segment(block, joiner.strands, syntax, options)
            block = []
            joiner.start(cue)
        block.append(cue)
        if not joiner.is_open:
            yield _segment(block, joiner.strands, syntax, options)
            block = []
    if block:
        yield _segment(block, joiner.strands, syntax, options)


class CueJoiner:
    """Tells which cues continue the sentence of the one before them, and collects the strands of a block."""

    def __init__(self) -> None:
        self.strands: list[list[Utterance]] = []
        self._last: Utterance | None = None  # ends its cue, so that the next one might continue it
        self._punctuated = self._seen = 2  # sentences that have ended, and those that should have: begin with trust

    @property
    def is_open(self) -> bool:
        """Whether the last sentence may go on in the next cue."""
        if self._last is None or len(self.strands[-1]) == _MAX_CUES:
            return False
        if sum(len(utterance.text) for utterance in self.strands[-1]) > _MAX_CHARACTERS:
            return False
        text = self._last.text
        return not _SENTENCE_END.search(text) or bool(_DOTS_END.search(text) or _NAME_FOLLOWS.search(text))

    def start(self, cue: CuePieces) -> None:
        """Begin a block with this cue."""
        self._count(cue)
        self.strands = [[utterance] for utterance in cue.utterances]
        self._last = cue.last

    def join(self, cue: CuePieces) -> None:
        """Add a cue that continues the last strand."""
        self._count(cue)
        first, *others = cue.utterances
        _move_dots(self.strands[-1][-1], first)
        self.strands[-1].append(first)
        self.strands += [[utterance] for utterance in others]
        self._last = cue.last

    def continued_by(self, cue: CuePieces) -> bool:
        """Whether this cue continues the last sentence: the same speaker, soon after, in the middle of a sentence."""
        last, following = self._last, cue.first
        if last is None or following is None or not self.is_open:
            return False
        if following.has_dash or following.style != last.style:
            return False
        if not last.cue.start <= following.cue.start <= last.cue.end + _MAX_PAUSE:
            return False
        punctuated = self._punctuated > _PUNCTUATED_SHARE * self._seen
        return continues(last.text, following.text, punctuated)

    def _count(self, cue: CuePieces) -> None:
        """Count whether marks end sentences in this file: where the next cue begins with a capital."""
        following = cue.first
        if self._last is not None and following is not None and _first_character(following.text).isupper():
            self._seen += 1
            self._punctuated += bool(_SENTENCE_END.search(self._last.text))


def continues(before: str, after: str, punctuated: bool) -> bool:
    """Whether a text goes on in the middle of the sentence that another one ends with.

    Args:
        punctuated: whether marks end the sentences of this file, so that one that is missing means something.
    """
    if _SOUND_BEFORE.search(before) or _SOUND_AFTER.match(after):
        return False
    first = _first_character(after)
    if _NAME_FOLLOWS.search(before):
        return bool(first)
    if _SENTENCE_END.search(before):
        return bool(_DOTS_END.search(before)) and (bool(_DOTS_START.match(after)) or first.islower())
    if _DOTS_START.match(after) or first.islower() or _COMMA_END.search(before):
        return True
    if _UNPUNCTUATED.match(first) or not first:
        return False
    if first.isupper() or first.isdecimal():  # a name or a noun, unless the text before is a headline, or breaks off
        return punctuated and not (_is_headline(before, after) or _DASH_END.search(before))
    return punctuated


def _is_headline(text: str, after: str) -> bool:
    """Whether a text is in capitals where the next is not, or its last word has one that begins no sentence."""
    match = _LAST_WORD.search(text)
    if match is None or (match["first"] or "").isdecimal():
        return True
    if text.isupper() and len(text) > 1:
        return not after.isupper()
    return match["last"] is not None and match["last"][0].isupper()


def _first_character(text: str) -> str:
    match = _FIRST_CHARACTER.match(text)
    return match[1] if match else ""


def _move_dots(last: Utterance, following: Utterance) -> None:
    """Take dots that stand for a break between cues out of the sentence, so that they are written at the break."""
    if last.parts and isinstance(last.parts[-1], str) and (match := _DOTS_END.search(last.parts[-1])):
        last.parts[-1], last.trail = last.parts[-1][: match.start()], match[0].strip()
    if following.parts and isinstance(following.parts[0], str) and (match := _DOTS_START.match(following.parts[0])):
        following.parts[0], following.lead = following.parts[0][match.end() :], match[0].strip()


def _segment(
    items: Sequence[str | CuePieces], strands: Sequence[Sequence[Utterance]], syntax: Syntax, options: FormatOptions
) -> FileSegment:
    """The segment of a block."""
    language, target = options.languages
    found = [Strand(strand, _sentences(strand, language)) for strand in strands]
    block = Block(items, found)
    if not found:
        return verbatim(block.line, block.raw)
    writer = BlockWriter(block, syntax, options.subtitles, separator_of(target))
    inputs = [sentence.input for strand in found for sentence in strand.sentences]
    return FileSegment(block.line, inputs, writer.write, notes=writer.notes)


def _sentences(strand: Sequence[Utterance], language: str) -> list[StrandSentence]:
    """The sentences of a strand, and what each utterance has of each."""
    parts: list[Part] = []
    spans: list[tuple[int, int]] = []  # of the utterances, in the text of the strand
    position = 0
    for i, utterance in enumerate(strand):
        between = separator_of(language) if i else ""
        parts += [between, *utterance.parts]
        spans.append((position + len(between), position + len(between) + len(utterance.text)))
        position = spans[-1][1]
    found: list[StrandSentence] = []
    start = 0
    for text in _merged(InlineText(tuple(part for part in parts if part != "")).sentences(language)):
        plain = _plain(text)
        first = start + len(plain) - len(plain.lstrip())
        end = start + len(plain.rstrip())
        own = [(i, max(a, first) - first, min(b, end) - first) for i, (a, b) in enumerate(spans)]
        found.append(StrandSentence(text, [(i, a, b) for i, a, b in own if a < b]))
        start += len(plain)
    return found


def _merged(sentences: Sequence[InlineText]) -> list[InlineText]:
    """Sentences without those that begin in lower case, or hold no word: they are parts of others."""
    merged: list[InlineText] = []
    for sentence in sentences:
        last = _plain(merged[-1]) if merged else ""
        if merged and (not _first_character(last) or _first_character(_plain(sentence)).islower()):
            merged[-1] = InlineText((*merged[-1].parts, *sentence.parts))
        else:
            merged.append(sentence)
    return merged


def _plain(text: InlineText) -> str:
    return "".join(part for part in text.parts if not isinstance(part, Tag))

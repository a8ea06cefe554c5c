"""Plain text: one sentence on each line with blank lines between documents, or running text, which is split first."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from focat.corpus.text_files import is_blank
from focat.translation.formats.lines import InputLines
from focat.translation.formats.segments import FileSegment, FormatOptions, score_text, verbatim
from focat.translation.result import Translation, on_one_line
from focat.translation.splitting import separator_of, split_sentences

_MAX_LINES = 1000  # of a block, so that memory is bounded: no paragraph is longer
_MIN_WIDTH = 30  # characters: narrower blocks are verse or lists, and not wrapped
_PARAGRAPH_START = re.compile(r"\s|[-*+•–—>#]+\s|\d+[.)]\s")  # an indent, a list, a headline
_INDENT = re.compile(r"\s*(?:(?:[-*+•–—>#]+|\d+[.)])\s+)*")
_SENTENCE_END = re.compile(r"[.!?:…。！？।؟]['\"”’»“)\]]*$")


def text_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """A segment for each line. A blank line ends a document; it stays as it is, like all in which nothing is said."""
    for text, end in lines.plain():
        if not on_one_line(text):
            yield verbatim(lines.number, text + end, ends_document=is_blank(text))
        else:
            yield FileSegment(lines.number, (text,), partial(_write_line, options, end))


def _write_line(options: FormatOptions, end: str, translations: Sequence[Translation]) -> str:
    """Always one line: scores and alternatives are separated by tabs."""
    (translation,) = translations
    if options.plain:
        return translation.text + end
    columns: list[str] = []
    for alternative in options.alternatives(translation):
        columns += [score_text(alternative.score), alternative.text] if options.scores else [alternative.text]
    return "\t".join(columns) + end


def running_text_segments(lines: InputLines, source_language: str, target_language: str) -> Iterator[FileSegment]:
    """A segment for each paragraph, split into sentences. The whole text is one document; blank lines are kept."""
    numbered = ((lines.number, text, end) for text, end in lines.plain())
    return split_paragraphs(numbered, source_language, target_language)


def split_paragraphs(
    lines: Iterable[tuple[int, str, str]], source_language: str, target_language: str
) -> Iterator[FileSegment]:
    """The segments of running text, given as the numbers of its lines, the lines, and their ends."""
    block: list[tuple[str, str]] = []
    first = 1
    separator = separator_of(target_language)
    for number, text, end in lines:
        blank = is_blank(text)
        if block and (blank or len(block) == _MAX_LINES):
            yield from _paragraph_segments(first, block, source_language, separator)
            block = []
        if blank:
            yield verbatim(number, text + end)
        else:
            first = first if block else number
            block.append((text, end))
    if block:
        yield from _paragraph_segments(first, block, source_language, separator)


@dataclass(frozen=True)
class Paragraph:
    """The lines of one paragraph."""

    lines: Sequence[str]
    end: str
    width: int
    """Where lines are broken, if there is more than one."""

    @property
    def indent(self) -> str:
        """What precedes the text: white space, a list marker or a headline marker."""
        match = _INDENT.match(self.lines[0])
        return match[0] if match else ""

    @property
    def text(self) -> str:
        """The lines joined, without the indent."""
        first, *others = self.lines
        return " ".join([first[len(self.indent) :], *others])

    def write(self, separator: str, eol: str, translations: Sequence[Translation]) -> str:
        """Render the paragraph with these sentences, wrapped if it was wrapped."""
        text = self.indent + separator.join(translation.text for translation in translations)
        if len(self.lines) > 1:
            wrapped = textwrap.wrap(text, self.width, expand_tabs=False, break_long_words=False, break_on_hyphens=False)
            text = eol.join(wrapped) if wrapped else text
        return text + self.end


def _paragraph_segments(
    line: int, block: list[tuple[str, str]], language: str, separator: str
) -> Iterator[FileSegment]:
    eol = block[0][1] or "\n"
    for paragraph in paragraphs(block):
        sentences = tuple(split_sentences(paragraph.text, language))
        if sentences:
            yield FileSegment(line, sentences, partial(paragraph.write, separator, eol))
        else:
            yield verbatim(line, eol.join(paragraph.lines) + paragraph.end)
        line += len(paragraph.lines)


def paragraphs(block: Sequence[tuple[str, str]]) -> Iterator[Paragraph]:
    """The paragraphs among neighbouring lines, given with their ends.

    A line continues in the next one if the next word would not have fitted: lines of a wrapped text are as long as
    possible. For the longest line that is always so; therefore a block counts as wrapped only if one of these full
    lines ends in the middle of a sentence.
    """
    texts = [text.rstrip() for text, _ in block]
    width = max(map(len, texts))
    full = [
        len(text) + 1 + len(following.split(maxsplit=1)[0]) > width and not _PARAGRAPH_START.match(following)
        for text, following in itertools.pairwise(texts)
    ]
    stops = [is_full and not _SENTENCE_END.search(text) for is_full, text in zip(full, texts, strict=False)]
    wrapped = width >= _MIN_WIDTH and any(stops)
    start = 0
    for i in range(len(block)):
        if i == len(block) - 1 or not (wrapped and full[i]):
            yield Paragraph(texts[start : i + 1], block[i][1], width)
            start = i + 1

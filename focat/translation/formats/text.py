"""Plain text: one sentence on each line with blank lines between documents, or running text that is cut up first."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import sentencex

from focat.corpus.text_files import is_blank
from focat.translation.formats.lines import InputLines
from focat.translation.formats.parts import Part, Showing, score_text, verbatim
from focat.translation.result import Translation, on_one_line

_UNSPACED = {"bo", "ja", "km", "lo", "my", "th", "yue", "zh"}  # languages without spaces between sentences
_MOST_LINES = 1000  # of a block: no paragraph is longer, but a file may be anything
_NARROWEST = 30  # characters: what is narrower is verse or a list, and not wrapped
_OPENS_A_PARAGRAPH = re.compile(r"\s|[-*+•–—>#]+\s|\d+[.)]\s")  # an indent, a list, a headline
_INDENT = re.compile(r"\s*(?:(?:[-*+•–—>#]+|\d+[.)])\s+)*")
_ENDS_A_SENTENCE = re.compile(r"[.!?:…。！？।؟]['\"”’»“)\]]*$")


def text_parts(lines: InputLines, showing: Showing) -> Iterator[Part]:
    """A part for each line. A blank line ends a document, and stays empty."""
    for text, end in lines.plain():
        if is_blank(text):
            yield verbatim(lines.number, end, ends_document=True)
        else:
            yield Part(lines.number, (text,), partial(_write_line, showing, end))


def _write_line(showing: Showing, end: str, translations: Sequence[Translation]) -> str:
    """One line, always: scores and alternatives stand beside each other, with tabs between them."""
    (translation,) = translations
    if showing.plain:
        return translation.text + end
    columns: list[str] = []
    for alternative in showing.alternatives(translation):
        columns += [score_text(alternative.score), alternative.text] if showing.scores else [alternative.text]
    return "\t".join(columns) + end


def running_parts(lines: InputLines, source_language: str, target_language: str) -> Iterator[Part]:
    """A part for each paragraph, cut into sentences. The whole text is one document; blank lines stay in place."""
    block: list[tuple[str, str]] = []
    first = 1
    joint = "" if _primary(target_language) in _UNSPACED else " "
    for text, end in lines.plain():
        blank = is_blank(text)
        if block and (blank or len(block) == _MOST_LINES):
            yield from _paragraph_parts(first, block, source_language, joint)
            block = []
        if blank:
            yield verbatim(lines.number, end)
        else:
            first = first if block else lines.number
            block.append((text, end))
    if block:
        yield from _paragraph_parts(first, block, source_language, joint)


@dataclass(frozen=True)
class Paragraph:
    """Lines of a text that belong together."""

    lines: Sequence[str]
    end: str
    width: int
    """Where lines are broken, if there is more than one."""

    @property
    def indent(self) -> str:
        """What stands in front of the text: white space, the mark of a list or a headline."""
        match = _INDENT.match(self.lines[0])
        return match[0] if match else ""

    @property
    def text(self) -> str:
        """The lines joined, without the indent."""
        first, *others = self.lines
        return " ".join([first[len(self.indent) :], *others])

    def write(self, joint: str, eol: str, translations: Sequence[Translation]) -> str:
        """The same paragraph with these sentences, broken into lines if it was."""
        text = self.indent + joint.join(translation.text for translation in translations)
        if len(self.lines) > 1:
            wrapped = textwrap.wrap(text, self.width, expand_tabs=False, break_long_words=False, break_on_hyphens=False)
            text = eol.join(wrapped) if wrapped else text
        return text + self.end


def _paragraph_parts(line: int, block: list[tuple[str, str]], language: str, joint: str) -> Iterator[Part]:
    eol = block[0][1] or "\n"
    for paragraph in paragraphs(block):
        sentences = tuple(split_sentences(paragraph.text, language))
        if sentences:
            yield Part(line, sentences, partial(paragraph.write, joint, eol))
        else:
            yield verbatim(line, eol.join(paragraph.lines) + paragraph.end)
        line += len(paragraph.lines)


def paragraphs(block: Sequence[tuple[str, str]]) -> Iterator[Paragraph]:
    """The paragraphs among neighbouring lines, given with their ends.

    A line goes on in the next one if the next word would not have fitted: lines of a wrapped text are as long as they
    can be. That says nothing of the longest line; a block is taken for wrapped only if one of the lines that are so
    long stops in the middle of a sentence.
    """
    texts = [text.rstrip() for text, _ in block]
    width = max(map(len, texts))
    full = [
        len(text) + 1 + len(following.split(maxsplit=1)[0]) > width and not _OPENS_A_PARAGRAPH.match(following)
        for text, following in itertools.pairwise(texts)
    ]
    stops = [is_full and not _ENDS_A_SENTENCE.search(text) for is_full, text in zip(full, texts, strict=False)]
    wrapped = width >= _NARROWEST and any(stops)
    start = 0
    for i in range(len(block)):
        if i == len(block) - 1 or not (wrapped and full[i]):
            yield Paragraph(texts[start : i + 1], block[i][1], width)
            start = i + 1


def split_sentences(text: str, language: str) -> Iterator[str]:
    """The sentences of a text."""
    for sentence in sentencex.segment(_primary(language), on_one_line(text)):
        if not is_blank(sentence):
            yield sentence.strip()


def _primary(language: str) -> str:
    """`pt` of `pt-BR` and `pt_BR`."""
    return re.split("[-_]", language)[0].lower()

"""Texts of several sentences: split for the translator, and joined again as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from focat.translation.formats.lines import ANY_LINE, split_line_end
from focat.translation.formats.segments import FileSegment
from focat.translation.formats.text import split_paragraphs
from focat.translation.result import Translation
from focat.translation.sentence import Sentence
from focat.translation.splitting import split_sentences

TextKind = Literal["text", "html", "sentence"]
"""Plain text; text with HTML tags; plain text that is one sentence."""


@dataclass(frozen=True)
class TranslatableText:
    """A text as sentences."""

    segments: Sequence[FileSegment]

    @property
    def sentences(self) -> list[Sentence]:
        """All sentences, in order."""
        return [sentence for segment in self.segments for sentence in segment.sentences]

    @property
    def paragraphs(self) -> list[int]:
        """The number of the paragraph of each sentence."""
        with_sentences = [segment for segment in self.segments if segment.sentences]
        return [number for number, segment in enumerate(with_sentences) for _ in segment.sentences]

    def join(self, translations: Sequence[Translation]) -> str:
        """The text with these sentences in place of its own."""
        remaining = iter(translations)
        return "".join(segment.write([next(remaining) for _ in segment.sentences]) for segment in self.segments)


def split_text(text: str, source_language: str, target_language: str) -> TranslatableText:
    """Split running text into sentences; paragraphs, blank lines, indents and lists stay."""
    numbered = ((i, *split_line_end(line)) for i, line in enumerate(ANY_LINE.findall(text), 1))
    return TranslatableText(list(split_paragraphs(numbered, source_language, target_language)))


def read_text(text: str, kind: TextKind, source_language: str, target_language: str) -> TranslatableText:
    """A text of a client as sentences."""
    if kind == "sentence":
        return TranslatableText([FileSegment(1, (text,), lambda found: found[0].text)])
    return split_text(text, source_language, target_language)


def split_context(text: str, language: str) -> list[str]:
    """The sentences of a text that is only read."""
    lines = [split_line_end(line)[0] for line in ANY_LINE.findall(text)]
    return [sentence for line in lines for sentence in split_sentences(line, language)]

"""Texts of several sentences: split for the translator, and joined again as they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from focat.translation.formats.lines import ANY_LINE, split_line_end
from focat.translation.formats.segments import FileSegment
from focat.translation.formats.text import split_paragraphs
from focat.translation.result import Translation
from focat.translation.sentence import Sentence


@dataclass(frozen=True)
class SplitText:
    """A text as sentences."""

    segments: Sequence[FileSegment]

    @property
    def sentences(self) -> list[Sentence]:
        """All sentences, in order."""
        return [sentence for segment in self.segments for sentence in segment.sentences]

    @property
    def paragraphs(self) -> list[int]:
        """The number of the paragraph of each sentence."""
        return [number for number, segment in enumerate(self._with_sentences()) for _ in segment.sentences]

    def join(self, translations: Sequence[Translation]) -> str:
        """The text with these sentences in place of its own."""
        remaining = iter(translations)
        return "".join(segment.write([next(remaining) for _ in segment.sentences]) for segment in self.segments)

    def _with_sentences(self) -> Iterator[FileSegment]:
        return (segment for segment in self.segments if segment.sentences)


def split_text(text: str, source_language: str, target_language: str) -> SplitText:
    """Split running text into sentences; paragraphs, blank lines, indents and lists stay."""
    numbered = ((i, *split_line_end(line)) for i, line in enumerate(ANY_LINE.findall(text), 1))
    return SplitText(list(split_paragraphs(numbered, source_language, target_language)))

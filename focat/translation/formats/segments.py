"""The segments of a file to translate, and what is written of each translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from focat.translation.formats.encodings import UTF8
from focat.translation.result import Alternative, Translation
from focat.translation.sentence import Sentence


@dataclass(frozen=True)
class FileSegment:
    """A part of a file: the sentences to translate in it, and how it is written."""

    line: int
    """The line where it begins."""
    sentences: Sequence[Sentence]
    """The sentences to translate."""
    write: Callable[[Sequence[Translation]], str]
    """Render the segment with translations, one for each sentence."""
    ends_document: bool = False
    """Whether a document ends here."""
    lost: str | None = None
    """What of it cannot be kept, to be reported to the user."""


def verbatim(line: int, text: str, ends_document: bool = False) -> FileSegment:
    """A segment that is copied as it is."""
    return FileSegment(line, (), lambda _: text, ends_document)


@dataclass(frozen=True)
class FormatOptions:
    """How a file is read, and what is written of each translation besides its text."""

    scores: bool = False
    nbest: int = 1
    replace_fields: bool = False
    """Replace fields of JSON lines that have the name of one that is added, instead of refusing them."""
    split: bool = False
    """The file is running text, to be split into sentences."""
    languages: tuple[str, str] = ("en", "de")
    """Source and target language: how sentences end, and how they are joined."""
    all_entries: bool = False
    """Translate entries of PO and XLIFF files that have a translation, too."""
    encoding: str = UTF8
    """Of the output: formats that name their encoding must name this one."""

    @property
    def plain(self) -> bool:
        """Whether only the text is written."""
        return not self.scores and self.nbest == 1

    def alternatives(self, translation: Translation) -> Sequence[Alternative]:
        """The alternatives that are written."""
        return translation.alternatives[: self.nbest]


def score_text(score: float) -> str:
    """A score with four decimals."""
    return f"{score:.4f}"

"""The segments of a file to translate, and what is written of each translation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from zipfile import ZipInfo

from focat.errors import ParameterError
from focat.translation.formats.encodings import UTF8
from focat.translation.result import Alternative, Translation
from focat.translation.sentence import Sentence


@dataclass(frozen=True)
class Member:
    """A file in an archive."""

    info: ZipInfo
    copied: bytes | None = None
    """Its content, if it is not translated."""


@dataclass(frozen=True)
class FileSegment:
    """A part of a file: the sentences to translate in it, and how it is written."""

    line: int
    """The line where it begins; in an archive, where there are no lines to name, the number of the paragraph."""
    sentences: Sequence[Sentence]
    """The sentences to translate."""
    write: Callable[[Sequence[Translation]], str]
    """Render the segment with translations, one for each sentence."""
    ends_document: bool = False
    """Whether a document ends here."""
    notes: Callable[[Sequence[Translation]], Iterable[tuple[str, int]]] = lambda _: ()
    """What the user is told of it at the end of the job, and of which line."""
    member: Member | None = None
    """The file that it is a part of, if the whole is an archive."""


def verbatim(line: int, text: str, ends_document: bool = False) -> FileSegment:
    """A segment that is copied as it is."""
    return FileSegment(line, (), lambda _: text, ends_document)


@dataclass(frozen=True)
class SubtitleOptions:
    """How the cues of subtitles are laid out, and what in them is not translated."""

    line_length: int | None = None
    """Characters of a line; if not given, 42 or as many as the longest line of the original cue."""
    max_lines: int | None = None
    """Lines of a cue."""
    reading_speed: float | None = None
    """Characters a second; cues that need a greater speed are reported."""
    keep_sounds: bool = False
    """Leave what is not spoken as it is: `[door slams]`, `(SIGHS)`, `ANN:`, and lines with ♪."""

    def __post_init__(self) -> None:
        for name in ("line_length", "max_lines", "reading_speed"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 10_000:
                raise ParameterError(name, value, "should be a number from 1 to 9,999")


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
    subtitles: SubtitleOptions = field(default_factory=SubtitleOptions)

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

"""Files with mark-up, translated without a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from focat.translation.formats import FileSegment, FormatOptions, InputLines, read_segments
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence, as_input


def segments_of(text: str | bytes, name: str, folder: Path, **options: Any) -> list[FileSegment]:
    """The segments of a file of this format."""
    path = folder / f"file.{name}"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_segments(InputLines(path), name, FormatOptions(**options)))


def translated(
    text: str | bytes, name: str, folder: Path, translate: Callable[[str], str] = str, **options: Any
) -> str:
    """The file with a translation of every sentence; of those that are context, their own."""
    written = []
    for segment in segments_of(text, name, folder, **options):
        given = map(as_input, segment.sentences)
        written.append(segment.write([Translation(s.text, s.translation or translate(s.text)) for s in given]))
    return "".join(written)


def sentences_of(text: str | bytes, name: str, folder: Path, **options: Any) -> list[InputSentence]:
    """What is to be translated, and what is context."""
    return [as_input(s) for segment in segments_of(text, name, folder, **options) for s in segment.sentences]


def texts_of(text: str | bytes, name: str, folder: Path, **options: Any) -> list[str]:
    """The same, as text."""
    return [sentence.text for sentence in sentences_of(text, name, folder, **options)]

"""Files to translate: text, JSON lines, subtitles, running text. Every format streams.

A file is a sequence of segments. A segment has zero or more sentences to translate, and is written when they are
translated; everything else is copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from focat.corpus.text_files import DECOMPRESSORS
from focat.errors import FocatError, ParameterError
from focat.translation.formats.jsonl import jsonl_segments
from focat.translation.formats.lines import InputLines
from focat.translation.formats.segments import FileSegment, OutputOptions
from focat.translation.formats.subtitles import srt_segments, vtt_segments
from focat.translation.formats.text import running_text_segments, text_segments

__all__ = ["FORMATS", "FileSegment", "InputLines", "OutputOptions", "format_of", "read_segments"]

FORMATS = ("text", "jsonl", "srt", "vtt")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".srt": "srt", ".vtt": "vtt"}


def format_of(path: Path) -> str:
    """The format that a file's suffix stands for; text if it is unknown."""
    if path.suffix.lower() in DECOMPRESSORS:
        path = path.with_suffix("")
    return _ENDINGS.get(path.suffix.lower(), "text")


def read_segments(
    lines: InputLines, name: str, options: OutputOptions, split: tuple[str, str] | None = None
) -> Iterator[FileSegment]:
    """The segments of a file.

    Args:
        name: its format, one of FORMATS.
        options: what is written of each translation.
        split: source and target language of running text, which is split into sentences; None for other files.

    Raises:
        FocatError: there is no such format, or it cannot hold what the options ask for.
    """
    if name not in FORMATS:
        raise ParameterError("format", name, f"there is no such format; choose from {', '.join(FORMATS)}")
    if split is not None:
        if name != "text":
            raise FocatError(f"split: is for running text, not for {name}, where the sentences are given")
        if not options.plain:
            raise FocatError("split: running text has no place for scores or nbest")
        return running_text_segments(lines, *split)
    match name:
        case "jsonl":
            return jsonl_segments(lines, options)
        case "srt" | "vtt":
            if not options.plain:
                raise ParameterError("format", name, "a cue has no place for scores or nbest")
            return srt_segments(lines) if name == "srt" else vtt_segments(lines)
        case _:
            return text_segments(lines, options)

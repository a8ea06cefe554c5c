"""Files to translate: text, JSON lines, subtitles, running text. Every format streams, and knows how to write itself.

A file is a row of parts. A part has sentences to translate, none or some, and is written once they are translated;
what is not language stays as it is, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from focat.corpus.text_files import DECOMPRESSORS
from focat.errors import FocatError
from focat.translation.formats.jsonl import jsonl_parts
from focat.translation.formats.lines import InputLines
from focat.translation.formats.parts import Part, Showing
from focat.translation.formats.subtitles import srt_parts, vtt_parts
from focat.translation.formats.text import running_parts, text_parts

__all__ = ["FORMATS", "InputLines", "Part", "Showing", "format_of", "parts_of"]

FORMATS = ("text", "jsonl", "srt", "vtt")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".srt": "srt", ".vtt": "vtt"}


def format_of(path: Path) -> str:
    """The format that the end of a file's name stands for; text if it says nothing."""
    if path.suffix.lower() in DECOMPRESSORS:
        path = path.with_suffix("")
    return _ENDINGS.get(path.suffix.lower(), "text")


def parts_of(lines: InputLines, name: str, showing: Showing, split: tuple[str, str] | None = None) -> Iterator[Part]:
    """The parts of a file of this format; `split` gives the languages of running text, and cuts it into sentences."""
    if name not in FORMATS:
        raise FocatError(f"--format {name}: there is no such format; {', '.join(FORMATS)}")
    if split is not None:
        if name != "text":
            raise FocatError(f"--split is for running text, not for {name}, where the sentences are given")
        if not showing.plain:
            raise FocatError("--split writes running text, which has no place for --scores or --nbest")
        return running_parts(lines, *split)
    match name:
        case "jsonl":
            return jsonl_parts(lines, showing)
        case "srt" | "vtt":
            if not showing.plain:
                raise FocatError(f"--format {name}: a cue has no place for --scores or --nbest")
            return srt_parts(lines) if name == "srt" else vtt_parts(lines)
        case _:
            return text_parts(lines, showing)

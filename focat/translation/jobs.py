"""Files translated from beginning to end, however often that is interrupted.

While a file is translated, a journal beside the output keeps what the search has answered. The same command goes
through the same steps again, takes from the journal what it has, and goes on where that ends: the result is the one of
a job that was never interrupted, batch for batch.
"""

from __future__ import annotations

import gzip
import lzma
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from focat._version import __version__
from focat.errors import FocatError
from focat.files import atomic_file, check_parent_folder, disk_errors, sha256
from focat.progress import Progress
from focat.translation.formats import InputLines, Part, Showing, format_of, parts_of
from focat.translation.formats.lines import STDIN
from focat.translation.journal import Journal, journal_of
from focat.translation.result import Translation
from focat.translation.translator import Recall, Translator, compute

STDOUT = Path("-")
JOURNAL = ".journal"  # suffix of the file beside the output
_NAMED = 5  # lines that a note names


@dataclass(frozen=True)
class Job:
    """A file to translate, and where the translation goes."""

    input: Path
    output: Path = STDOUT
    format: str | None = None
    """By the end of the input's name if not given."""
    split: tuple[str, str] | None = None
    """The languages of running text that is to be cut into sentences."""
    showing: Showing = field(default_factory=Showing)
    overwrite: bool = False

    @property
    def readable_once(self) -> bool:
        """Whether the input is a pipe, which is gone when it has been read."""
        return self.input == STDIN or (self.input.exists() and not self.input.is_file() and not self.input.is_dir())

    @property
    def journal(self) -> Path:
        """What is there while the job is not done."""
        return self.output.with_name(self.output.name + JOURNAL)

    def parts(self) -> Iterator[Part]:
        """What the file consists of."""
        name = self.format or format_of(self.input)
        return parts_of(InputLines(self.input), name, self.showing, self.split)

    def check(self) -> int | None:
        """Find what is wrong before any work is done; returns how many sentences there are, if that can be known."""
        if self.output != STDOUT:
            check_parent_folder(self.output)
            if self.input != STDIN and self.output.exists() and self.output.samefile(self.input):
                raise FocatError(f"{self.output}: is the input; give another -o")
            if self.output.exists() and not self.overwrite and not self.journal.exists():
                raise FocatError(f"{self.output}: exists; give another -o, or --overwrite")
        parts = self.parts()  # refuses what does not go together
        return None if self.readable_once else sum(len(part.sentences) for part in parts)


@dataclass
class Figures:
    """How a job went."""

    sentences: int = 0
    seconds: float = 0.0
    sentences_per_second: float = 0.0
    in_pieces: list[int] = field(default_factory=list)
    """Lines of sentences that were too long for the model."""
    cut: list[int] = field(default_factory=list)
    """Lines whose translation reached the longest length allowed."""
    shortened: int = 0
    """Sentences that lost context because their window was too long."""
    lost: dict[str, list[int]] = field(default_factory=dict)
    """Lines that could not be kept as they were, by what was lost."""

    def add(self, part: Part, translations: list[Translation]) -> None:
        """One part more."""
        self.sentences += len(translations)
        self.shortened += sum(translation.shortened for translation in translations)
        if any(translation.pieces > 1 for translation in translations):
            self.in_pieces.append(part.line)
        if any(translation.cut for translation in translations):
            self.cut.append(part.line)
        if part.lost:
            self.lost.setdefault(part.lost, []).append(part.line)

    def notes(self) -> Iterator[str]:
        """What a user should know."""
        if self.in_pieces:
            yield f"too long for the model, translated in pieces: {_lines(self.in_pieces)}"
        if self.cut:
            yield f"translation cut at the longest length allowed: {_lines(self.cut)}"
        if self.shortened:
            yield f"windows that were too long and lost context: {self.shortened:,}"
        for what, lines in self.lost.items():
            yield f"{what} could not be kept: {_lines(lines)}"


def run_job(job: Job, translator: Translator, weights: list[str], progress: Progress) -> Figures:
    """Translate a file, or go on with it; `weights` are the digests of the models."""
    total = job.check()
    if job.output == STDOUT:
        if sys.stdout is None:
            raise FocatError("standard output is closed; give -o FILE")
        figures = _translate(job, translator, total, progress, sys.stdout.buffer, None)
    else:
        with journal_of(job.journal, _identity(job, translator, weights), afresh=job.overwrite) as journal:
            with _output(job.output) as out:
                figures = _translate(job, translator, total, progress, out, journal)
                journal.finish()
            journal.remove()
    for note in figures.notes():
        progress.log(note)
    return figures


def _translate(
    job: Job, translator: Translator, total: int | None, progress: Progress, out: BinaryIO, journal: Journal | None
) -> Figures:
    figures = Figures()
    place = Path("standard output") if journal is None else job.output
    with progress.bar("translating", "sentences", total) as bar:
        for part, translations in translated(job.parts(), translator, compute if journal is None else journal.recall):
            figures.add(part, translations)
            with disk_errors(place):
                out.write(part.write(translations).encode())
                if journal is None:
                    out.flush()
            bar.advance(len(translations), earlier=journal is not None and journal.remembers)
    figures.seconds, figures.sentences_per_second = round(bar.seconds, 3), round(bar.rate, 2)
    return figures


def translated(
    parts: Iterable[Part], translator: Translator, recall: Recall = compute
) -> Iterator[tuple[Part, list[Translation]]]:
    """Each part with its translations, in order, as soon as they are there."""
    waiting: deque[Part] = deque()

    def lines() -> Iterator[str | None]:
        for part in parts:
            waiting.append(part)
            yield from part.sentences
            if part.ends_document:
                yield None

    found: list[Translation] = []
    for translation in translator.sentences(lines(), recall):
        while not waiting[0].sentences:
            yield waiting.popleft(), []
        found.append(translation)
        if len(found) == len(waiting[0].sentences):
            yield waiting.popleft(), found
            found = []
    for part in waiting:
        yield part, []


def _identity(job: Job, translator: Translator, weights: list[str]) -> dict[str, Any]:
    """What makes a job this one and no other; what comes through a pipe is compared as it comes."""
    return {
        "version of focat": __version__,
        "input": None if job.readable_once else sha256(job.input),
        "format": [job.format or format_of(job.input), job.split],
        "weights": weights,
        "windows": translator.windows.model_dump(),
        "search settings": translator.settings.model_dump(),
        "context": [translator.reuses, translator.constrained, translator.ahead],
        "batch size": translator.batch_tokens,
    }


@contextmanager
def _output(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its place when the block ends, compressed if its name says so."""
    with atomic_file(path) as file:
        compressed = _compressed(path, file)
        yield compressed
        if compressed is not file:
            compressed.close()


def _compressed(path: Path, file: BinaryIO) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast("BinaryIO", gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        case ".xz":
            return cast("BinaryIO", lzma.LZMAFile(file, "wb"))
        case ".zst":
            return cast("BinaryIO", zstandard.ZstdCompressor().stream_writer(file, closefd=False))
        case _:
            return file


def _lines(lines: list[int]) -> str:
    named = ", ".join(f"{line:,}" for line in lines[:_NAMED])
    more = f" and {len(lines) - _NAMED:,} more" if len(lines) > _NAMED else ""
    return f"line {named}" if len(lines) == 1 else f"lines {named}{more}"

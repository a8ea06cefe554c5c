"""Translation jobs: a file in, a file out, resumed where it was interrupted.

While a file is translated, a journal beside the output keeps the results of the decoder. The same job run again goes
through the same steps, takes from the journal what it holds, and continues where that ends: the output is that of an
uninterrupted job, batch for batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from focat._version import __version__
from focat.corpus.text_files import DEFAULT_LIMIT, LineLimit
from focat.errors import FocatError, ParameterError
from focat.files import behind_link, check_parent_folder, check_partial_file, disk_errors, sha256
from focat.progress import Progress
from focat.translation.formats import (
    FileSegment,
    FormatOptions,
    InputLines,
    check_effect,
    format_of,
    is_archive,
    is_known,
    read_segments,
)
from focat.translation.formats.encodings import UTF8, TextEncoder, file_encoding
from focat.translation.formats.lines import STDIN
from focat.translation.journal import FileId, Journal, JournaledDecoder, open_journal, replaceable_outputs
from focat.translation.outputs import file_id, output_file, segment_writer, standard_output, takes_bytes
from focat.translation.read_ahead import ReadAhead
from focat.translation.result import Translation
from focat.translation.translator import Translator

STDOUT = Path("-")
JOURNAL = ".journal"  # suffix of the file beside the output
_MAX_LISTED = 5  # numbers of lines in a note


@dataclass(frozen=True)
class Job:
    """A file to translate, and where the translation goes."""

    input: Path
    output: Path = STDOUT
    format: str | None = None
    """By the suffix of the input if not given."""
    options: FormatOptions = field(default_factory=FormatOptions)
    overwrite: bool = False
    max_line_bytes: int = DEFAULT_LIMIT.bytes
    encoding: str | None = None
    """Of the input; found out if not given."""
    output_encoding: str = UTF8

    @property
    def readable_once(self) -> bool:
        """Whether the input is a pipe, which can be read only once."""
        return self.input == STDIN or (self.input.exists() and not self.input.is_file() and not self.input.is_dir())

    @property
    def format_name(self) -> str:
        """The format that was given, or that the name of the input stands for."""
        return self.format or format_of(self.input, self.options.languages)

    @property
    def is_archive(self) -> bool:
        """Whether its format is one of archives, which have paragraphs and no lines."""
        return is_archive(self.format_name)

    @property
    def unit(self) -> Literal["line", "paragraph"]:
        """What its parts are named by in notes."""
        return "paragraph" if self.is_archive else "line"

    @property
    def journal(self) -> Path:
        """The journal, which exists until the job is done: beside the file itself, if the output is a link to it."""
        output = behind_link(self.output)
        return output.with_name(output.name + JOURNAL)

    def with_encoding(self, report: Callable[[str], None]) -> Job:
        """The same job with the encoding of its input, unless that is a pipe; one that was found out is reported."""
        if self.encoding is not None or self.readable_once or self.is_archive:
            return self
        return replace(self, encoding=file_encoding(self.input, self.options.languages[0], report))

    def segments(self, report: Callable[[str], None] = lambda _: None) -> Iterator[FileSegment]:
        """The segments of the input. The encoding of a pipe is reported when it is read."""
        limit = LineLimit(self.max_line_bytes, "decoding.max_line_bytes")
        lines = InputLines(self.input, limit, self.encoding, self.options.languages[0], report)
        return read_segments(lines, self.format_name, self.options)

    def check(self) -> None:
        """Find errors in the options, and an output that cannot be written, before any work is done."""
        if self.output != STDOUT:
            self._check_ending()
            self.check_paths(replaceable_outputs(self.journal), resumed=self.journal.exists())
        self.segments()  # refuses options that do not go together
        check_effect(self.format_name, self.options)
        if self.encoding is not None and self.is_archive:
            raise ParameterError("encoding", self.encoding, f"has no effect on {self.format_name}; leave it out")
        if self.is_archive and self.output == STDOUT and not takes_bytes():
            raise FocatError(f"{self.input}: its translation is no text to be shown; give an output file")

    def _check_ending(self) -> None:
        """Refuse an output whose name stands for another format than the input has, unless that was given."""
        if self.format is None and is_known(self.output) and format_of(self.output) != self.format_name:
            problem = f"would be {self.format_name}, as the input is; name it so, or give the format of the input"
            raise FocatError(f"{self.output}: {problem}")

    def check_paths(self, replaceable: Sequence[FileId], resumed: bool) -> None:
        """Refuse an output that cannot be written, or may not; a job that is resumed may replace these files."""
        check_parent_folder(self.output)
        if self.input != STDIN and self.output.exists() and self.output.samefile(self.input):
            raise FocatError(f"{self.output}: is the input; give another output")
        self.check_output(replaceable)
        if not resumed:  # an interrupted job leaves both
            check_partial_file(self.output)

    def count(self) -> int | None:
        """The number of sentences; None if the input is a pipe. Finds errors in the input before any work is done."""
        if self.readable_once:
            return None
        total = 0
        encoder = TextEncoder(self.output, self.output_encoding)
        for segment in self.segments():
            total += len(segment.sentences)
            if not segment.sentences and self.output_encoding != UTF8:
                encoder.encode(segment.write(()), segment.line)
        return total

    def check_output(self, replaceable: Sequence[FileId | None]) -> None:
        """Refuse an output that exists, unless it may be overwritten or is one of these files."""
        if not self.overwrite and self.output_id() not in (None, *replaceable):
            raise FocatError(f"{self.output}: exists; give another file, or overwrite it")

    def output_id(self) -> FileId | None:
        """Identifies the output and its state; None if there is none."""
        return file_id(self.output.stat()) if self.output.exists() else None


@dataclass
class JobStats:
    """What a job did, and what was hard."""

    unit: Literal["line", "paragraph"] = "line"
    """What the numbers below count: lines, or in archives, which have none, paragraphs."""
    sentences: int = 0
    seconds: float = 0.0
    sentences_per_second: float = 0.0
    chunked: list[int] = field(default_factory=list)
    """Lines of sentences that were too long for the model, and translated in chunks."""
    truncated: list[int] = field(default_factory=list)
    """Lines whose translation reached the maximum length."""
    shortened: int = 0
    """Sentences that lost context because their window was too long."""
    terms: int = 0
    """Terms of a glossary, or to keep, that the sentences had."""
    unmet: dict[str, list[int]] = field(default_factory=dict)
    """Lines whose translation lacks a term or placeholder, by what it lacks."""
    noted: dict[str, list[int]] = field(default_factory=dict)
    """Lines of which the format has something to say, by what that is."""

    def add(self, segment: FileSegment, translations: list[Translation]) -> None:
        """Count a segment."""
        self.sentences += len(translations)
        self.shortened += sum(translation.shortened for translation in translations)
        if any(translation.chunks > 1 for translation in translations):
            self.chunked.append(segment.line)
        if any(translation.truncated for translation in translations):
            self.truncated.append(segment.line)
        self.terms += sum(translation.terms for translation in translations)
        for translation in translations:
            for phrase in translation.unmet:
                self.unmet.setdefault(phrase, []).append(segment.line)
        for what, line in segment.notes(translations):
            self.noted.setdefault(what, []).append(line)

    def notes(self) -> Iterator[str]:
        """Lines for the user about what was hard."""
        if self.chunked:
            yield f"too long for the model, translated in chunks: {self._numbered(self.chunked)}"
        if self.truncated:
            yield f"translation truncated at the maximum length: {self._numbered(self.truncated)}"
        if self.shortened:
            yield f"windows that were too long and lost context: {self.shortened:,}"
        if self.terms:
            yield f"terms that translations had to contain: {self.terms:,}"
        for phrase, lines in itertools.islice(self.unmet.items(), _MAX_LISTED):
            yield f"`{phrase}` could not be put into the translation: {self._numbered(lines)}"
        for what, lines in self.noted.items():
            yield f"{what}: {self._numbered(lines)}"

    def _numbered(self, numbers: list[int]) -> str:
        named = ", ".join(f"{number:,}" for number in numbers[:_MAX_LISTED])
        more = f" and {len(numbers) - _MAX_LISTED:,} more" if len(numbers) > _MAX_LISTED else ""
        return f"{self.unit}{'s' * (len(numbers) > 1)} {named}{more}"


def run_job(job: Job, translator: Translator, weights: list[str], progress: Progress) -> JobStats:
    """Translate a file, or resume it; `weights` are the digests of the models."""
    job.check()
    job = job.with_encoding(progress.log)
    total = job.count()
    if job.output == STDOUT:
        stats = _translate(job, translator, total, progress, standard_output(), None)
    else:
        before = job.output_id()
        identity = input_identity(job) | translator_identity(translator, weights)
        with open_journal(job.journal, identity, job.overwrite, before if job.overwrite else None) as journal:
            with output_file(job.output, journal, before) as out:
                stats = _translate(job, translator, total, progress, out, journal)
                journal.finish()
                job.check_output([before])  # someone may have written it in the meantime
            journal.remove()
    for note in stats.notes():
        progress.log(note)
    return stats


def _translate(
    job: Job, translator: Translator, total: int | None, progress: Progress, out: BinaryIO, journal: Journal | None
) -> JobStats:
    stats = JobStats(job.unit)
    name = Path("standard output") if journal is None else job.output
    decoder = None if journal is None else JournaledDecoder(translator.decoder, journal)
    with progress.bar("translating", "sentences", total) as bar:
        segments = job.segments(progress.log)
        writer = segment_writer(out, job.format_name, name, job.output_encoding)
        # With a journal, what is decoded together must not depend on time: a resumed job repeats it.
        pipe = ReadAhead(segments) if job.readable_once and journal is None else None
        groups = ((segment, segment.sentences, segment.ends_document) for segment in pipe or segments)
        for segment, translations in translator.groups(groups, decoder, pipe.ready if pipe else None):
            stats.add(segment, translations)
            with disk_errors(name):
                writer.write(segment, translations)
                if journal is None:
                    out.flush()
            bar.advance(len(translations), earlier=journal is not None and journal.replaying)
        with disk_errors(name):
            writer.finish()
            out.flush()
    stats.seconds, stats.sentences_per_second = round(bar.seconds, 3), round(bar.rate, 2)
    return stats


def input_identity(job: Job) -> dict[str, Any]:
    """What identifies the input of a job, by name; that of a pipe is compared while it is read."""
    options = job.options
    return {
        "input": None if job.readable_once else sha256(job.input),
        "encoding": job.encoding,
        "format": [
            *(job.format_name, options.split, options.languages, options.all_entries),
            options.subtitles.keep_sounds,
        ],
    }


def translator_identity(translator: Translator, weights: list[str]) -> dict[str, Any]:
    """What identifies the way in which a job is translated, by name."""
    return {
        "version of focat": __version__,
        "weights": weights,
        "windows": translator.windows.model_dump(),
        "search settings": translator.settings.model_dump(),
        "context": [translator.reuse, translator.constrained, translator.lookahead, *translator.jobs.source_tag],
        "batch size": translator.engine.batch_tokens,
        "terms": translator.terminology and [astuple(entry) for entry in translator.terminology.entries],
    }

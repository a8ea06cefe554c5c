"""Many files in one job: what folders and patterns stand for, outputs of the same relative names, shards.

The files share batches, one progress and one journal, which is in the output folder until the job is done. A job that
is run again goes through the same steps, takes from the journal what it holds, and leaves files alone that it has
finished.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from focat.errors import FocatError, ParameterError
from focat.files import PARTIAL_SUFFIX, disk_errors
from focat.progress import Bar, Progress
from focat.translation.formats import FileSegment, format_of
from focat.translation.formats.lines import STDIN
from focat.translation.formats.segments import verbatim
from focat.translation.jobs import JOURNAL, STDOUT, Job, JobStats, input_identity, translator_identity
from focat.translation.journal import FileId, Journal, JournaledDecoder, open_journal, written_outputs
from focat.translation.outputs import SegmentWriter, output_file, segment_writer
from focat.translation.result import Translation
from focat.translation.translator import Translator

Shard = tuple[int, int]
"""Which part of the files, counted from 1, and how many parts there are."""


@dataclass
class FilesStats:
    """What a job of several files did; files are given by their names relative to the output folder."""

    sentences: int = 0
    seconds: float = 0.0
    sentences_per_second: float = 0.0
    translated: list[str] = field(default_factory=list)
    existing: list[str] = field(default_factory=list)
    """Files whose output existed, and was left as it is."""
    skipped: list[str] = field(default_factory=list)
    """Files in folders that focat does not read."""
    failed: dict[str, str] = field(default_factory=dict)
    """What is wrong with files that could not be translated."""
    files: dict[str, JobStats] = field(default_factory=dict)
    """What was done in each file, and what was hard."""


_MAX_LISTED = 5  # names in a note


class _UnwritableFile(FocatError):
    """The translation of one file cannot be written; the others can."""


def is_many(inputs: Sequence[str | Path], output: str | Path) -> bool:
    """Whether these are a job of several files: more than one, a folder, a pattern, or a folder for the output."""
    one = inputs[0] if len(inputs) == 1 else None
    return len(inputs) > 1 or (one is not None and (Path(one).is_dir() or _is_pattern(one) or Path(output).is_dir()))


def find_files(
    inputs: Iterable[str | Path], output: Path, format: str | None, languages: tuple[str, ...]
) -> tuple[dict[str, Path], list[str]]:
    """The files to translate, by the names that their outputs have below the output folder.

    Args:
        inputs: files, folders with files at any depth, and patterns such as `films/**/*.srt`.
        output: what is in this folder is no input.
        format: that of all files; if not given, files of other kinds in folders are left out.
        languages: of the model: `talk.en` is text.

    Returns:
        The files, and the names of those left out.

    Raises:
        FocatError: a pattern matches nothing, or two files have the same name for their output.
    """
    named = [Path(each) for each in inputs if not (Path(each).is_dir() or _is_pattern(each))]
    base = Path(os.path.commonpath([path.absolute().parent for path in named])) if named else Path()
    found = [(path.absolute().relative_to(base), path) for path in named]
    skipped: list[str] = []
    for each in inputs:
        if Path(each).is_dir():
            paths = sorted(path for path in Path(each).rglob("*") if path.is_file())
            below = Path(each)
        elif _is_pattern(each):
            parts = Path(each).parts
            below = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), parts))
            pattern = Path(*itertools.dropwhile(lambda part: not glob.has_magic(part), parts))
            paths = sorted(path for path in below.glob(str(pattern)) if path.is_file())
            if not paths:
                raise FocatError(f"{each}: no file matches this pattern")
        else:
            continue
        for path in paths:
            name = path.relative_to(below)
            if _is_other(name) or output.resolve() in path.resolve().parents:
                continue
            if format is None and not _is_read(path, languages):
                skipped.append(name.as_posix())
            else:
                found.append((name, path))
    files: dict[str, Path] = {}
    for name, path in found:
        other = files.setdefault(name.as_posix(), path)
        if other.resolve() != path.resolve():
            raise FocatError(f"{other} and {path}: both would become {output / name}; translate them one by one")
    return dict(sorted(files.items())), skipped


def _is_pattern(path: str | Path) -> bool:
    return glob.has_magic(str(path)) and not Path(path).exists()


def _is_other(name: Path) -> bool:
    """Whether a file in a folder is hidden, or one that focat keeps while it works."""
    return any(part.startswith(".") for part in name.parts) or name.name.endswith((JOURNAL, PARTIAL_SUFFIX))


def _is_read(path: Path, languages: tuple[str, ...]) -> bool:
    try:
        format_of(path, languages)
    except FocatError:
        return False
    return True


def shard_of(name: str, shards: int) -> int:
    """The shard of a file, counted from 1: by its name alone, so that other files do not change it."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8], "big") % shards + 1


def run_files(
    template: Job,
    inputs: Sequence[str | Path],
    shard: Shard | None,
    translator: Translator,
    weights: list[str],
    progress: Progress,
) -> FilesStats:
    """Translate several files, or resume that.

    Args:
        template: its output is the folder of the outputs; everything but its input is as of every file.
        inputs: as of `find_files`.
        shard: translate only the files of this one.
        weights: the digests of the models.
    """
    folder = template.output
    if not inputs or any(Path(each) == STDIN for each in inputs):
        raise FocatError("name the files to translate; standard input is translated alone")
    if folder == STDOUT or (folder.exists() and not folder.is_dir()):
        given = "" if folder == STDOUT else f"; {folder} is a file"
        raise FocatError(f"several files need a folder for their outputs{given}")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ParameterError("shard", "/".join(map(str, shard)), "should be a number from 1 to that of shards, as 2/8")
    if not folder.parent.is_dir():
        raise FocatError(f"{folder}: there is no folder {folder.parent}")
    found, skipped = find_files(inputs, folder, template.format, template.options.languages)
    stats = FilesStats(skipped=skipped)
    own = {name: path for name, path in found.items() if shard is None or shard_of(name, shard[1]) == shard[0]}
    path = folder / f".focat{'' if shard is None else f'-{shard[0]}-of-{shard[1]}'}{JOURNAL}"
    written = written_outputs(path)
    shared = _shared_outputs(found, folder)
    jobs: dict[str, Job] = {}
    outputs: dict[str, FileId | None] = {}  # what is there now
    total = 0
    for name, input in own.items():
        job = replace(template, input=input, output=folder / name)
        outputs[name] = job.output_id()
        if not job.overwrite and outputs[name] not in (None, *written):
            stats.existing.append(name)
            continue
        try:
            if job.readable_once:
                raise FocatError(f"{input}: a pipe, which is translated alone")
            with disk_errors(job.output):
                job.output.parent.mkdir(parents=True, exist_ok=True)
            job.check_paths(written, resumed=path.exists())
            if name in shared:
                raise FocatError(f"{job.output}: leads to {shared[name]}; remove the link")
            jobs[name] = job.with_encoding(progress.log)
            total += jobs[name].count() or 0
        except FocatError as error:
            jobs.pop(name, None)
            stats.failed[name] = str(error)
    if jobs:
        identity = {"files": [[name, input_identity(job)] for name, job in jobs.items()]}
        identity |= translator_identity(translator, weights)
        with open_journal(path, identity, template.overwrite) as journal:
            with progress.bar(f"translating {len(jobs):,} file{'s' * (len(jobs) > 1)}", "sentences", total) as bar:
                _translate(jobs, outputs, written, translator, journal, bar, stats)
            journal.finish()
            journal.remove()
        stats.seconds, stats.sentences_per_second = round(bar.seconds, 3), round(bar.rate, 2)
    _report(stats, progress)
    return stats


def _shared_outputs(files: dict[str, Path], folder: Path) -> dict[str, str]:
    """Outputs that are links to an input or to another output of the job, and what they would replace."""
    taken = {os.path.realpath(path): f"{path}, which is an input" for path in files.values()}
    shared: dict[str, str] = {}
    for name in files:
        output = os.path.realpath(folder / name)
        if output in taken:
            shared[name] = taken[output]
        taken.setdefault(output, f"the file of the output {folder / name}")
    return shared


def _translate(
    jobs: dict[str, Job],
    outputs: dict[str, FileId | None],
    written: Sequence[FileId],
    translator: Translator,
    journal: Journal,
    bar: Bar,
    stats: FilesStats,
) -> None:
    """Translate the files as one stream of documents, and write each when it is complete.

    Args:
        outputs: what was at the name of each output when the job began.
        written: the outputs that the job had written before it was interrupted.
    """
    decoder = JournaledDecoder(translator.decoder, journal)
    groups = (((name, segment), segment.sentences, segment.ends_document) for name, segment in _segments(jobs, stats))
    results = translator.groups(groups, decoder)
    for name, own in itertools.groupby(results, key=lambda result: result[0][0]):
        job = jobs[name]
        segments = _counted(((segment, translations) for (_, segment), translations in own), journal, bar)
        stats.files[name] = found = JobStats(job.unit)
        before = outputs[name]
        try:
            if before in written:  # finished before the job was interrupted
                for segment, translations in segments:
                    found.add(segment, translations)
            else:
                with output_file(job.output, journal, before) as out:
                    writer = segment_writer(out, job.format_name, job.output, job.output_encoding)
                    for segment, translations in segments:
                        found.add(segment, translations)
                        _write(writer, job, segment, translations)
                    if name in stats.failed:
                        raise _UnwritableFile(stats.failed[name])
                    with disk_errors(job.output):
                        writer.finish()
                    _check_output(job, before)
            stats.translated.append(name)
        except _UnwritableFile as error:
            stats.failed[name] = str(error)
            del stats.files[name]
            for _ in segments:  # the others go on
                pass
    stats.sentences = sum(each.sentences for each in stats.files.values())


def _check_output(job: Job, before: FileId | None) -> None:
    """Leave a file alone that someone has written in the meantime."""
    try:
        job.check_output([before])
    except FocatError as error:
        raise _UnwritableFile(str(error)) from error


def _segments(jobs: dict[str, Job], stats: FilesStats) -> Iterator[tuple[str, FileSegment]]:
    """The segments of all files; a file ends its document."""
    for name, job in jobs.items():
        try:
            for segment in job.segments():
                yield name, segment
        except FocatError as error:  # it was changed after it was checked
            stats.failed[name] = str(error)
        yield name, verbatim(0, "", ends_document=True)


def _counted(
    results: Iterable[tuple[FileSegment, list[Translation]]], journal: Journal, bar: Bar
) -> Iterator[tuple[FileSegment, list[Translation]]]:
    for segment, translations in results:
        bar.advance(len(translations), earlier=journal.replaying)
        yield segment, translations


def _write(writer: SegmentWriter, job: Job, segment: FileSegment, translations: Sequence[Translation]) -> None:
    with disk_errors(job.output):
        try:
            writer.write(segment, translations)
        except FocatError as error:
            raise _UnwritableFile(str(error)) from error


def _report(stats: FilesStats, progress: Progress) -> None:
    for name, found in stats.files.items():
        for note in found.notes():
            progress.log(f"{name}: {note}")
    if stats.existing:
        progress.log(f"left as they are, since their outputs exist: {_names(stats.existing)}")
    if stats.skipped:
        progress.log(f"left out, since focat does not read such files: {_names(stats.skipped)}")


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more

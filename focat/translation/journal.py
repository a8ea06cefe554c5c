"""The journal of a translation job: results that were computed so far, so that an interrupted job can be resumed.

Records are appended whole, each with its length and checksum; a record that was torn when its writer was killed is
dropped. The first record identifies the job. The last says which file was written as the output.
Each of the others holds the results of one wave, from when the decoder
had nothing to do until it was idle again: a wave is either replayed or decoded as a whole, in the same batches, so
that a resumed job gives the same bytes as an uninterrupted one.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from focat.decoding.requests import Request
from focat.errors import FocatError
from focat.files import digest_of, disk_errors, locked_folder, sync
from focat.translation.sentence_decoder import Decoded, DecodedSentence, SentenceDecoder

_NAME = b"focat journal "
_MAGIC = _NAME + b"3\n"
_HEADER = struct.Struct("<II")  # length and checksum of a record
_SYNC_SECONDS = 5.0  # what a power failure may cost; if the process is killed, no record is lost

FileId = list[int]
"""Tells a file from any other, and from itself after a change."""
_REPLACES, _OUTPUT = "replaces", "output"  # in the first record, and in the last

# a step of a wave: the digest of the windows submitted before it, and for each window that it finished, its index in
# the wave and the n best as (tokens, log-probability, truncated)
_Step = tuple[str, list[tuple[int, list[tuple[list[int], float, bool]]]]]


@contextmanager
def open_journal(
    path: Path, job: dict[str, Any], overwrite: bool = False, replaces: FileId | None = None
) -> Iterator[Journal]:
    """Open or create the journal of a job, for this process alone.

    Args:
        job: what identifies the job, by name.
        overwrite: drop the journal of another job instead of refusing it.
        replaces: a file that the job may replace, also when it is resumed; recorded when the job begins.

    Raises:
        FocatError: the journal belongs to another job, or the file is none, or another process has it open.
    """
    with disk_errors(path):
        path.touch()
    with locked_folder(path, "another process is at this job"), _opened(path) as file:
        identity = {name: digest_of(value)[:16] for name, value in job.items()}
        journal = Journal(path, file, identity, overwrite, replaces)
        try:
            yield journal
        except BaseException:
            if not (journal.replaying or journal.has_results):
                journal.remove()  # there is nothing to resume
            raise


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file; an error while it is closed is reported like one while it is written."""
    with disk_errors(path):
        file = path.open("r+b")
    try:
        yield file
    finally:
        with disk_errors(path):
            file.close()


def replaceable_outputs(path: Path) -> list[FileId]:
    """Return the files that a resumed job may replace: one it was to overwrite, and one it has written itself.

    The first record of a journal names the one, the last record the other.
    """
    records: list[bytes] = []
    for record in _records(path):
        records[1:] = [record]
    found: list[FileId] = []
    for record, name in zip(records, (_REPLACES, _OUTPUT), strict=False):
        fields = json.loads(zlib.decompress(record))
        if isinstance(fields, dict) and name in fields:
            found += fields[name]
    return found


def written_outputs(path: Path) -> list[FileId]:
    """Return all files that a job of several files has written so far."""
    found: list[FileId] = []
    for record in itertools.islice(_records(path), 1, None):
        content = zlib.decompress(record)
        if content.startswith(b"{"):  # a wave is a list
            found += json.loads(content).get(_OUTPUT, [])
    return found


def _records(path: Path) -> Iterator[bytes]:
    """The whole records of a journal, compressed as they are; none if there is no journal."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    position = len(_MAGIC)
    while content.startswith(_MAGIC) and position + _HEADER.size <= len(content):
        length, checksum = _HEADER.unpack_from(content, position)
        position += _HEADER.size
        record = content[position : position + length]
        if len(record) != length or zlib.crc32(record) != checksum:
            return
        yield record
        position += length


class Journal:
    """A file of records that exists until its job is done."""

    def __init__(
        self, path: Path, file: BinaryIO, job: dict[str, str], overwrite: bool, replaces: FileId | None
    ) -> None:
        self.path, self._file, self._overwrite = path, file, overwrite
        self._synced = time.monotonic()
        self._last_read = 0  # where the record that was read last begins
        self.replaying = self._belongs_to(job)
        """Whether there may be records of an earlier run that have not been read."""
        self.has_results = False
        """Whether any record was read or written."""
        if not self.replaying:
            file.seek(0)
            file.truncate()
            file.write(_MAGIC)
            self._write(job if replaces is None else {**job, _REPLACES: [replaces]})

    def read(self) -> list[_Step] | None:
        """The next wave of an earlier run; None after the last one."""
        record: list[_Step] | dict[str, list[int]] | None = self._read() if self.replaying else None
        while isinstance(record, dict):  # the output was written; the record stays, lest a kill forget whose it is
            record = self._read()
        self.replaying = record is not None
        self.has_results |= self.replaying
        return record

    def append(self, steps: list[_Step]) -> None:
        """Record a wave."""
        self._write(steps)
        self.has_results = True

    def record_output(self, file: FileId, before: FileId | None) -> None:
        """Record which file the output is, before it appears at its name, and which file it replaces, if any.

        A job that was killed between the two has an output already, which it may replace once more.
        """
        if self.replaying and self._file.tell() < os.fstat(self._file.fileno()).st_size:
            return  # more records follow: a job of several files writes one again that was taken away
        self._write({_OUTPUT: [each for each in (file, before) if each is not None]})

    def reject(self) -> None:
        """The wave that was read last is of another input: what comes through a pipe has changed.

        Raises:
            FocatError: unless it may be overwritten; then it is dropped with all that follow.
        """
        self.has_results = True
        if not self._overwrite:
            raise FocatError(f"{self.path}: belongs to a job with other input; overwrite it to start again")
        self._file.seek(self._last_read)
        self._file.truncate()
        self.replaying = False

    def finish(self) -> None:
        """Check that no wave is left when the input has ended: it would be of another, longer input."""
        if self.read() is not None:
            self.reject()

    def remove(self) -> None:
        """Delete the file, when the job is done."""
        with disk_errors(self.path):
            self.path.unlink(missing_ok=True)

    def _belongs_to(self, job: dict[str, str]) -> bool:
        """Whether it was begun by this job; one of another job is an error, unless it may be overwritten."""
        magic = self._file.read(len(_MAGIC))
        if not (magic.startswith(_NAME) or _MAGIC.startswith(magic)):
            raise FocatError(f"{self.path}: is no journal of focat, but stands where one belongs; move it away")
        if len(magic) == len(_MAGIC) and magic != _MAGIC:
            problem = "was written by another version of focat"
        else:
            begun = self._read() if magic == _MAGIC else None
            if begun is not None:
                begun.pop(_REPLACES, None)
            if begun is None or begun == job:
                return begun is not None
            problem = "belongs to a job with " + ", ".join(f"other {n}" for n in job if begun.get(n) != job[n])
        if not self._overwrite:
            raise FocatError(f"{self.path}: {problem}; run that command again to resume it, or overwrite it")
        return False

    def _read(self) -> Any:
        """The next record; None after the last whole one, and then what is torn after it is cut off."""
        self._last_read = self._file.tell()
        header = self._file.read(_HEADER.size)
        if len(header) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            left = os.fstat(self._file.fileno()).st_size - self._file.tell()
            payload = self._file.read(min(length, left))  # a damaged length may be gigabytes
            if len(payload) == length and zlib.crc32(payload) == checksum:
                return json.loads(zlib.decompress(payload))
        self._file.seek(self._last_read)
        self._file.truncate()
        return None

    def _write(self, content: Any) -> None:
        payload = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)
        with disk_errors(self.path):
            self._file.write(_HEADER.pack(len(payload), zlib.crc32(payload)) + payload)
            self._file.flush()
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                sync(self._file.fileno())
                self._synced = time.monotonic()


class JournaledDecoder:
    """A sentence decoder around another one: replays what a journal holds, and records what is decoded."""

    def __init__(self, decoder: SentenceDecoder, journal: Journal) -> None:
        self._decoder, self._journal = decoder, journal
        self._next_id = self._wave_start = 0
        self._new: list[int] = []  # submitted since the last step that finished any
        self._pending: dict[int, tuple[Request, int]] = {}  # submitted and not finished
        self._inner: dict[int, int] = {}  # ids of the inner decoder → ours
        self._replay: deque[_Step] = deque()
        self._steps: list[_Step] = []  # of the current wave
        self._recording = False  # whether the journal does not hold the current wave

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or being decoded."""
        return not self._pending

    def submit(self, request: Request, position: int) -> int:
        """Queue a window; see `SentenceDecoder`."""
        if self.idle:
            self._start_wave()
        id = self._next_id
        self._next_id += 1
        self._new.append(id)
        self._pending[id] = request, position
        if not self._replay:
            self._inner[self._decoder.submit(request, position)] = id
        return id

    def step(self) -> list[Decoded]:
        """Do some of the work, or replay it; see `SentenceDecoder`."""
        if self._replay and self._replay[0][0] != self._digest():
            self._journal.reject()
            self._replay.clear()
            self._recording = True
            for id, (request, position) in self._pending.items():
                self._inner[self._decoder.submit(request, position)] = id
        decoded = self._replayed() if self._replay else self._decoded()
        for id, _ in decoded:
            del self._pending[id]
        if self.idle and self._recording:
            self._journal.append(self._steps)
        return decoded

    def _start_wave(self) -> None:
        self._wave_start, self._steps, self._new = self._next_id, [], []
        self._replay = deque(self._journal.read() or ())
        self._recording = not self._replay

    def _replayed(self) -> list[Decoded]:
        step = self._replay.popleft()
        self._finish_step(step)
        return [(self._wave_start + i, [DecodedSentence(*sentence) for sentence in nbest]) for i, nbest in step[1]]

    def _decoded(self) -> list[Decoded]:
        decoded = [(self._inner.pop(id), nbest) for id, nbest in self._decoder.step()]
        if decoded:
            finished = [
                (id - self._wave_start, [(s.tokens, s.log_probability, s.truncated) for s in nbest])
                for id, nbest in decoded
            ]
            self._finish_step((self._digest(), finished))
        return decoded

    def _finish_step(self, step: _Step) -> None:
        self._steps.append(step)
        self._new = []

    def _digest(self) -> str:
        """Identifies the windows submitted since the last step that finished any."""
        submitted = [self._pending[id] for id in self._new]
        return digest_of(
            [
                [
                    list(r.source),
                    list(r.prefix),
                    r.sentences,
                    r.max_length,
                    position,
                    *([r.required] if r.required else []),
                ]
                for r, position in submitted
            ]
        )[:16]

"""The journal of a job: what the search has answered so far, so that no answer is computed twice.

Records are appended whole, each with its length and checksum; a record that was torn when its writer was killed is
dropped. The first record says which job the journal belongs to.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from focat.decoding.requests import Request
from focat.errors import FocatError
from focat.files import digest_of, disk_errors, locked_folder, sync
from focat.translation.translator import Answers, Candidate

_MAGIC = b"focat journal 2\n"
_HEAD = struct.Struct("<II")  # length and checksum of a record
_SYNC_SECONDS = 5.0  # what a power failure may cost; when a process is killed, nothing that was answered is lost


@contextmanager
def journal_of(path: Path, job: dict[str, Any], afresh: bool = False) -> Iterator[Journal]:
    """The journal of a job, for this process alone; `afresh` drops that of another job instead of refusing it."""
    with disk_errors(path):
        path.touch()
    with locked_folder(path, "another process is at this job"), _opened(path) as file:
        journal = Journal(path, file, {name: digest_of(value)[:16] for name, value in job.items()}, afresh)
        try:
            yield journal
        except BaseException:
            if not (journal.remembers or journal.answered):
                journal.remove()  # there is nothing to go on with
            raise


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file; what it could not take before, it cannot take when it is closed either."""
    with disk_errors(path):
        file = path.open("r+b")
    try:
        yield file
    finally:
        with disk_errors(path):
            file.close()


class Journal:
    """A file that is there while its job is not done."""

    def __init__(self, path: Path, file: BinaryIO, job: dict[str, str], afresh: bool) -> None:
        self.path, self._file, self._afresh = path, file, afresh
        self._synced = time.monotonic()
        self.remembers = self._belongs_to(job, afresh)
        """Whether there may be answers left from an earlier time."""
        self.answered = False
        """Whether it has had an answer for anything."""
        if not self.remembers:
            file.seek(0)
            file.truncate()
            file.write(_MAGIC)
            self._write(job)

    def _belongs_to(self, job: dict[str, str], afresh: bool) -> bool:
        """Whether it was begun by this job; by another one is an error, unless that is to be dropped."""
        begun = self._read() if self._has_begun() else None
        if begun is None or begun == job:
            return begun is not None
        if not afresh:
            other = ", ".join(f"other {name}" for name in job if begun.get(name) != job[name])
            raise FocatError(
                f"{self.path}: belongs to a job with {other}; "
                "run that command again to go on with it, or give --overwrite to drop it"
            )
        return False

    def _has_begun(self) -> bool:
        found = self._file.read(len(_MAGIC))
        if not _MAGIC.startswith(found):
            raise FocatError(f"{self.path}: is no journal of focat, but stands where one belongs; move it away")
        return found == _MAGIC

    def recall(self, requests: Sequence[Request], compute: Callable[[], Answers]) -> Answers:
        """The answers of an earlier time while there are any; after that they are computed, and kept."""
        asked = digest_of([[list(r.source), list(r.prefix), r.sentences, r.longest] for r in requests])[:16]
        place = self._file.tell()
        record = self._read() if self.remembers else None
        if record is not None and record["asked"] != asked:
            self._other_input(place)
            record = None
        if record is not None:
            self.answered = True
            return [[[Candidate(*each) for each in best] for best in chain] for chain in record["answers"]]
        self.remembers = False
        answers = compute()
        kept = [[[(c.tokens, c.log_probability, c.finished) for c in best] for best in chain] for chain in answers]
        self._write({"asked": asked, "answers": kept})
        self.answered = True
        return answers

    def finish(self) -> None:
        """Everything has been asked: what is left would be answers to the end of another input."""
        place = self._file.tell()
        if self.remembers and self._read() is not None:
            self._other_input(place)

    def _other_input(self, place: int) -> None:
        """What follows answers other questions: what came through a pipe was another text before."""
        self.answered = True
        if not self._afresh:
            raise FocatError(f"{self.path}: belongs to a job with other input; give --overwrite to drop it")
        self._file.seek(place)
        self._file.truncate()

    def remove(self) -> None:
        """The job is done."""
        with disk_errors(self.path):
            self.path.unlink(missing_ok=True)

    def _read(self) -> Any:
        """The next record; None where the last whole one has been read, and what is torn after it is gone."""
        place = self._file.tell()
        head = self._file.read(_HEAD.size)
        if len(head) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            payload = self._file.read(length)
            if len(payload) == length and zlib.crc32(payload) == checksum:
                return json.loads(zlib.decompress(payload))
        self._file.seek(place)
        self._file.truncate()
        return None

    def _write(self, content: Any) -> None:
        payload = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)
        with disk_errors(self.path):
            self._file.write(_HEAD.pack(len(payload), zlib.crc32(payload)) + payload)
            self._file.flush()
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                sync(self._file.fileno())
                self._synced = time.monotonic()

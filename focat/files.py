"""Files that appear whole or not at all: written beside their place, synced to disk, then renamed into it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from focat.errors import FocatError

PARTIAL_SUFFIX = ".unfinished"  # suffix of what is still being written; safe to delete


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that no reader, and no crash, ever finds half of it."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill; it takes its place when the block ends, replacing an older one, and vanishes if it fails."""
    path = path.resolve() if path.is_symlink() else path  # the file behind a link, not the link
    beside = path.with_name(path.name + PARTIAL_SUFFIX)
    with disk_errors(path):
        try:
            with beside.open("wb") as file:
                yield file
                file.flush()
                sync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def write_json(path: Path, content: Any) -> None:
    """`write_atomic` of readable JSON; the same content gives the same bytes."""
    write_atomic(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it takes its place when the block ends, replacing an older one, and vanishes if it fails."""
    beside = path.with_name(path.name + PARTIAL_SUFFIX)
    older = path.with_name(f"{path.name}.older{PARTIAL_SUFFIX}")
    try:
        with disk_errors(path):
            shutil.rmtree(beside, ignore_errors=True)
            shutil.rmtree(older, ignore_errors=True)
            beside.mkdir(parents=True)
            yield beside
            rights = 0o666 & ~_umask()
            for file in beside.rglob("*"):
                if file.is_file():
                    file.chmod(rights)  # whoever wrote it may have meant it for themselves alone
                    with file.open("rb") as opened:
                        sync(opened.fileno())
            _sync_folder(beside)
            if path.exists():
                path.rename(older)  # deleting takes time, and half a folder must not stand in its place meanwhile
            beside.rename(path)
            _sync_folder(path.parent)
            shutil.rmtree(older, ignore_errors=True)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


@contextmanager
def locked_folder(folder: Path, otherwise: str) -> Iterator[None]:
    """Hold a folder for this process alone; the lock goes with the process, however it ends."""
    with disk_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FocatError(f"{folder}: {otherwise}; wait for it or stop it") from None
        yield
    finally:
        os.close(descriptor)


def check_output_file(path: Path | None, overwrite: bool) -> None:
    """Refuse a file that exists, or that cannot be written where it is to be, before any work is done."""
    check_parent_folder(path)
    if path is not None and path.exists() and not overwrite:
        raise FocatError(f"{path}: exists; give another file, or overwrite it")


def check_parent_folder(path: Path | None) -> Path | None:
    """Return the path if a file can be written there: its folder exists, and it is no folder, device or pipe."""
    if path is not None and not path.parent.is_dir():
        raise FocatError(f"{path}: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise FocatError(f"{path}: a folder, where a file was expected")
    if path is not None and path.exists() and not path.is_file():
        raise FocatError(f"{path}: a device or pipe, where a file was expected; leave it out and use `> {path}`")
    return path


def split_name(argument: str | Path) -> tuple[str | None, Path]:
    """Split `NAME=FILE` into its name and its file; the name is None if there is only a file.

    Either part may contain an equals sign: an existing file is a file, then the first split whose file exists is taken.
    """
    parts = str(argument).split("=")
    splits = [("=".join(parts[:i]), Path("=".join(parts[i:]))) for i in range(1, len(parts)) if parts[0] and parts[-1]]
    if Path(argument).exists() or not splits:
        return None, Path(argument)
    return next((split for split in splits if split[1].exists()), splits[0])


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the disk refuses, in one line."""
    try:
        yield
    except BrokenPipeError:  # not the disk: whoever read our output has had enough
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FocatError(f"{path}: the disk is full; make room and run the same command again") from None
        if error.errno == errno.EFBIG:
            raise FocatError(f"{path}: grew over the size allowed for a file; see `ulimit -f`") from None
        raise FocatError(f"{path}: cannot be written: {error.strerror or error}") from None


def sha256(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def digest_of(content: Any) -> str:
    """Digest of anything JSON can write; equal content, equal digest."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def sync(descriptor: int) -> None:
    """Wait until a file is on the disk."""
    os.fsync(descriptor)


def _umask() -> int:
    """The rights that files of this process are not given."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files that appear complete or not at all: written beside their path, synced to disk, then renamed to it.

Also locks of folders, digests, checks of paths that a user names, and the cache folder.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from focat.errors import FocatError

try:
    import fcntl
except ImportError:
    raise ImportError("focat needs a POSIX system such as Linux or macOS; on Windows, use WSL") from None

# Ends the names of files and folders that are still being written. What an interrupted command left under such a name
# in a folder of focat's own is replaced or deleted by the next one; elsewhere it is refused, since it may be a user's.
PARTIAL_SUFFIX = ".focat-unfinished"


def cache_folder(name: str) -> Path:
    """Where focat keeps what it can make again, in the user's cache folder.

    Raises:
        RuntimeError: the user has no home folder.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "focat" / name


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that neither a reader nor a crash ever finds half of it."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends, and is deleted if the block raises."""
    path = behind_link(path)  # which is replaced, not the link
    partial = partial_file(path)
    with disk_errors(path):
        try:
            with partial.open("wb") as file:
                if path.exists():
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))  # what was private stays private
                yield file
                file.flush()
                sync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def partial_file(path: Path) -> Path:
    """Return the file that becomes `path` when it is complete; beside the file itself, if `path` is a link to it."""
    path = behind_link(path)
    return path.with_name(path.name + PARTIAL_SUFFIX)


def behind_link(path: Path) -> Path:
    """Return the file that a link leads to, whether it exists or not; a path that is no link as it is.

    Raises:
        FocatError: the link leads back to itself.
    """
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):  # which of them depends on the version of Python
        raise FocatError(f"{path}: is a link that leads back to itself; delete it") from None


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON atomically; the same content gives the same bytes."""
    write_atomic(path, json_text(content))


def json_text(content: Any) -> str:
    """Return what `write_json` writes."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read a small JSON file that focat wrote.

    Raises:
        FocatError: it cannot be read or holds no JSON object; the message ends with the remedy.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise FocatError(f"{path}: cannot be read ({reason}); {remedy}") from None
    if not isinstance(content, dict):
        raise FocatError(f"{path}: holds no JSON object; {remedy}")
    return content


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that replaces `path` when the block ends, and is deleted if the block raises."""
    path = behind_link(path)  # which is replaced, not the link
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    older = path.with_name(f"{path.name}.older{PARTIAL_SUFFIX}")
    try:
        with disk_errors(path):
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(older, ignore_errors=True)
            partial.mkdir(parents=True)
            yield partial
            mode = 0o666 & ~_umask()
            for file in partial.rglob("*"):
                if file.is_file():
                    file.chmod(mode)  # safetensors writes files that only their owner can read
                    with file.open("rb") as opened:
                        sync(opened.fileno())
            _sync_folder(partial)
            if path.exists():
                path.rename(older)  # deleting takes time, and must not leave half a folder at `path`
            partial.rename(path)
            _sync_folder(path.parent)
            shutil.rmtree(older, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def delete_folder(path: Path) -> None:
    """Delete a folder so that an interruption never leaves half of it under its own name; of a link, the link alone."""
    older = path.with_name(f"{path.name}.older{PARTIAL_SUFFIX}")
    with disk_errors(path):
        if path.is_symlink():
            path.unlink()
            return
        shutil.rmtree(older, ignore_errors=True)
        path.rename(older)
        shutil.rmtree(older, ignore_errors=True)


@contextmanager
def locked_folder(folder: Path, otherwise: str) -> Iterator[None]:
    """Hold a folder for this process alone; raise a `FocatError` with `otherwise` if another process holds it.

    Written by hand because `filelock` needs a lock file, which stays in the user's folder. A lock on the folder's own
    descriptor leaves nothing behind, and ends with the process however that ends.
    """
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
    if path is None:
        return
    check_parent_folder(path)
    if path.exists() and not overwrite:
        raise FocatError(f"{path}: exists; give another file, or overwrite it")
    check_partial_file(path)


def check_parent_folder(path: Path) -> None:
    """Refuse a path where no file can be written: its folder does not exist, or it is a folder, device or pipe."""
    if not path.parent.is_dir():
        raise FocatError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise FocatError(f"{path}: a folder, where a file was expected")
    if path.exists() and not path.is_file():
        raise FocatError(f"{path}: a device or pipe, where a file was expected; leave it out and use `> {path}`")


def check_new_folder(path: Path) -> None:
    """Refuse the working folder and those above it, which a new folder cannot replace under the shell that is in it."""
    if Path(os.path.realpath(path)) in (Path.cwd(), *Path.cwd().parents):
        raise FocatError(f"{path}: is the working folder, or above it, and cannot be replaced; give another folder")


def check_own_files(folder: Path, own: Collection[str], command: str) -> None:
    """Refuse to replace a folder that a command has written, if somebody has put other files than these into it."""
    foreign = next((path for path in sorted(folder.iterdir()) if path.name not in own), None)
    if foreign is not None:
        raise FocatError(f"{foreign}: was not written by `{command}`, which would delete it; move it away")


def check_partial_file(path: Path) -> None:
    """Refuse a path beside which stands what an interrupted command has left, or a user's file of that name."""
    partial = partial_file(path)
    if os.path.lexists(partial):
        raise FocatError(f"{partial}: exists, and would be replaced while {path.name} is written; move or delete it")


def unused_path(path: Path) -> Path:
    """Return the path if nothing is there, else the first of NAME-2, NAME-3 and so on where nothing is."""
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(found for found in itertools.chain([path], names) if not os.path.lexists(found))


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
    """Turn errors of writing `path` into a `FocatError`."""
    try:
        yield
    except BrokenPipeError:  # not the disk: the reader of our output has closed it
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FocatError(f"{path}: the disk is full; make room and run the same command again") from None
        if error.errno == errno.EFBIG:
            raise FocatError(f"{path}: grew over the size allowed for a file; see `ulimit -f`") from None
        raise FocatError(f"{path}: cannot be written: {error.strerror or error}") from None


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def digest_of(content: Any) -> str:
    """SHA-256 of content that JSON can write; equal content gives equal digests."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def sync(descriptor: int) -> None:
    """Wait until an open file is on the disk."""
    os.fsync(descriptor)


def _umask() -> int:
    """Return the permissions that new files of this process are not given."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files and folders appear whole or not at all, whatever goes wrong meanwhile, and what goes wrong is one line."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from focat.errors import FocatError
from focat.files import (
    PARTIAL_SUFFIX,
    atomic_folder,
    check_output_file,
    check_parent_folder,
    digest_of,
    disk_errors,
    locked_folder,
    read_json_object,
    sha256,
    split_name,
    unused_path,
    write_atomic,
    write_json,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------------------ files


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "жук")
    assert path.read_text(encoding="utf-8") == "жук"
    write_atomic(path, b"\0\xff")
    assert path.read_bytes() == b"\0\xff"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["focat.files.sync", "pathlib.Path.replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_file_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    """Both steps come after the new bytes are written, so a careless version would leave them behind."""
    path = tmp_path / "file"
    write_atomic(path, "old")
    monkeypatch.setattr(step, _raising(error))
    with pytest.raises((FocatError, KeyboardInterrupt)):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_the_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power cut may leave the name with nothing under it."""
    synced: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(
        "focat.files.sync", lambda descriptor: synced.append((os.fstat(descriptor).st_size, names(tmp_path)))
    )
    write_atomic(tmp_path / "file", "12345")
    assert synced == [(5, [f"file{PARTIAL_SUFFIX}"])]


def test_json_is_readable_and_the_same_each_time(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"text": "жук", "b": [1, None]})
    assert (tmp_path / "a").read_bytes() == '{\n  "text": "жук",\n  "b": [\n    1,\n    null\n  ]\n}\n'.encode()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff{}", b"[" * 100_000])
def test_a_damaged_json_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FocatError, match=r"/a: (cannot be read|holds no JSON object).*; do this$"):
        read_json_object(tmp_path / "a", "do this")
    with pytest.raises(FocatError, match=r"/b: cannot be read \(No such file or directory\); do this$"):
        read_json_object(tmp_path / "b", "do this")


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for mode in (0o600, 0o664):
        path.write_text("old")
        path.chmod(mode)
        write_atomic(path, "new")
        assert path.stat().st_mode & 0o777 == mode


def test_a_file_of_a_user_with_a_similar_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out.unfinished").write_text("mine")
    write_atomic(tmp_path / "out", "new")
    assert (tmp_path / "out.unfinished").read_text() == "mine"


# ------------------------------------------------------------------------------------------------ folders


def test_a_folder_appears_when_it_is_full(tmp_path: Path) -> None:
    path = tmp_path / "stage"
    with atomic_folder(path) as unfinished:
        (unfinished / "new").write_text("1")
        assert not path.exists()
    assert names(tmp_path) == ["stage"]
    assert names(path) == ["new"]


def test_a_folder_replaces_an_older_one_as_a_whole(tmp_path: Path) -> None:
    path = filled(tmp_path / "stage", "old")
    with atomic_folder(path) as unfinished:
        (unfinished / "new").write_text("1")
        assert names(path) == ["old"]
    assert names(tmp_path) == ["stage"]
    assert names(path) == ["new"]


def test_leftovers_of_a_killed_process_are_no_part_of_the_next_folder(tmp_path: Path) -> None:
    filled(tmp_path / f"stage{PARTIAL_SUFFIX}", "half")
    with atomic_folder(tmp_path / "stage") as unfinished:
        (unfinished / "new").write_text("1")
    assert names(tmp_path) == ["stage"]
    assert names(tmp_path / "stage") == ["new"]


@pytest.mark.parametrize("error", [FocatError("line 3 is bad"), KeyboardInterrupt(), ValueError()])
def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path, error: BaseException) -> None:
    path = filled(tmp_path / "stage", "old")

    def fill() -> None:
        with atomic_folder(path) as unfinished:
            (unfinished / "new").write_text("1")
            raise error

    with pytest.raises(type(error)):
        fill()
    assert names(tmp_path) == ["stage"]
    assert names(path) == ["old"]


def test_deleting_the_older_folder_may_stop_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting goes file by file. If it happened under the folder's own name, half of the old folder would pass for
    the whole: its `stage.json` may well be the last file to go."""
    path = filled(tmp_path / "stage", "old.tokens", "stage.json")
    really_delete = shutil.rmtree

    def delete_half(folder: Path, **options: Any) -> None:
        if (folder / "old.tokens").exists():
            (folder / "old.tokens").unlink()
            raise KeyboardInterrupt
        really_delete(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", delete_half)
    with pytest.raises(KeyboardInterrupt), atomic_folder(path) as unfinished:
        (unfinished / "new").write_text("1")
    assert names(path) == ["new"]

    monkeypatch.undo()
    with atomic_folder(path) as unfinished:
        (unfinished / "newer").write_text("1")
    assert names(tmp_path) == ["stage"]


# ------------------------------------------------------------------------------------------------ locks and errors


def test_a_lock_is_for_one_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(FocatError, match="taken; wait for it or stop it")
    with locked_folder(tmp_path, "taken"), refused, locked_folder(tmp_path, "taken"):
        pass
    with locked_folder(tmp_path, "taken"):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; make room and run the same command again"),
        (errno.EDQUOT, "the disk is full; make room and run the same command again"),
        (errno.EFBIG, "grew over the size allowed for a file; see `ulimit -f`"),
        (errno.EACCES, "cannot be written: Permission denied"),
        (errno.EROFS, "cannot be written: Read-only file system"),
        (errno.ENOENT, "cannot be written: No such file or directory"),
    ],
)
def test_what_the_disk_refuses_is_one_line(number: int, message: str) -> None:
    with pytest.raises(FocatError) as caught, disk_errors(Path("a/file")):
        raise OSError(number, os.strerror(number))
    assert str(caught.value) == f"a/file: {message}"


def test_a_reader_who_has_had_enough_is_no_disk_error() -> None:
    """Progress is printed while files are written: `focat prepare … 2>&1 | head` must not speak of the disk."""
    with pytest.raises(BrokenPipeError), disk_errors(Path("file")):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_place_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match=r"nowhere/file: cannot be written: No such file"):
        write_atomic(tmp_path / "nowhere" / "file", "text")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_a_link_to_itself_is_one_line(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(FocatError, match="loop: is a link that leads back to itself; delete it"):
        write_atomic(loop, "new")
    with pytest.raises(FocatError, match="loop: is a link that leads back to itself; delete it"):
        check_output_file(loop, overwrite=False)
    assert loop.is_symlink()


def test_what_is_in_a_folder_can_be_read_by_all_who_may(tmp_path: Path) -> None:
    """Weights are written by a library that keeps them private."""
    before = os.umask(0o027)
    try:
        with atomic_folder(tmp_path / "folder") as folder:
            (folder / "file").touch(0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == 0o640


# ------------------------------------------------------------------------------------------------ arguments


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    check_output_file(None, overwrite=False)
    check_output_file(tmp_path / "new", overwrite=False)
    check_output_file(there, overwrite=True)
    with pytest.raises(FocatError, match=r"there: exists; give another file, or overwrite it$"):
        check_output_file(there, overwrite=False)
    with pytest.raises(FocatError, match="a folder, where a file was expected"):
        check_output_file(tmp_path, overwrite=True)


def test_what_stands_where_a_file_is_written_first_is_not_replaced(tmp_path: Path) -> None:
    """Beside the file itself, if the path is a link to it; a link that leads nowhere is something, too."""
    (tmp_path / f"out{PARTIAL_SUFFIX}").write_text("mine")
    message = f"out{PARTIAL_SUFFIX}: exists, and would be replaced while out is written; move or delete it$"
    for overwrite in (False, True):
        with pytest.raises(FocatError, match=message):
            check_output_file(tmp_path / "out", overwrite)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / f"file{PARTIAL_SUFFIX}").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("folder/file")
    with pytest.raises(FocatError, match=f"folder/file{PARTIAL_SUFFIX}: exists"):
        check_output_file(tmp_path / "link", overwrite=False)


def test_a_path_that_is_used_gets_a_number(tmp_path: Path) -> None:
    assert unused_path(tmp_path / "a.json") == tmp_path / "a.json"
    (tmp_path / "a.json").touch()
    (tmp_path / "a-2.json").symlink_to("nowhere")
    assert unused_path(tmp_path / "a.json") == tmp_path / "a-3.json"


def test_named(tmp_path: Path) -> None:
    (tmp_path / "lr=0.1").mkdir()
    assert split_name("base=runs/1") == ("base", Path("runs/1"))
    assert split_name("base=runs/lr=0.1") == ("base", Path("runs/lr=0.1"))  # neither exists: the first sign counts
    assert split_name("runs/1") == (None, Path("runs/1"))
    assert split_name("=runs") == (None, Path("=runs"))
    assert split_name(f"s4 (CD=1)={tmp_path}") == ("s4 (CD=1)", tmp_path)
    assert split_name(tmp_path / "lr=0.1") == (None, tmp_path / "lr=0.1")


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FocatError, match="pipe: a device or pipe, where a file was expected"):
        check_parent_folder(tmp_path / "pipe")


# ------------------------------------------------------------------------------------------------ digests


def test_a_digest_is_of_all_bytes(tmp_path: Path) -> None:
    """Larger than what is read at a time, and not a multiple of it."""
    content = bytes(range(251)) * 9000
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_equal_content_has_equal_digests() -> None:
    assert digest_of({"a": 1, "b": ["ж", None]}) == digest_of({"b": ["ж", None], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
    assert digest_of(["a", "b"]) != digest_of(["b", "a"])


def filled(folder: Path, *files: str) -> Path:
    folder.mkdir()
    for file in files:
        (folder / file).write_text("old")
    return folder


def _raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_system_without_posix_locks_is_refused_at_import() -> None:
    line = "import sys; sys.modules['fcntl'] = None; import focat.files"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("focat needs a POSIX system such as Linux or macOS; on Windows, use WSL\n")

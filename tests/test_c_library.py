"""Kernels in C are compiled once, kept, and done without where there is no compiler or no place for them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from focat import c_library
from focat.c_library import load_library

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, c_library._COMPILERS)), reason="there is no C compiler")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; nothing is loaded yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(c_library, "_libraries", {})
    return tmp_path / "cache" / "focat" / "kernels"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.c"
    path.write_text("int answer(int x) { return x + 42; }\n", encoding="utf-8")
    return path


@needs_compiler
def test_compiled_once(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = load_library(source)
    assert library is not None
    assert library.answer(1) == 43
    [kept] = cache.iterdir()
    assert kept.name.startswith("answer-")
    monkeypatch.setattr(c_library, "_libraries", {})
    monkeypatch.setattr(c_library, "_compile", lambda *_: pytest.fail("compiled again"))
    assert isinstance(load_library(source), ctypes.CDLL)


@needs_compiler
def test_compiled_anew_for_another_source_or_processor(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_library(source)
    source.write_text("int answer(int x) { return x + 43; }\n", encoding="utf-8")
    c_library._libraries.clear()
    library = load_library(source)
    assert library is not None
    assert library.answer(1) == 44
    monkeypatch.setattr(c_library, "_processor", lambda: "another")
    c_library._libraries.clear()
    load_library(source)
    assert len(list(cache.iterdir())) == 3
    monkeypatch.setattr(c_library, "_FLAGS", (*c_library._FLAGS, "-DNDEBUG"))
    c_library._libraries.clear()
    load_library(source)
    assert len(list(cache.iterdir())) == 4


@needs_compiler
def test_machines_that_share_a_home_folder(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_text = Path.read_text
    for features in ("sse avx", "sse avx", "sse avx avx512f"):
        cpuinfo = f"processor : 0\nflags : {features}\n"

        def read(path: Path, cpuinfo: str = cpuinfo, **more: str) -> str:
            return cpuinfo if path.name == "cpuinfo" else read_text(path, **more)

        monkeypatch.setattr(Path, "read_text", read)
        c_library._libraries.clear()
        assert load_library(source) is not None
    assert len(list(cache.iterdir())) == 2


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What compilers were asked to write."""
    run, asked = subprocess.run, []

    def noted(command: list[str], **more: Any) -> object:
        if "-o" in command:  # no question of `platform`
            asked.append(str(Path(more["cwd"], command[command.index("-o") + 1])))
        return run(command, **more)

    monkeypatch.setattr(subprocess, "run", noted)
    return asked


def test_no_compiler(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    assert load_library(source) is None
    assert not cache.exists()


@needs_compiler
@pytest.mark.parametrize("kernel", sorted(Path(c_library.__file__).parent.rglob("*.c")), ids=lambda path: path.name)
def test_every_kernel_compiles_without_a_warning(kernel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests are skipped where a kernel cannot be compiled."""
    monkeypatch.setattr(c_library, "_FLAGS", (*c_library._FLAGS, "-Wall", "-Wextra", "-Werror", "-Wno-psabi"))
    assert load_library(kernel) is not None


@needs_compiler
def test_a_source_that_does_not_compile(cache: Path, source: Path, commands: list[str]) -> None:
    source.write_text("int answer(", encoding="utf-8")
    for _ in range(2):
        assert load_library(source) is None
    assert len(commands) == 2  # elsewhere, too, in case there was no room, but not the next time
    assert list(cache.iterdir()) == []


@needs_compiler
def test_no_other_process_finds_half_a_library(cache: Path, source: Path, commands: list[str]) -> None:
    assert load_library(source) is not None
    [written] = commands
    assert Path(written).parent != cache
    assert Path(written).parent.parent == cache  # on the same disk, to be renamed
    assert len(list(cache.iterdir())) == 1


def test_a_compiler_that_hangs(
    cache: Path, source: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\nexec sleep 5\n", encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent), prepend=os.pathsep)
    monkeypatch.setattr(c_library, "_COMPILE_SECONDS", 0.1)
    assert load_library(source) is None
    assert len(commands) == 1  # it would hang elsewhere, too
    assert list(cache.iterdir()) == []


@needs_compiler
def test_threads_wait_for_one_of_them_to_compile(cache: Path, source: Path, commands: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        libraries = list(pool.map(load_library, [source] * 4))
    assert len(commands) == len(set(map(id, libraries))) == 1


@needs_compiler
def test_no_cache_folder(cache: Path, source: Path) -> None:
    """As in a service without a home: compiled for this process alone, and nothing stays."""
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder would be", encoding="utf-8")
    before = set(Path(tempfile.gettempdir()).iterdir())
    library = load_library(source)
    assert library is not None
    assert library.answer(1) == 43
    left = set(Path(tempfile.gettempdir()).iterdir()) - before
    assert not [folder for folder in left if any(folder.rglob("answer-*"))]


@needs_compiler
def test_no_home_folder(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "expanduser", fail)
    library = load_library(source)
    assert library is not None
    assert library.answer(1) == 43


@needs_compiler
@pytest.mark.parametrize("full", ["cache", "temporary files"])
def test_a_full_disk(full: str, cache: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler fails where it would write to it, and is given another place for the library and its own files."""
    found = next(filter(None, map(shutil.which, c_library._COMPILERS)))
    in_cache, elsewhere = ("exit 1", "") if full == "cache" else ("", "exit 1")
    script = f'#!/bin/sh\ncd "$TMPDIR"\ncase $PWD in {cache}/*) {in_cache};; *) {elsewhere};; esac\n'
    compiler = tmp_path / "compiler"
    compiler.write_text(f'{script}exec {found} "$@"\n', encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(c_library, "_COMPILERS", (str(compiler),))
    library = load_library(source)
    assert library is not None
    assert library.answer(1) == 43
    assert len(list(cache.iterdir())) == (full != "cache")


@needs_compiler
@pytest.mark.parametrize("size", [0, 100, 0.5, 0.9])
def test_a_damaged_library_is_compiled_again(cache: Path, source: Path, size: float) -> None:
    """In processes of their own: half a library ends the one that loads it."""
    program = "import pathlib, sys; from focat.c_library import load_library as load; "
    program += "print(load(pathlib.Path(sys.argv[1])).answer(1))"
    command = [sys.executable, "-c", program, str(source)]
    subprocess.run(command, check=True)
    [kept] = cache.iterdir()
    whole = kept.read_bytes()
    os.truncate(kept, int(size if size > 1 else size * len(whole)))
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "43\n"
    assert [file.read_bytes() for file in cache.iterdir()] == [whole]


@needs_compiler
def test_several_processes_at_the_same_time(cache: Path, source: Path) -> None:
    program = "import pathlib, sys; from focat.c_library import load_library as load; "
    program += "print(load(pathlib.Path(sys.argv[1])).answer(1))"
    command = [sys.executable, "-c", program, str(source)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in running] == ["43\n"] * 3
    assert len(list(cache.iterdir())) == 1

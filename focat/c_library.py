"""Kernels in C for what PyTorch does slowly on CPUs, compiled when they are first used, where there is a C compiler.

Whoever uses one computes the same with PyTorch elsewhere. Compiled kernels stay in the user's cache folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from threading import Lock

from focat.files import cache_folder

_COMPILERS = "cc", "gcc", "clang"
_NATIVE = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
_FLAGS = "-O3", _NATIVE, "-fPIC", "-shared"
_COMPILE_SECONDS = 60

_libraries: dict[Path, ctypes.CDLL | None] = {}
_lock = Lock()  # several threads may decode


def load_library(source: Path) -> ctypes.CDLL | None:
    """The compiled functions of a C file; None if it cannot be compiled here."""
    if source not in _libraries:
        with _lock:
            if source not in _libraries:
                _libraries[source] = _load(source)
    return _libraries[source]


def _load(source: Path) -> ctypes.CDLL | None:
    key = "\n".join((source.read_text(encoding="utf-8"), *_FLAGS, _processor()))
    name = f"{source.stem}-{_digest(key.encode())}"
    for find in (_cached, _temporary):
        try:
            return find(source, name)
        except (OSError, RuntimeError, subprocess.CalledProcessError):  # RuntimeError: there is no home folder
            pass
        except subprocess.TimeoutExpired:
            break
    return None


def _cached(source: Path, name: str) -> ctypes.CDLL:
    """The library in the user's cache folder, compiled if it is not there, or if it is damaged.

    Its name ends with its digest: to load a part of a library would end the process.
    """
    folder = cache_folder("kernels")
    for library in folder.glob(f"{name}-*.so"):
        if library.stem == f"{name}-{_digest(library.read_bytes())}":
            return ctypes.CDLL(str(library))
        library.unlink(missing_ok=True)
    return ctypes.CDLL(str(_compile(source, folder, name)))


def _temporary(source: Path, name: str) -> ctypes.CDLL:
    """The library for this process alone, where the cache folder cannot be used; it stays loaded without its file."""
    with tempfile.TemporaryDirectory() as folder:
        return ctypes.CDLL(str(_compile(source, Path(folder), name)))


def _compile(source: Path, folder: Path, name: str) -> Path:
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError("there is no C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        partial = Path(inner) / f"{name}.so"
        command = [str(Path(compiler).absolute()), *_FLAGS, str(source.resolve()), "-o", partial.name, "-lm"]
        variables = {**os.environ, "TMPDIR": "."}  # its own files, too: another disk may be full
        subprocess.run(command, check=True, capture_output=True, timeout=_COMPILE_SECONDS, cwd=inner, env=variables)
        return partial.replace(folder / f"{name}-{_digest(partial.read_bytes())}.so")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _processor() -> str:
    """What a library is compiled for: machines whose instructions differ may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.system()} {platform.machine()} {features}"

"""Attention of few queries on a CPU, as in a step of beam search, by a kernel in C that is compiled when first used.

PyTorch's own kernel multiplies head by head, which takes three to four times as long where a window has four queries.
Without a C compiler, PyTorch's is used. The compiled kernel stays in the user's cache folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor

_SOURCE = Path(__file__).with_suffix(".c")
_FLAGS = "-O3", "-march=native", "-fPIC", "-shared"
_COMPILERS = "cc", "gcc", "clang"
_COMPILE_SECONDS = 60
_WIDTH_MULTIPLE = 32  # head widths that the kernel is made for
_MAX_QUERIES = 48  # of a window; with more, products of large matrices are faster
_MAX_THREADS = 3  # of torch; with more, its own kernel, which shares its work among them, is faster

_Shape = ctypes.c_int64 * 5
_Strides = ctypes.c_int64 * 12
_Kernel = Callable[..., int]
_loading = Lock()


def can_decode(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> bool:
    """Whether `decode_attention` computes this, and is the fastest way to do so."""
    return (
        mask is not None
        and queries.device.type == "cpu"
        and queries.shape[2] <= _MAX_QUERIES
        and queries.shape[3] % _WIDTH_MULTIPLE == 0
        and mask.shape[1] == 1  # the same for all heads
        and not torch.is_grad_enabled()
        and all(each.dtype == torch.float32 and each.stride(3) == 1 for each in (queries, keys, values))
        and torch.get_num_threads() <= _MAX_THREADS
        and _kernel() is not None
    )


def decode_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention; the arguments and the result of `attention.attend`."""
    windows, heads, count, width = queries.shape
    output = queries.new_empty(windows, count, heads, width)
    mask = mask.expand(windows, 1, count, keys.shape[2])
    by_window, _, by_query, by_key = mask.stride()
    strides = (stride for each in (queries, keys, values) for stride in each.stride()[:3])
    kernel = _kernel()
    assert kernel is not None
    pointers = (tensor.data_ptr() for tensor in (queries, keys, values, mask, output))
    shape = _Shape(windows, heads, count, keys.shape[2], width)
    if kernel(*pointers, shape, _Strides(*strides, by_window, by_query, by_key)):
        raise MemoryError
    return output.transpose(1, 2)


def _kernel() -> _Kernel | None:
    with _loading:  # several threads may decode
        return _load()


@lru_cache
def _load() -> _Kernel | None:
    """The compiled kernel; None if it cannot be compiled here."""
    key = hashlib.sha256("\n".join((_SOURCE.read_text(encoding="utf-8"), *_FLAGS, _processor())).encode()).hexdigest()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "focat" / "kernels"
    library = folder / f"{_SOURCE.stem}-{key[:16]}.so"
    try:
        if not library.exists():
            _compile(library)
        function = ctypes.CDLL(str(library)).focat_decode_attention
    except (OSError, subprocess.SubprocessError):
        return None
    function.argtypes = [*[ctypes.c_void_p] * 5, _Shape, _Strides]
    kernel: _Kernel = function
    return kernel


def _compile(library: Path) -> None:
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        partial = Path(folder) / library.name
        command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(partial), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=_COMPILE_SECONDS)
        partial.replace(library)


def _processor() -> str:
    """What the kernel was compiled for: a home folder may be shared by machines whose instructions differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.platform()} {features}"

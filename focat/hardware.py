"""The machine: its description, its cores, a device by name, and errors when its memory does not suffice."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from focat.errors import FocatError, ParameterError

if TYPE_CHECKING:
    import torch

_NO_MEMORY = re.compile("out of memory|not enough memory|allocate memory|ALLOC_FAILED")  # in errors without a type


def cores() -> int:
    """The number of CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hardware() -> str:
    """Describe the processor and the GPUs of this machine, for the record of a figure."""
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    gpus = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    count = cores()
    return ", ".join([f"{_processor()}, {count} core{'s' * (count > 1)}", *gpus])


def device_named(name: str) -> torch.device:
    """Return the device with this name; `auto` takes a GPU if there is one.

    Raises:
        FocatError: PyTorch cannot compute on a device of this name here.
    """
    import torch

    wanted = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.empty(0, device=wanted).device
    except (AssertionError, RuntimeError) as error:
        raise ParameterError("device", name, f"cannot be used here ({str(error).splitlines()[0]})") from None
    if device.type == "meta":
        raise ParameterError("device", name, "computes nothing; take auto, cpu, cuda or cuda:1")
    return device


@contextmanager
def memory_errors(advice: str) -> Iterator[None]:
    """Turn errors of PyTorch about missing memory into a `FocatError` with this advice."""
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        raise FocatError(advice) from None


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

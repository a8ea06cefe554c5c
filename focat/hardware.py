"""The machine: its description, its cores, how threads wait, devices and copies to them, and errors of memory."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from focat.errors import FocatError, ParameterError

if TYPE_CHECKING:
    import torch

_DEVICES = "auto, cpu, cuda or cuda:1"
_SPIN = "GOMP_SPINCOUNT"  # of libgomp, which PyTorch uses on Linux
_SHORT_SPIN = 5000  # some 100 µs: longer than most pauses between two operations, shorter than a turn of the scheduler
_SAMPLES = 5  # of the number of running processes
_SAMPLE_SECONDS = 0.005  # between two samples
# in errors without a type; sizes that overflow are of tensors that fit into no memory
_NO_MEMORY = re.compile("out of memory|not enough memory|allocate memory|ALLOC_FAILED|[Oo]verflow")
_HAS_TRITON = importlib.util.find_spec("triton") is not None  # it comes with PyTorch for GPUs
_IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton reads it, too, when it is imported


def cores() -> int:
    """The number of CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_of_cores(processes: int) -> int:
    """Threads for each of so many processes that compute at the same time; at least one."""
    return max(1, cores() // processes)


def limit_spinning() -> None:
    """Let the threads of OpenMP sleep while they wait: after a short spin, or at once if the machine is busy.

    By default they spin for milliseconds. Where other processes compute too, a thread then holds the core that the
    thread it waits for needs, and nothing moves. To sleep at once is best there, but slower on a machine that is idle
    otherwise. Results do not depend on it. It takes effect if PyTorch is imported later; a user's own choice stays.
    """
    if _SPIN not in os.environ and "OMP_WAIT_POLICY" not in os.environ:
        os.environ[_SPIN] = "0" if is_busy(running_processes()) else str(_SHORT_SPIN)


def is_busy(running: float) -> bool:
    """Whether so many running processes, this one among them, leave too few cores for all threads of this one."""
    return running - 1 + cores() > (os.cpu_count() or 1)


def running_processes() -> float:
    """How many processes of this machine compute now, this one included; 1 where the system does not tell."""
    try:
        samples = [_running_now()]
        while len(samples) < _SAMPLES:
            time.sleep(_SAMPLE_SECONDS)
            samples.append(_running_now())
    except (OSError, StopIteration):
        return 1
    return statistics.median(samples)


def _running_now() -> int:
    lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("procs_running"))


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
        reason = str(error).splitlines()[0]
        unknown = "device type" in reason or reason.startswith("Invalid device string")
        problem = "there is no such device" if unknown else f"cannot be used here ({reason})"
        raise ParameterError("device", name, f"{problem}; take {_DEVICES}") from None
    if device.type == "meta":
        raise ParameterError("device", name, f"computes nothing; take {_DEVICES}")
    return device


def to_device_async(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor from host memory to a device, without waiting for the work queued on the device."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def runs_kernels(device: torch.device) -> bool:
    """Whether Triton's kernels run on this device: a GPU; or any, with TRITON_INTERPRET=1, slowly, for tests."""
    return _HAS_TRITON and (device.type == "cuda" or _IS_INTERPRETED)


@contextmanager
def memory_errors(advice: str) -> Iterator[None]:
    """Turn errors of PyTorch about missing memory into a `FocatError` with this advice."""
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, TypeError) as error:
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        raise FocatError(advice) from None


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

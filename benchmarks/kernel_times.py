"""Where the time of some work goes, by kinds of kernels: a table by torch's profiler, for `--profile` of a benchmark.

On a GPU, `all` is the time from the start of the work to its end, and `between kernels` what no kernel has of it: the
GPU waits, for a launch or for the host. On a CPU, the rows are PyTorch's operations, each without those inside it; the
profiler makes them slower, so their sum is more than `all`. The floor of matrix products is their number of operations
at the rate of one large product, measured in the same process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

_KINDS = {  # by words in the names of kernels; the first that fits
    "attention": ("attend", "key_value_gradients", "query_gradients", "flash", "fmha", "attention"),
    "losses, search": ("one_row", "loss", "advance", "reorder", "newest_tokens", "topk"),
    "normalisation, residual sums": ("sum_and_norm", "norm"),
    "gradients of biases and of ReLU": ("mask_and_sum", "column_sums", "sum_rows", "threshold"),
    "matrix products": ("gemm", "nvjet", "cutlass", "xmma", "addmm", "bmm", "::mm", "matmul", "linear"),
    "optimizer": ("adam", "multi_tensor", "foreach"),
    "embeddings, KV cache": ("embed", "append_"),
    "copies, fills": ("memcpy", "memset", "copy", "fill", "zero_"),
}
_OTHER = "other"
_PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}  # not attention
_LARGE = {"cuda": 8192, "cpu": 2048}  # rows and columns of a large matrix
_REPEATED = 10


@dataclass(frozen=True)
class KernelTimes:
    """Seconds and launches of each kind of kernel, and seconds in all."""

    kinds: dict[str, tuple[float, int]]
    seconds: float
    on_gpu: bool


def kernel_times(work: Callable[[], object], device: torch.device) -> KernelTimes:
    """Profile some work that has been done before, so that nothing is compiled or captured meanwhile."""
    cuda = device.type == "cuda"
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    wait()
    begun = time.perf_counter()
    work()
    wait()
    seconds = time.perf_counter() - begun  # without the profiler, which takes time itself
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as found:
        work()
        wait()
    kinds: dict[str, tuple[float, int]] = {}
    for event in found.key_averages():
        if cuda and event.device_type != DeviceType.CUDA:  # what the host does to launch a kernel
            continue
        own = (event.self_device_time_total if cuda else event.self_cpu_time_total) / 1e6
        kind = kind_of(event.key)
        before, launches = kinds.get(kind, (0.0, 0))
        kinds[kind] = before + own, launches + event.count
    return KernelTimes(kinds, seconds, cuda)


def kind_of(kernel: str) -> str:
    """The kind of a kernel, or of an operation of PyTorch, by its name."""
    name = kernel.lower()
    return next((kind for kind, words in _KINDS.items() if any(word in name for word in words)), _OTHER)


def product_floor(work: Callable[[], object], device: torch.device, dtype: torch.dtype) -> float:
    """The fewest seconds that the matrix products of some work can take, by the rate of a large one."""
    with FlopCounterMode(display=False) as counter:
        work()
    operations = sum(count for product, count in counter.get_flop_counts()["Global"].items() if product in _PRODUCTS)
    return operations / _largest_rate(device, dtype)


def _largest_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a large matrix product."""
    size = _LARGE[device.type]
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(_REPEATED):
        begun = time.perf_counter()
        a @ b
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return 2 * size**3 / min(seconds)


def print_times(times: KernelTimes, count: int, unit: str, floor: float | None = None) -> None:
    """Print a table, per update or whatever was done so many times.

    Args:
        times: what `kernel_times` returned.
        count: how often it was done.
        unit: what was done: "an update".
        floor: seconds that the matrix products of one need, if that is known.
    """
    print(f"\n| | ms of {unit} | launches | floor, ms |\n|---|---|---|---|")
    for kind, (seconds, launches) in sorted(times.kinds.items(), key=lambda row: -row[1][0]):
        least = f"{1e3 * floor:.2f}" if floor is not None and kind == "matrix products" else ""
        print(f"| {kind} | {1e3 * seconds / count:.2f} | {launches / count:,.0f} | {least} |")
    if times.on_gpu:
        between = times.seconds - sum(seconds for seconds, _ in times.kinds.values())
        print(f"| between kernels | {1e3 * between / count:.2f} | | |")
    print(f"| **all** | {1e3 * times.seconds / count:.2f} | | |")

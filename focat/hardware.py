"""What a figure was obtained on."""

from __future__ import annotations

import platform
from pathlib import Path

from focat.corpus.tokenizer import cores


def hardware() -> str:
    """The processor of this machine, and its GPUs."""
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    gpus = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    count = cores()
    return ", ".join([f"{_processor()}, {count} core{'s' * (count > 1)}", *gpus])


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

"""A step of the search, again and again: on GPUs recorded once and replayed, as launching its kernels takes longer than
running them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_WORTH_RECORDING = 4  # times; to record takes as long as a step or two


def repeat(step: Callable[[], None], times: int, device: torch.device) -> None:
    """Take a step so many times. It must change tensors in place and never wait for the device."""
    if times > 0:
        step()
    rest = range(times - 1)
    graph = _recorded(step) if device.type == "cuda" and times >= _WORTH_RECORDING else None
    for _ in rest:
        if graph is None:
            step()
        else:
            graph.replay()


def _recorded(step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
    """The kernels of a step, which does not run; nothing if it cannot be recorded."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step()
    except RuntimeError:
        return None
    return graph

"""A step of the search, again and again: on GPUs recorded once and replayed, as launching its kernels takes longer than
running them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch


class Repeater:
    """Takes steps. A step must change tensors in place, always the same ones, and never wait for the device."""

    def __init__(self, device: torch.device) -> None:
        self.records = device.type == "cuda"
        self.replayed = 0  # steps
        self._graph: torch.cuda.CUDAGraph | None = None
        self._shapes: Hashable = None

    def __call__(self, step: Callable[[], None], times: int, shapes: Hashable) -> None:
        """A step so many times; what was recorded serves until `shapes` are others."""
        if shapes != self._shapes:
            self._graph, self._shapes = None, shapes
            if times > 0:
                step()
                times -= 1
            if self.records:
                self._graph = _recorded(step)
        for _ in range(times):
            if self._graph is None:
                step()
            else:
                self._graph.replay()
                self.replayed += 1


def _recorded(step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
    """The kernels of a step, which does not run; nothing if it cannot be recorded."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step()
    except RuntimeError:
        return None
    return graph

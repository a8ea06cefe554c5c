"""CUDA graphs: work that runs again and again on the same tensors is captured once and replayed.

Launching the kernels of a decoding step takes longer than running them; a replay launches them all at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence

import torch

Work = Callable[[], None]
# By key: None after the work ran once, then what replays it, or False if it cannot be captured and always runs eagerly.
CapturedGraphs = dict[Hashable, "Work | bool | None"]


class CudaGraphRunner:
    """Runs work that updates tensors in place, always the same ones, and never waits for the device."""

    def __init__(
        self,
        device: torch.device,
        free_memory: Sequence[Callable[[], None]] = (),
        capture: Callable[[Work], Work] | None = None,
    ) -> None:
        """`free_memory` is called when a capture runs out of memory, before it is tried once more.

        `capture` returns what replays the work, without running it; it is `GraphCapture` on a GPU, and on a CPU
        nothing is captured.
        """
        self.capture = GraphCapture() if capture is None and device.type == "cuda" else capture
        self.captured = self.replayed = 0
        self._free_memory = free_memory
        self._warned = False

    def __call__(self, work: Work, times: int, graphs: CapturedGraphs, key: Hashable) -> None:
        """Run the work `times` times, from the graph under `key` if there is one.

        The first run is never captured: kernels are initialised in it, and it may be the only one.
        """
        for _ in range(times):
            if graphs.get(key, False) is None and self.capture is not None:
                graphs[key] = self._try_capture(self.capture, work) or False
            replay = graphs.setdefault(key, None)
            if replay:
                replay()
                self.replayed += 1
            else:
                work()

    def _try_capture(self, capture: Callable[[Work], Work], work: Work, retry: bool = True) -> Work | None:
        """Capture the work; None if that fails, which is reported once."""
        try:
            replay = capture(work)
            self.captured += 1
            return replay
        except RuntimeError as error:  # out of memory is one, too
            failure, retry = str(error), retry and isinstance(error, torch.OutOfMemoryError)
        torch.cuda.empty_cache()  # after the handler: until then, the traceback holds the tensors of the failed capture
        if retry:
            for free in self._free_memory:
                free()
            return self._try_capture(capture, work, retry=False)
        if not self._warned:
            self._warned = True
            problem = f"a CUDA graph could not be captured ({failure}): decoding goes on without it, but slower"
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        return None


class GraphCapture:
    """Captures work as CUDA graphs.

    They never run at the same time, so they share one pool for intermediate results. The newest graph is kept here:
    the pool must not be used again after its last graph is gone.
    """

    def __init__(self) -> None:
        self._newest: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Work) -> Work:
        """Capture the kernels of this work, without running them; returns what replays them."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=None if self._newest is None else self._newest.pool()):
                work()
        except RuntimeError:
            graph.reset()
            raise
        self._newest = graph
        return graph.replay

"""Work that is done again and again on the same tensors: on GPUs recorded once and replayed, as launching its kernels
takes longer than running them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch

Work = Callable[[], None]
Recordings = dict[Hashable, "Work | None"]
"""What replays a piece of work; None while it was done only once."""


class Repeater:
    """Does work, which must change tensors in place, always the same ones, and never wait for the device."""

    def __init__(self, device: torch.device) -> None:
        self.record: Callable[[Work], Work] = _Graphs() if device.type == "cuda" else lambda work: work
        self.recorded = self.replayed = 0

    def __call__(self, work: Work, times: int, recordings: Recordings, key: Hashable) -> None:
        """Do it so many times. The first time ever is not recorded: kernels get ready in it, and it may be the last."""
        for _ in range(times):
            if key not in recordings:
                recordings[key] = None
                work()
                continue
            replay = recordings[key]
            if replay is None:
                replay = recordings[key] = self.record(work)
                self.recorded += 1
            replay()
            self.replayed += 1


class _Graphs:
    """Records work as CUDA graphs.

    They never run at the same time, so they share the memory of what is only there while one runs. The newest is held
    here, for that memory must not be asked for again once its last graph is gone.
    """

    def __init__(self) -> None:
        self._newest: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Work) -> Work:
        """The kernels of this work, which does not run; the work itself if they cannot be recorded."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=None if self._newest is None else self._newest.pool()):
                work()
        except RuntimeError:
            return work
        self._newest = graph
        return graph.replay

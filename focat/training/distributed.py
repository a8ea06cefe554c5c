"""One process or several: what `torchrun` says about them, and their collective operations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from focat.errors import FocatError


@dataclass(frozen=True)
class Processes:
    """This process among all that train one model."""

    rank: int
    world_size: int
    device: torch.device
    control_group: dist.ProcessGroup | None = None  # over the CPU, so that a GPU never waits for a small message

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    @property
    def distributed(self) -> bool:
        """Whether there are several processes."""
        return self.world_size > 1

    def barrier(self) -> None:
        """Wait until all processes have come this far."""
        if self.distributed:
            dist.barrier(group=self.control_group)

    def all_reduce_max(self, *values: float) -> list[float]:
        """The largest of each value over all processes."""
        if not self.distributed:
            return list(values)
        reduced = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(reduced, dist.ReduceOp.MAX, group=self.control_group)
        return [float(value) for value in reduced]

    def all_reduce_sum(self, sums: torch.Tensor) -> torch.Tensor:
        """The sum of a tensor over all processes; on the CPU if there are several."""
        if not self.distributed:
            return sums
        reduced = sums.to("cpu", copy=True)
        dist.all_reduce(reduced, group=self.control_group)
        return reduced


@contextmanager
def init_distributed(device: str) -> Iterator[Processes]:
    """Join the other processes, if `torchrun` has started any.

    Args:
        device: a `training.device`: auto, cpu, cuda or cuda:N.
    """
    world_size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if world_size == 1:
        yield Processes(0, 1, chosen)
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    try:
        yield Processes(rank, world_size, chosen, dist.new_group(backend="gloo"))
    finally:
        dist.destroy_process_group()


def _device(wanted: str, local_rank: int) -> torch.device:
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise FocatError(f"training.device = {wanted}: there is no such device; auto, cpu, cuda or cuda:1") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise FocatError(f"training.device = {wanted}: this machine has no GPU that PyTorch can use")
    return torch.device("cuda", local_rank) if device.type == "cuda" and device.index is None else device

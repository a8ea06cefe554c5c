"""One process or many: what `torchrun` says about them, and what they must agree on."""

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
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """The one that writes files and speaks."""
        return self.rank == 0

    @property
    def many(self) -> bool:
        """Whether there are others."""
        return self.count > 1

    def wait(self) -> None:
        """Until all have come this far."""
        if self.many:
            dist.barrier(group=_talk())

    def agree(self, stop: bool, minutes: float) -> tuple[bool, float]:
        """Stop if any process wants to; the time is the longest that any has seen."""
        if not self.many:
            return stop, minutes
        said = torch.tensor([float(stop), minutes], dtype=torch.float64)
        dist.all_reduce(said, dist.ReduceOp.MAX, group=_talk())
        return bool(said[0]), float(said[1])

    def total(self, sums: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.many:
            shared = sums.to("cpu", copy=True)
            dist.all_reduce(shared, group=_talk())
            return shared
        return sums


_talking: list[dist.ProcessGroup] = []  # processes talk through the CPU, so that a GPU never waits for a word


def _talk() -> dist.ProcessGroup:
    return _talking[0]


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the other processes, if `torchrun` has started any."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if count == 1:
        yield Processes(0, 1, place)
        return
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    _talking.append(dist.new_group(backend="gloo"))
    try:
        yield Processes(rank, count, place)
    finally:
        _talking.clear()
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

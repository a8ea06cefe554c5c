"""Work is done as often as asked, whether anew or from a recording."""

from __future__ import annotations

import pytest
import torch

from focat.decoding.cuda_graphs import Recordings, Repeater

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
def test_as_often_as_asked(device: str) -> None:
    steps, others = (torch.zeros(1, dtype=torch.long, device=device) for _ in range(2))
    repeat = Repeater(torch.device(device))
    recordings: Recordings = {}

    def step() -> None:
        steps.add_(1)

    def other() -> None:
        others.add_(1)

    repeat(step, 1, recordings, "step")
    assert (repeat.recorded, repeat.replayed) == (0, 0)  # it may have been the last time
    repeat(step, 4, recordings, "step")
    repeat(step, 3, recordings, "step")
    assert steps.item() == 8
    assert (repeat.recorded, repeat.replayed) == (1, 7)
    repeat(other, 2, recordings, "other")
    repeat(other, 0, recordings, "nothing")
    assert (steps.item(), others.item()) == (8, 2)
    assert (repeat.recorded, repeat.replayed) == (2, 8)
    repeat(other, 1, {}, "other")
    repeat(step, 1, recordings, "step")
    assert (steps.item(), others.item()) == (9, 3)


@GPU
def test_what_is_only_there_within_a_graph_is_shared() -> None:
    """Also when all earlier graphs are gone, and their memory with them."""
    repeat = Repeater(torch.device("cuda"))
    for size in (1000, 10, 100_000):
        recordings: Recordings = {}
        values = torch.zeros(size, device="cuda")

        def work(values: torch.Tensor = values) -> None:
            values.copy_((values * 2 + 1).clone())

        repeat(work, 5, recordings, "work")
        assert values.tolist() == [31.0] * size

"""Steps are taken as often as asked, whether one by one or from a recording."""

from __future__ import annotations

import pytest
import torch

from focat.decoding.repeat import Repeater

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_as_often_as_asked(device: str) -> None:
    steps, others = (torch.zeros(1, dtype=torch.long, device=device) for _ in range(2))
    repeat = Repeater(torch.device(device))
    repeat(lambda: steps.add_(1), 5, shapes=1)  # type: ignore[arg-type, return-value]
    repeat(lambda: steps.add_(1), 3, shapes=1)  # type: ignore[arg-type, return-value]
    assert steps.item() == 8
    repeat(lambda: others.add_(1), 2, shapes=2)  # type: ignore[arg-type, return-value]
    repeat(lambda: others.add_(1), 0, shapes=2)  # type: ignore[arg-type, return-value]
    assert (steps.item(), others.item()) == (8, 2)
    assert repeat.replayed == (8 if device == "cuda" else 0)  # all but the first of each


def test_no_step_at_all() -> None:
    steps = torch.zeros(1)
    Repeater(torch.device("cpu"))(lambda: steps.add_(1), 0, shapes=1)  # type: ignore[arg-type, return-value]
    assert steps.item() == 0

"""The kernels of Muon's momentum against plain torch, and against numbers worked out by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from focat.training import fused_muon, optimizer
from tests.kernels import DEVICE, needs_kernels

SHAPES = [(1, 1, 1), (3, 4, 5), (2, 64, 128), (2, 100, 163), (5, 90, 91)]  # the last have parts that are not full


def stepped(gradients: list[Tensor], finite: list[float]) -> tuple[list[Tensor], Tensor]:
    """What several steps return, and the momentum after them."""
    momentum = torch.zeros_like(gradients[0])
    steps = [
        optimizer.step_momentum(gradient.clone(), momentum, torch.tensor(each, device=DEVICE))
        for gradient, each in zip(gradients, finite, strict=True)
    ]
    return steps, momentum


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES)
def test_as_plain_torch(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    gradients = list(torch.randn(4, *shape, device=DEVICE))
    gradients[2][-1, -1, -1], gradients[2][0, 0, 0] = torch.nan, torch.inf
    finite = [1.0, 1.0, 0.0, 1.0]
    found, momentum = stepped(gradients, finite)
    monkeypatch.setattr(fused_muon, "has_fused_momentum", lambda momentum: False)
    expected, its_momentum = stepped(gradients, finite)
    torch.testing.assert_close(momentum, its_momentum)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5 if a.dtype == torch.float32 else 1e-2)
    assert not found[2].any()


@needs_kernels
def test_two_steps_by_hand() -> None:
    """Gradients (3, 4), then (1, 0): momenta (3, 4) and (3.85, 3.8), directions (3, 4) and (4.6575, 3.61)."""
    given = torch.tensor([[[3.0, 4.0]]], device=DEVICE), torch.tensor([[[1.0, 0.0]]], device=DEVICE)
    (first, second), momentum = stepped(list(given), [1.0, 1.0])
    assert momentum.flatten().tolist() == pytest.approx([3.85, 3.8])
    assert first.flatten().tolist() == pytest.approx([0.6, 0.8], rel=1e-2)
    length = (4.6575**2 + 3.61**2) ** 0.5
    assert second.flatten().tolist() == pytest.approx([4.6575 / length, 3.61 / length], rel=1e-2)


def test_the_compiler_is_not_imported() -> None:
    code = (
        "import sys, torch; from focat.training.adam import Adam; from focat.training.optimizer import Muon;"
        "p = torch.nn.Parameter(torch.ones(2, 3)); p.grad = torch.ones(2, 3);"
        "Muon({p: 1}, Adam([], (0.9, 0.98), 1e-8, 0.0)).step(); print('torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"

"""The fused kernels of a layer against plain torch, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from focat.model import fused_layers
from tests.kernels import DEVICE, needs_kernels

CLOSE = {"atol": 4e-2, "rtol": 4e-2}  # bfloat16 has 8 bits


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16).requires_grad_()


@needs_kernels
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("outputs", [("total",), ("normalised",), ("total", "normalised")])
@pytest.mark.parametrize("width", [64, 512])
def test_sum_dropout_and_normalisation(rate: float, outputs: tuple[str, ...], width: int) -> None:
    torch.manual_seed(0)
    x, output, norm = draw(2, 37, width), draw(2, 37, width), nn.LayerNorm(width, device=DEVICE)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    with_norm = "normalised" in outputs
    torch.manual_seed(1)
    kept = fused_layers.add_dropout_norm(torch.zeros_like(x), torch.ones_like(x), rate)[0] > 0
    torch.manual_seed(1)
    total, normalised = fused_layers.add_dropout_norm(x, output, rate, norm if with_norm else None)
    plain = {"total": x.float() + output.float() * kept / (1 - rate)}
    plain["normalised"] = F.layer_norm(plain["total"], (width,), norm.weight, norm.bias)
    fused = {"total": total, "normalised": normalised}
    inputs = [x, output, *([norm.weight, norm.bias] if with_norm else [])]
    factors = {name: torch.randn(total.shape, device=DEVICE) for name in outputs}
    for name in outputs:
        torch.testing.assert_close(fused[name].float(), plain[name], **CLOSE)  # type: ignore[union-attr]
    found, expected = (
        torch.autograd.grad(sum((each[name].float() * factors[name]).sum() for name in outputs), inputs)  # type: ignore[arg-type, union-attr]
        for each in (fused, plain)
    )
    for a, b in zip(found, expected, strict=True):
        scale = b.float().abs().max()
        torch.testing.assert_close(a.float() / scale, b.float() / scale, **CLOSE)


@needs_kernels
def test_dropout_keeps_its_share_and_is_seeded() -> None:
    x, output = torch.zeros(64, 512, device=DEVICE, dtype=torch.bfloat16), draw(64, 512).detach().abs() + 1
    torch.manual_seed(3)
    first, _ = fused_layers.add_dropout_norm(x, output, 0.3)
    second, _ = fused_layers.add_dropout_norm(x, output, 0.3)
    torch.manual_seed(3)
    again, _ = fused_layers.add_dropout_norm(x, output, 0.3)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    for drawn in (first, second):
        assert abs(float((drawn == 0).float().mean()) - 0.3) < 0.01  # five deviations of 64 · 512 draws
        columns = (drawn == 0).float().mean(0)
        assert 0.1 < float(columns.min()) < float(columns.max()) < 0.6  # no column is favoured


@needs_kernels
def test_linear_and_relu() -> None:
    torch.manual_seed(0)
    x, layer = draw(3, 41, 64), nn.Linear(64, 600, device=DEVICE, dtype=torch.bfloat16)
    found, expected = fused_layers.linear_relu(x, layer), F.relu(layer(x))
    torch.testing.assert_close(found, expected, **CLOSE)
    gradient = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, [x, *layer.parameters()], gradient),
        torch.autograd.grad(expected, [x, *layer.parameters()], gradient),
        strict=True,
    ):
        torch.testing.assert_close(a / b.abs().max(), b / b.abs().max(), **CLOSE)


@pytest.mark.parametrize(("width", "fits"), [(2, False), (4, True), (64, True), (66, False), (96, False), (512, True)])
def test_kernels_are_for_widths_that_are_powers_of_two(width: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_layers, "runs_kernels", lambda device: True)
    assert fused_layers.has_fused_layers(torch.zeros(3, width, dtype=torch.bfloat16)) == fits
    assert not fused_layers.has_fused_layers(torch.zeros(3, width))

"""Keys and values of all layers in one product, against a product for each layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from focat.model.packed_attention import packed_attention
from focat.model.source_projection import project_source
from tests.kernels import DEVICE, needs_kernels
from tests.model.test_packed_attention import example

WIDTH, HEADS = 64, 4
CLOSE = {"atol": 4e-2, "rtol": 4e-2}  # bfloat16 has 8 bits


def layers(count: int) -> list[nn.Linear]:
    torch.manual_seed(0)
    found = [nn.Linear(WIDTH, 2 * WIDTH, device=DEVICE, dtype=torch.bfloat16) for _ in range(count)]
    for layer in found:
        nn.init.normal_(layer.weight, std=0.2)
        nn.init.normal_(layer.bias)
    return found


def parameters_of(projections: list[nn.Linear]) -> list[Tensor]:
    return [parameter for each in projections for parameter in each.parameters()]


def assert_close(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for a, b in zip(found, expected, strict=True):
        scale = b.float().abs().max()
        torch.testing.assert_close(a.float() / scale, b.float() / scale, **CLOSE)


@needs_kernels
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_one_product_is_many(precision: torch.dtype) -> None:
    projections = [each.to(precision) for each in layers(3)]
    encoded = torch.randn(1, 30, WIDTH, device=DEVICE, dtype=precision).requires_grad_()
    inputs = [encoded, *parameters_of(projections)]
    factors = torch.randn(3, 30, 2, HEADS, WIDTH // HEADS, device=DEVICE)
    found = project_source(encoded, projections, HEADS)
    expected = [each(encoded[0]).view(factors.shape[1:]) for each in projections]
    torch.testing.assert_close(found, expected, **CLOSE)
    gradients = [
        torch.autograd.grad(sum((each * factor).sum() for each, factor in zip(some, factors, strict=True)), inputs)  # type: ignore[arg-type]
        for some in (found, expected)
    ]
    assert_close(*gradients)


@needs_kernels
@pytest.mark.parametrize("frozen", [False, True])
def test_attention_puts_gradients_in_place_of_keys_and_values(frozen: bool) -> None:
    projections = layers(2)
    mask = example([9, 70, 3], [12, 66, 5], False, 0, DEVICE)
    for each in projections:
        each.requires_grad_(not frozen)
    encoded = torch.randn(1, 83, WIDTH, device=DEVICE).bfloat16().requires_grad_()
    queries = torch.randn(2, 82, 1, HEADS, WIDTH // HEADS, device=DEVICE).bfloat16().requires_grad_()
    factors = torch.randn(2, 82, HEADS, WIDTH // HEADS, device=DEVICE)
    inputs = [encoded, queries, *([] if frozen else parameters_of(projections))]

    def gradients(keys_values: list[Tensor], overwrites: bool) -> tuple[Tensor, ...]:
        attended = [packed_attention(q, mask, kv, overwrites) for q, kv in zip(queries, keys_values, strict=True)]
        return torch.autograd.grad((torch.stack(attended) * factors).sum(), inputs)

    expected = gradients([each(encoded[0]).view(83, 2, HEADS, -1) for each in projections], overwrites=False)
    keys_values = project_source(encoded, projections, HEADS)
    before = [each.clone() for each in keys_values]
    assert_close(gradients(project_source(encoded, projections, HEADS), overwrites=False), expected)
    assert_close(gradients(keys_values, overwrites=True), expected)
    assert not any(torch.equal(a, b) for a, b in zip(keys_values, before, strict=True))

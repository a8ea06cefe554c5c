"""Attention with its projections: output and all gradients are those of the parts, with kernels and without."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from focat.model.packed_attention import PackedMask
from focat.model.projected_attention import cross_attention, has_projected_attention, self_attention
from tests.kernels import DEVICE
from tests.model.test_packed_attention import attend_slowly, example

WIDTH, HEADS = 64, 4
LENGTHS = [[5, 70, 1, 130, 64, 0, 3, 0], [66, 3, 129, 1, 64, 4, 0, 0]]


def draw(mask: PackedMask) -> tuple[torch.Tensor, torch.Tensor]:
    queries, keys = (int(bounds[-1]) for bounds in (mask.query_bounds, mask.key_bounds))
    x, encoded = (torch.randn(tokens, WIDTH, device=DEVICE).requires_grad_() for tokens in (queries, keys))
    return x, encoded


def layer(parts: int) -> nn.Linear:
    return nn.Linear(WIDTH, parts * WIDTH, device=DEVICE)


def compare(found: torch.Tensor, expected: torch.Tensor, inputs: list[torch.Tensor]) -> None:
    close = {"atol": 2e-5, "rtol": 2e-4} if DEVICE == "cpu" else {"atol": 2e-2, "rtol": 2e-2}  # GPUs use TF32
    torch.testing.assert_close(found, expected, **close)
    factors = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, inputs, factors), torch.autograd.grad(expected, inputs, factors), strict=True
    ):
        torch.testing.assert_close(a / b.abs().max(), b / b.abs().max(), **close)


@pytest.mark.parametrize("local_heads", [0, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention(causal: bool, local_heads: int) -> None:
    torch.manual_seed(0)
    mask = example(LENGTHS[0], LENGTHS[0], causal, local_heads, DEVICE)
    mask = mask._replace(key_bounds=mask.query_bounds, key_blocks=mask.query_blocks, key_sentences=mask.query_sentences)
    (x, _), projection = draw(mask), layer(3)
    parts = projection(x).view(len(x), 3, HEADS, -1)
    expected = attend_slowly(*parts.unbind(1), mask).flatten(1)
    compare(self_attention(x, projection, HEADS, mask), expected, [x, *projection.parameters()])


@pytest.mark.parametrize("local_heads", [0, 4])
def test_cross_attention(local_heads: int) -> None:
    torch.manual_seed(0)
    mask = example(*LENGTHS, False, local_heads, DEVICE)
    (x, encoded), projection, kv_projection = draw(mask), layer(1), layer(2)
    keys, values = kv_projection(encoded).view(len(encoded), 2, HEADS, -1).unbind(1)
    expected = attend_slowly(projection(x).view(len(x), HEADS, -1), keys, values, mask).flatten(1)
    inputs = [x, encoded, *projection.parameters(), *kv_projection.parameters()]
    compare(cross_attention(x, projection, encoded, kv_projection, HEADS, mask), expected, inputs)


def test_weights_of_another_type_are_left_to_autocast() -> None:
    x, projection = torch.randn(3, WIDTH, dtype=torch.bfloat16), nn.Linear(WIDTH, WIDTH)
    assert not has_projected_attention(x, projection, HEADS)

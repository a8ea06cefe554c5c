"""Attention over packed windows together with the projections to queries, keys and values, for training on GPUs.

The kernels that compute gradients of queries, keys and values have each of them at hand, and so add up the gradients of
the biases of their projections; as an operation of its own, such a sum would read all of them once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.model.packed_attention import PackedMask, attention_and_log_sums, attention_gradients, has_kernels_for


def self_attention(x: Tensor, projection: nn.Linear, heads: int, mask: PackedMask) -> Tensor:
    """Attention of packed windows x, (tokens, width), to themselves; `projection` makes queries, keys and values.

    Returns:
        (tokens, width), to be projected.
    """
    found: Tensor = _ProjectedAttention.apply(  # type: ignore[no-untyped-call]
        x, projection.weight, projection.bias, None, None, None, heads, mask
    )
    return found


def cross_attention(
    x: Tensor, projection: nn.Linear, encoded: Tensor, kv_projection: nn.Linear, heads: int, mask: PackedMask
) -> Tensor:
    """Attention of packed windows x, (tokens, width), to encoded sources, (source tokens, width)."""
    found: Tensor = _ProjectedAttention.apply(  # type: ignore[no-untyped-call]
        x, projection.weight, projection.bias, encoded, kv_projection.weight, kv_projection.bias, heads, mask
    )
    return found


def has_projected_attention(x: Tensor, projection: nn.Linear, heads: int) -> bool:
    """Whether the kernels can compute attention of x, (…, width), with weights of the same type."""
    return projection.weight.dtype == x.dtype and has_kernels_for(x, x.shape[-1] // heads)


class _ProjectedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        encoded: Tensor | None,
        kv_weight: Tensor | None,
        kv_bias: Tensor | None,
        heads: int,
        mask: PackedMask,
    ) -> Tensor:
        qkv = F.linear(x, weight, bias).view(len(x), -1, heads, x.shape[1] // heads)  # (tokens, 1 or 3, heads, …)
        kv = None
        if encoded is not None and kv_weight is not None:
            kv = F.linear(encoded, kv_weight, kv_bias).view(len(encoded), 2, *qkv.shape[2:])
        output, log_sums = attention_and_log_sums(qkv, kv, mask)
        ctx.save_for_backward(x, weight, encoded, kv_weight, qkv, kv, output, log_sums)
        ctx.mask = mask
        return output.flatten(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, encoded, kv_weight, qkv, kv, output, log_sums = ctx.saved_tensors
        gradient = gradient.contiguous().view_as(output)
        gradients, sums = attention_gradients(gradient, qkv, kv, output, log_sums, ctx.mask, sums=True)
        assert sums is not None
        by_token = gradients[0].flatten(1)
        of_x, of_weight = by_token @ weight, by_token.T @ x
        query_sums, key_value_sums = (each.flatten().to(weight.dtype) for each in sums)
        if gradients[1] is None:
            return of_x, of_weight, torch.cat((query_sums, key_value_sums)), *[None] * 5
        by_token = gradients[1].flatten(1)
        of_encoded, of_kv_weight = by_token @ kv_weight, by_token.T @ encoded
        return of_x, of_weight, query_sums, of_encoded, of_kv_weight, key_value_sums, None, None

"""Attention over packed windows: no padding, every query looks at the keys of its own window.

The tokens of all windows of a batch lie one after the other. `bounds` says where each window begins; on GPUs, a kernel
visits for each block of queries only the keys of its window, and masks are computed from segments where they are
needed (`attention_kernels`). Elsewhere plain torch goes through the windows one by one; it is the reference that the
kernels agree with.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from focat.config.schema import ModelSettings
from focat.hardware import runs_kernels
from focat.windows.batch import BLOCK

_GROUP = 4  # heads of a program
_FORWARD = {"num_warps": 4, "num_stages": 2}
_BACKWARD = {"num_warps": 4, "num_stages": 3}
_WIDE_BACKWARD = {"num_warps": 4, "num_stages": 2}  # above 128 bytes three stages exceed the shared memory of most GPUs
_MAX_HEAD_BYTES = 256  # of a token: a width of 128 in bfloat16
_LOG2_E = math.log2(math.e)


class PackedMask(NamedTuple):
    """What the queries of one side see of the keys of another: their own window's, and maybe less."""

    query_bounds: Tensor  # (windows + 1,) int32: where the queries of each window begin
    key_bounds: Tensor  # (windows + 1,) int32
    query_blocks: Tensor  # (blocks, 5) int32, see `packing.cut_blocks`
    key_blocks: Tensor  # (blocks, 5) int32
    query_sentences: Tensor  # (queries,) int32, equal to those of the keys of the same sentence; for local heads
    key_sentences: Tensor  # (keys,) int32
    causal: bool  # a query sees no later key; for self-attention
    local_heads: int  # the first so many heads see only the keys of their own sentence
    same_side: bool  # queries and keys are of the same tokens


def packed_attention(qkv: Tensor, mask: PackedMask, kv: Tensor | None = None, overwrites: bool = False) -> Tensor:
    """Scaled dot-product attention inside windows.

    Args:
        qkv: (tokens, 3, heads, head width) for self-attention, or the queries alone, (tokens, 1, heads, head width).
        mask: what each query sees.
        kv: (keys, 2, heads, head width), where keys and values are another side's.
        overwrites: whether the backward pass of kernels may put the gradient of `kv` in its place.

    Returns:
        (tokens, heads, head width); zero where a query sees nothing.
    """
    dense = None if kv is None else _dense(kv)
    output: Tensor = _Attention.apply(_dense(qkv), dense, mask, overwrites and dense is kv)  # type: ignore[no-untyped-call]
    return output


def _dense(x: Tensor) -> Tensor:
    """The kernels know one stride, of tokens: the heads of a token lie one behind the other."""
    return x if x.is_contiguous() or (len(x) and x[0].is_contiguous()) else x.contiguous()


def visible_keys(mask: PackedMask, window: int, heads: int) -> tuple[slice, slice, Tensor]:
    """The queries and keys of a window, and what they see of each other, (heads, queries, keys)."""
    queries = slice(*mask.query_bounds[window : window + 2].tolist())
    keys = slice(*mask.key_bounds[window : window + 2].tolist())
    own = mask.query_sentences[queries, None] == mask.key_sentences[keys]  # (queries, keys)
    visible = torch.ones_like(own).tril() if mask.causal else torch.ones_like(own)
    local = torch.arange(heads, device=own.device) < mask.local_heads
    return queries, keys, visible & (own | ~local[:, None, None])


def _forward(queries: Tensor, keys: Tensor, values: Tensor, mask: PackedMask) -> tuple[Tensor, Tensor]:
    """Outputs, (queries, heads, head width), and base-2 logarithms of the sums of exponentials, (heads, queries)."""
    tokens, heads, width = queries.shape
    scale = _LOG2_E / math.sqrt(width)
    output = torch.empty((tokens, heads, width), dtype=queries.dtype, device=queries.device)
    log_sums = torch.empty((heads, tokens), dtype=torch.float32, device=queries.device)
    if not _has_kernels(queries):
        for window in range(len(mask.query_bounds) - 1):
            here, there, visible = visible_keys(mask, window, heads)
            scores = torch.einsum("qhd,khd->hqk", queries[here], keys[there]) * scale
            scores = scores.masked_fill(~visible, -math.inf)
            sums = torch.logsumexp(scores * math.log(2), -1) * _LOG2_E
            sums = sums.masked_fill(sums == -math.inf, math.inf)
            output[here] = torch.einsum("hqk,khd->qhd", torch.exp2(scores - sums[..., None]), values[there])
            log_sums[:, here] = sums
        return output, log_sums
    from focat.model import attention_kernels  # imports Triton, some 80 MB

    group = _heads_of_a_program(heads)
    attention_kernels.attend[len(mask.query_blocks), heads // group](
        queries, keys, values, output, log_sums, mask.query_blocks, *mask[4:6], mask.local_heads, scale, tokens,
        heads, queries.stride(0), keys.stride(0), values.stride(0),
        **_constants(mask, width, group), **_FORWARD,
    )  # fmt: skip
    return output, log_sums


def _backward(
    gradient: Tensor, queries: Tensor, keys: Tensor, values: Tensor, output: Tensor, log_sums: Tensor,
    mask: PackedMask, query_gradient: Tensor, key_gradient: Tensor, value_gradient: Tensor,
) -> None:  # fmt: skip
    """Write the gradients of queries, keys and values into the last three."""
    tokens, heads, width = queries.shape
    scale = _LOG2_E / math.sqrt(width)
    if not _has_kernels(queries):
        for window in range(len(mask.query_bounds) - 1):
            here, there, visible = visible_keys(mask, window, heads)
            scores = torch.einsum("qhd,khd->hqk", queries[here], keys[there]) * scale
            weights = torch.exp2(scores - log_sums[:, here, None]).to(scores.dtype) * visible  # (heads, queries, keys)
            inner = (output[here] * gradient[here]).sum(-1).T[..., None]  # (heads, queries, 1)
            change = weights * (torch.einsum("qhd,khd->hqk", gradient[here], values[there]) - inner) / math.sqrt(width)
            query_gradient[here] = torch.einsum("hqk,khd->qhd", change, keys[there])
            key_gradient[there] = torch.einsum("hqk,qhd->khd", change, queries[here])
            value_gradient[there] = torch.einsum("hqk,qhd->khd", weights, gradient[here])
        return
    from focat.model import attention_kernels

    inner = torch.empty_like(log_sums)  # (heads, queries): products of output and its gradient
    group = _heads_of_a_program(heads)
    options = _constants(mask, width, group) | (_BACKWARD if width * queries.itemsize <= 128 else _WIDE_BACKWARD)
    attention_kernels.query_gradients[len(mask.query_blocks), heads // group](
        queries, keys, values, output, gradient, log_sums, inner, query_gradient, mask.query_blocks, *mask[4:6],
        mask.local_heads, scale, tokens, heads, queries.stride(0), keys.stride(0), values.stride(0),
        query_gradient.stride(0), **options,
    )  # fmt: skip
    attention_kernels.key_value_gradients[len(mask.key_blocks), heads // group](
        queries, keys, values, gradient, log_sums, inner, key_gradient, value_gradient, mask.key_blocks, *mask[4:6],
        mask.local_heads, scale, tokens, heads, queries.stride(0), keys.stride(0), values.stride(0),
        key_gradient.stride(0), value_gradient.stride(0), **options,
    )  # fmt: skip


def _constants(mask: PackedMask, width: int, group: int) -> dict[str, int]:
    """What kernels are compiled for; `OTHER` is where the block of a side says what the window has on the other."""
    other = 1 if mask.same_side else 3
    local = mask.local_heads > 0
    return {"CAUSAL": mask.causal, "LOCAL": local, "OTHER": other, "WIDTH": width, "BLOCK": BLOCK, "GROUP": group}


def _heads_of_a_program(heads: int) -> int:
    """Enough to load the next while one is computed, and few enough to keep a GPU busy."""
    return next(group for group in (_GROUP, 2, 1) if heads % group == 0)


def has_packed_kernels(settings: ModelSettings) -> bool:
    """Whether the kernels can compute this model's attention, in bfloat16."""
    whole = settings.context is None and settings.second_pass is None
    return whole and settings.attention_dropout == 0 and _fits(settings.d_model // settings.heads, torch.bfloat16)


def _has_kernels(x: Tensor) -> bool:
    """Whether the kernels can compute attention of heads such as x's, (tokens, heads, head width), on its device."""
    return runs_kernels(x.device) and _fits(x.shape[-1], x.dtype)


def _fits(width: int, dtype: torch.dtype) -> bool:
    return width >= 16 and width & (width - 1) == 0 and width * dtype.itemsize <= _MAX_HEAD_BYTES


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, kv: Tensor | None, mask: PackedMask, overwrites: bool) -> Tensor:
        output, log_sums = _forward(*_queries_keys_values(qkv, kv), mask)
        ctx.save_for_backward(qkv, kv, output, log_sums)
        ctx.mask, ctx.overwrites = mask, overwrites and _has_kernels(output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        qkv, kv, output, log_sums = ctx.saved_tensors
        qkv_gradient = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
        # A program reads its keys and values for the last time before it writes their gradients, and no other does.
        kv_gradient = kv if kv is None or ctx.overwrites else torch.empty_like(kv)
        gradients = _queries_keys_values(qkv_gradient, kv_gradient)
        _backward(gradient.contiguous(), *_queries_keys_values(qkv, kv), output, log_sums, ctx.mask, *gradients)
        return qkv_gradient, kv_gradient, None, None


def _queries_keys_values(qkv: Tensor, kv: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Views of (tokens, heads, head width) each."""
    if kv is None:
        return qkv[:, 0], qkv[:, 1], qkv[:, 2]
    return qkv[:, 0], kv[:, 0], kv[:, 1]

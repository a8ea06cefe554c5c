"""Attention over packed windows: no padding, every query looks at the keys of its own window.

The tokens of all windows of a batch lie one after the other. `bounds` says where each window begins; on GPUs, a kernel
visits for each block of queries only the keys of its window, and masks are computed from segments where they are
needed. Elsewhere plain torch goes through the windows one by one; it is the reference that the kernels agree with.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from focat.config.schema import ModelSettings
from focat.windows.batch import BLOCK

try:
    import triton
    import triton.language as tl
except ImportError:  # a build of torch without GPUs
    triton = None

_GROUP = 4  # heads of a program
_FORWARD = {"num_warps": 4, "num_stages": 2}
_BACKWARD = {"num_warps": 4, "num_stages": 3}
_LOG2_E = math.log2(math.e)


class PackedMask(NamedTuple):
    """What the queries of one side see of the keys of another: their own window's, and maybe less."""

    query_bounds: Tensor  # (windows + 1,) int32: where the queries of each window begin
    key_bounds: Tensor  # (windows + 1,) int32
    query_blocks: Tensor  # (blocks, 5) int32, see `block_table`
    key_blocks: Tensor  # (blocks, 5) int32
    query_sentences: Tensor  # (queries,) int32, equal to those of the keys of the same sentence
    key_sentences: Tensor  # (keys,) int32
    causal: bool  # a query sees no later key; for self-attention
    local_heads: int  # the first so many heads see only the keys of their own sentence


def block_table(blocks: Tensor, bounds: Tensor, other_bounds: Tensor) -> Tensor:
    """What a kernel must know of each block of one side, (blocks, 5) int32.

    Args:
        blocks: (blocks, 2) window and first token of each block; -1 where there is none.
        bounds: (windows + 1,) where each window begins on this side.
        other_bounds: the same on the side that is attended to, or from.

    Returns:
        First token of the block; first and last token, exclusive, of its window on both sides. 0 where there is none.
    """
    window = blocks[:, 0].long().clamp(min=0)
    ranges = bounds[window], bounds[window + 1], other_bounds[window], other_bounds[window + 1]
    return torch.stack((blocks[:, 1], *ranges), 1) * (blocks[:, :1] >= 0)


def packed_attention(qkv: Tensor, mask: PackedMask, kv: Tensor | None = None) -> Tensor:
    """Scaled dot-product attention inside windows.

    Args:
        qkv: (tokens, 3, heads, head width) for self-attention, or the queries alone, (tokens, 1, heads, head width).
        mask: what each query sees.
        kv: (keys, 2, heads, head width), where keys and values are another side's.

    Returns:
        (tokens, heads, head width); zero where a query sees nothing.
    """
    output: Tensor = _attention(qkv, kv, *mask)[0]
    return output


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
    group = _heads_of_a_program(heads)
    _attend[len(mask.query_blocks), heads // group](
        queries, keys, values, output, log_sums, mask.query_blocks, *mask[4:6], mask.local_heads, scale, tokens,
        heads, queries.stride(0), keys.stride(0), values.stride(0),
        CAUSAL=mask.causal, LOCAL=mask.local_heads > 0, WIDTH=width, BLOCK=BLOCK, GROUP=group, **_FORWARD,
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
    inner = torch.empty_like(log_sums)  # (heads, queries): products of output and its gradient
    group = _heads_of_a_program(heads)
    options = {"CAUSAL": mask.causal, "LOCAL": mask.local_heads > 0, "WIDTH": width, "BLOCK": BLOCK, "GROUP": group}
    _query_gradient[len(mask.query_blocks), heads // group](
        queries, keys, values, output, gradient, log_sums, inner, query_gradient, mask.query_blocks, *mask[4:6],
        mask.local_heads, scale, tokens, heads, queries.stride(0), keys.stride(0), values.stride(0),
        query_gradient.stride(0), **options, **_BACKWARD,
    )  # fmt: skip
    _key_value_gradients[len(mask.key_blocks), heads // group](
        queries, keys, values, gradient, log_sums, inner, key_gradient, value_gradient, mask.key_blocks, *mask[4:6],
        mask.local_heads, scale, tokens, heads, queries.stride(0), keys.stride(0), values.stride(0),
        key_gradient.stride(0), value_gradient.stride(0), **options, **_BACKWARD,
    )  # fmt: skip


def _heads_of_a_program(heads: int) -> int:
    """Enough to load the next while one is computed, and few enough to keep a GPU busy."""
    return next(group for group in (_GROUP, 2, 1) if heads % group == 0)


def has_packed_kernels(settings: ModelSettings) -> bool:
    """Whether the kernels, which need a GPU and Triton, compute this model's attention."""
    width = settings.d_model // settings.heads
    whole = settings.context is None and settings.second_pass is None
    fits = whole and settings.attention_dropout == 0 and 16 <= width <= 128
    return triton is not None and fits and width & (width - 1) == 0


def _has_kernels(x: Tensor) -> bool:
    return triton is not None and x.is_cuda


@torch.library.custom_op("focat::packed_attention", mutates_args=())
def _attention(
    qkv: Tensor, kv: Tensor | None, query_bounds: Tensor, key_bounds: Tensor, query_blocks: Tensor,
    key_blocks: Tensor, query_sentences: Tensor, key_sentences: Tensor, causal: bool, local_heads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    sides = query_bounds, key_bounds, query_blocks, key_blocks, query_sentences, key_sentences
    mask = PackedMask(*sides, causal, local_heads)
    return _forward(*_queries_keys_values(qkv, kv), mask)


@_attention.register_fake
def _(qkv: Tensor, kv: Tensor | None, *mask: object) -> tuple[Tensor, Tensor]:
    tokens, _, heads, width = qkv.shape
    return qkv.new_empty(tokens, heads, width), qkv.new_empty(heads, tokens, dtype=torch.float32)


@torch.library.custom_op("focat::packed_attention_backward", mutates_args=())
def _attention_backward(
    gradient: Tensor, qkv: Tensor, kv: Tensor | None, output: Tensor, log_sums: Tensor, query_bounds: Tensor,
    key_bounds: Tensor, query_blocks: Tensor, key_blocks: Tensor, query_sentences: Tensor, key_sentences: Tensor,
    causal: bool, local_heads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    sides = query_bounds, key_bounds, query_blocks, key_blocks, query_sentences, key_sentences
    mask = PackedMask(*sides, causal, local_heads)
    qkv_gradient = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
    kv_gradient = None if kv is None else torch.empty(kv.shape, dtype=kv.dtype, device=kv.device)
    gradients = _queries_keys_values(qkv_gradient, kv_gradient)
    _backward(gradient.contiguous(), *_queries_keys_values(qkv, kv), output, log_sums, mask, *gradients)
    return qkv_gradient, qkv_gradient.new_empty(0) if kv_gradient is None else kv_gradient


@_attention_backward.register_fake
def _(gradient: Tensor, qkv: Tensor, kv: Tensor | None, *rest: object) -> tuple[Tensor, Tensor]:
    return qkv.new_empty(qkv.shape), qkv.new_empty(0 if kv is None else kv.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, kv, *mask = inputs
    ctx.save_for_backward(qkv, kv, *output, *mask[:6])
    ctx.options = mask[6:]


def _autograd(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    qkv, kv, output, log_sums, *mask = ctx.saved_tensors
    first, second = _attention_backward(gradient, qkv, kv, output, log_sums, *mask, *ctx.options)
    return first, None if kv is None else second, *[None] * 8


_attention.register_autograd(_autograd, setup_context=_setup_context)


def _queries_keys_values(qkv: Tensor, kv: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Views of (tokens, heads, head width) each."""
    if kv is None:
        return qkv[:, 0], qkv[:, 1], qkv[:, 2]
    return qkv[:, 0], kv[:, 0], kv[:, 1]


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _visible(  # type: ignore[no-untyped-def]
        rows, columns, row_end, column_end, row_start, column_start, row_sentences, column_sentences, everywhere,
        CAUSAL: tl.constexpr, LOCAL: tl.constexpr,
    ):  # fmt: skip
        """True where the queries `rows` see the keys `columns`; both of one window."""
        visible = (rows < row_end)[:, None] & (columns < column_end)[None, :]
        if CAUSAL:
            visible = visible & ((rows - row_start)[:, None] >= (columns - column_start)[None, :])
        if LOCAL:
            own = tl.load(row_sentences + rows, mask=rows < row_end, other=-1)[:, None]
            own = own == tl.load(column_sentences + columns, mask=columns < column_end, other=-2)[None, :]
            visible = visible & (own | everywhere)
        return visible

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _attend(  # type: ignore[no-untyped-def]
        queries, keys, values, output, log_sums, blocks, query_sentences, key_sentences, local_heads, scale, tokens,
        heads, query_stride, key_stride, value_stride,
        CAUSAL: tl.constexpr, LOCAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
    ):  # fmt: skip
        """A block of queries, some of its heads: one step for each head and block of keys."""
        block = blocks + 5 * tl.program_id(0)
        first, row_start, row_end = tl.load(block), tl.load(block + 1), tl.load(block + 2)
        column_start, column_end = tl.load(block + 3), tl.load(block + 4)
        if first < row_end:
            rows, entries = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
            inside = (rows < row_end)[:, None]
            stop = column_end
            if CAUSAL:
                stop = tl.minimum(column_end, column_start + (first - row_start) + BLOCK)
            count = tl.maximum(tl.cdiv(stop - column_start, BLOCK), 1)  # one block without keys gives zeros
            highest = tl.full([BLOCK], float("-inf"), tl.float32)
            total = tl.zeros([BLOCK], tl.float32)
            summed = tl.zeros([BLOCK, WIDTH], tl.float32)
            for step in range(0, GROUP * count):
                head, number = tl.program_id(1) * GROUP + step // count, step % count
                part = head * WIDTH + entries[None, :]
                columns = column_start + number * BLOCK + tl.arange(0, BLOCK)
                exists = (columns < column_end)[:, None]
                query = tl.load(queries + rows[:, None] * query_stride + part, mask=inside, other=0.0)
                key = tl.load(keys + columns[:, None] * key_stride + part, mask=exists, other=0.0)
                value = tl.load(values + columns[:, None] * value_stride + part, mask=exists, other=0.0)
                visible = _visible(
                    rows, columns, row_end, column_end, row_start, column_start, query_sentences, key_sentences,
                    head >= local_heads, CAUSAL, LOCAL,
                )  # fmt: skip
                scores = tl.where(visible, tl.dot(query, tl.trans(key)) * scale, float("-inf"))
                highest = tl.where(number == 0, float("-inf"), highest)  # what came before is forgotten
                higher = tl.maximum(highest, tl.max(scores, 1))
                reference = tl.where(higher == float("-inf"), 0.0, higher)
                weights = tl.exp2(scores - reference[:, None])
                kept = tl.exp2(highest - reference)
                total = total * kept + tl.sum(weights, 1)
                summed = summed * kept[:, None] + tl.dot(weights.to(value.dtype), value)
                highest = higher
                last = number == count - 1
                seen = total > 0
                result = summed / tl.where(seen, total, 1.0)[:, None]
                place = output + rows[:, None] * (heads * WIDTH) + part
                tl.store(place, result.to(output.dtype.element_ty), mask=inside & last)
                sums = tl.where(seen, highest + tl.log2(tl.where(seen, total, 1.0)), float("inf"))
                tl.store(log_sums + head * tokens + rows, sums, mask=(rows < row_end) & last)

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _query_gradient(  # type: ignore[no-untyped-def]
        queries, keys, values, output, gradient, log_sums, inner, query_gradient, blocks, query_sentences,
        key_sentences, local_heads, scale, tokens, heads, query_stride, key_stride, value_stride,
        query_gradient_stride,
        CAUSAL: tl.constexpr, LOCAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
    ):  # fmt: skip
        """Also stores the inner products of output and its gradient, which the gradients of keys need."""
        block = blocks + 5 * tl.program_id(0)
        first, row_start, row_end = tl.load(block), tl.load(block + 1), tl.load(block + 2)
        column_start, column_end = tl.load(block + 3), tl.load(block + 4)
        if first < row_end:
            rows, entries = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
            inside = (rows < row_end)[:, None]
            stop = column_end
            if CAUSAL:
                stop = tl.minimum(column_end, column_start + (first - row_start) + BLOCK)
            count = tl.maximum(tl.cdiv(stop - column_start, BLOCK), 1)
            summed = tl.zeros([BLOCK, WIDTH], tl.float32)
            for step in range(0, GROUP * count):
                head, number = tl.program_id(1) * GROUP + step // count, step % count
                part = head * WIDTH + entries[None, :]
                columns = column_start + number * BLOCK + tl.arange(0, BLOCK)
                exists = (columns < column_end)[:, None]
                place = rows[:, None] * (heads * WIDTH) + part
                query = tl.load(queries + rows[:, None] * query_stride + part, mask=inside, other=0.0)
                incoming = tl.load(gradient + place, mask=inside, other=0.0)
                result = tl.load(output + place, mask=inside, other=0.0)
                key = tl.load(keys + columns[:, None] * key_stride + part, mask=exists, other=0.0)
                value = tl.load(values + columns[:, None] * value_stride + part, mask=exists, other=0.0)
                sums = tl.load(log_sums + head * tokens + rows, mask=rows < row_end, other=float("inf"))
                product = tl.sum(incoming.to(tl.float32) * result.to(tl.float32), 1)
                visible = _visible(
                    rows, columns, row_end, column_end, row_start, column_start, query_sentences, key_sentences,
                    head >= local_heads, CAUSAL, LOCAL,
                )  # fmt: skip
                weights = tl.exp2(tl.dot(query, tl.trans(key)) * scale - sums[:, None])
                change = weights * (tl.dot(incoming, tl.trans(value)) - product[:, None])
                change = tl.where(visible, change, 0.0).to(key.dtype)
                summed = tl.dot(change, key, tl.where(number == 0, 0.0, summed))
                last = number == count - 1
                done = query_gradient + rows[:, None] * query_gradient_stride + part
                found = summed * (scale * 0.6931471805599453)  # without the change of base
                tl.store(done, found.to(query_gradient.dtype.element_ty), mask=inside & last)
                tl.store(inner + head * tokens + rows, product, mask=(rows < row_end) & last)

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _key_value_gradients(  # type: ignore[no-untyped-def]
        queries, keys, values, gradient, log_sums, inner, key_gradient, value_gradient, blocks, query_sentences,
        key_sentences, local_heads, scale, tokens, heads, query_stride, key_stride, value_stride,
        key_gradient_stride, value_gradient_stride,
        CAUSAL: tl.constexpr, LOCAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
    ):  # fmt: skip
        """A block of keys, some of its heads: one step for each head and block of queries."""
        block = blocks + 5 * tl.program_id(0)
        first, column_start, column_end = tl.load(block), tl.load(block + 1), tl.load(block + 2)
        row_start, row_end = tl.load(block + 3), tl.load(block + 4)
        if first < column_end:
            columns, entries = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
            exists = (columns < column_end)[:, None]
            begin = row_start
            if CAUSAL:
                begin = row_start + (first - column_start)
            count = tl.maximum(tl.cdiv(row_end - begin, BLOCK), 1)
            key_sum = tl.zeros([BLOCK, WIDTH], tl.float32)
            value_sum = tl.zeros([BLOCK, WIDTH], tl.float32)
            for step in range(0, GROUP * count):
                head, number = tl.program_id(1) * GROUP + step // count, step % count
                part = head * WIDTH + entries[None, :]
                rows = begin + number * BLOCK + tl.arange(0, BLOCK)
                inside = (rows < row_end)[:, None]
                key = tl.load(keys + columns[:, None] * key_stride + part, mask=exists, other=0.0)
                value = tl.load(values + columns[:, None] * value_stride + part, mask=exists, other=0.0)
                query = tl.load(queries + rows[:, None] * query_stride + part, mask=inside, other=0.0)
                incoming = tl.load(gradient + rows[:, None] * (heads * WIDTH) + part, mask=inside, other=0.0)
                sums = tl.load(log_sums + head * tokens + rows, mask=rows < row_end, other=float("inf"))
                product = tl.load(inner + head * tokens + rows, mask=rows < row_end, other=0.0)
                visible = _visible(
                    rows, columns, row_end, column_end, row_start, column_start, query_sentences, key_sentences,
                    head >= local_heads, CAUSAL, LOCAL,
                )  # fmt: skip
                weights = tl.exp2(tl.dot(query, tl.trans(key)) * scale - sums[:, None])
                weights = tl.where(visible, weights, 0.0)
                change = (weights * (tl.dot(incoming, tl.trans(value)) - product[:, None])).to(query.dtype)
                weights = tl.trans(weights.to(incoming.dtype))
                value_sum = tl.dot(weights, incoming, tl.where(number == 0, 0.0, value_sum))
                key_sum = tl.dot(tl.trans(change), query, tl.where(number == 0, 0.0, key_sum))
                last = exists & (number == count - 1)
                done = key_gradient + columns[:, None] * key_gradient_stride + part
                found = key_sum * (scale * 0.6931471805599453)
                tl.store(done, found.to(key_gradient.dtype.element_ty), mask=last)
                done = value_gradient + columns[:, None] * value_gradient_stride + part
                tl.store(done, value_sum.to(value_gradient.dtype.element_ty), mask=last)

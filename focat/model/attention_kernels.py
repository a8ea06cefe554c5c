"""The Triton kernels of `packed_attention`: forward pass, gradients of queries, gradients of keys and values.

The grid is (blocks, groups of heads). A program takes one block of a window and visits the blocks of the other side.
"""

from __future__ import annotations

import triton
import triton.language as tl


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
def attend(  # type: ignore[no-untyped-def]
    queries, keys, values, output, log_sums, blocks, query_sentences, key_sentences, local_heads, scale, tokens,
    heads, query_stride, key_stride, value_stride,
    CAUSAL: tl.constexpr, LOCAL: tl.constexpr, OTHER: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """A block of queries, some of its heads: one step for each head and block of keys."""
    block = blocks + 5 * tl.program_id(0)
    first, row_start, row_end = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    column_start, column_end = tl.load(block + OTHER), tl.load(block + OTHER + 1)
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
def query_gradients(  # type: ignore[no-untyped-def]
    queries, keys, values, output, gradient, log_sums, inner, query_gradient, blocks, query_sentences,
    key_sentences, local_heads, scale, tokens, heads, query_stride, key_stride, value_stride,
    query_gradient_stride,
    CAUSAL: tl.constexpr, LOCAL: tl.constexpr, OTHER: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Also stores the inner products of output and its gradient, which the gradients of keys need."""
    block = blocks + 5 * tl.program_id(0)
    first, row_start, row_end = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    column_start, column_end = tl.load(block + OTHER), tl.load(block + OTHER + 1)
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
def key_value_gradients(  # type: ignore[no-untyped-def]
    queries, keys, values, gradient, log_sums, inner, key_gradient, value_gradient, blocks, query_sentences,
    key_sentences, local_heads, scale, tokens, heads, query_stride, key_stride, value_stride,
    key_gradient_stride, value_gradient_stride,
    CAUSAL: tl.constexpr, LOCAL: tl.constexpr, OTHER: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """A block of keys, some of its heads: one step for each head and block of queries."""
    block = blocks + 5 * tl.program_id(0)
    first, column_start, column_end = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    row_start, row_end = tl.load(block + OTHER), tl.load(block + OTHER + 1)
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

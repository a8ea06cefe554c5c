"""The Triton kernels of `tree_attention`: which columns a window sees, attention to them, and writing new ones."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(  # type: ignore[untyped-decorator, unused-ignore]
    do_not_specialize=["columns", "queries", "window_stride", "query_stride"]
)
def list_columns(  # type: ignore[no-untyped-def]
    mask, entries, counts, columns, queries, window_stride, query_stride, column_stride,
    QUERIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A window: the columns that any query sees, in their order, and in the upper 16 bits which queries these are."""
    window = tl.program_id(0).to(tl.int64)
    query = tl.arange(0, QUERIES)[:, None]
    rows = mask + window * window_stride + query * query_stride
    listed = entries + window * columns
    count = 0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = (query < queries) & (column < columns)[None, :]
        seen = tl.load(rows + column[None, :] * column_stride, mask=inside, other=0)
        bits = tl.sum(tl.where(seen != 0, 1 << query, 0), 0)
        used = (bits != 0).to(tl.int32)
        place = count + tl.cumsum(used, 0) - 1
        tl.store(listed + place, (bits << 16) | column, mask=used != 0)
        count += tl.sum(used, 0)
    tl.store(counts + window, count)


@triton.jit(do_not_specialize=["columns", "queries", "groups"])  # type: ignore[untyped-decorator, unused-ignore]
def attend(  # type: ignore[no-untyped-def]
    queries_in, keys, values, entries, counts, output, scale, columns, queries, groups,
    query_window, query_head, query_row, key_window, key_head, key_column, value_window, value_head, value_column,
    output_window, output_row,
    QUERIES: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A window, some of its heads side by side.

    A row is a query of one head. It is zero at the entries of other heads, so one product serves all heads, and the
    least number of rows that tensor cores take is made of different heads instead of padding.
    """
    window = (tl.program_id(0) // groups).to(tl.int64)
    first = (tl.program_id(0) % groups) * HEADS
    row, entry = tl.arange(0, ROWS), tl.arange(0, HEADS * WIDTH)
    query, row_head = row % QUERIES, row // QUERIES
    head, within = entry // WIDTH, entry % WIDTH
    own = ((query < queries) & (row_head < HEADS))[:, None] & (row_head[:, None] == head[None, :])  # (rows, entries)
    part = queries_in + window * query_window + (first + head) * query_head + within
    looking = tl.load(part[None, :] + query[:, None] * query_row, mask=own, other=0.0)
    listed = entries + window * columns
    count = tl.load(counts + window)
    key_part = keys + window * key_window + (first + head) * key_head + within
    value_part = values + window * value_window + (first + head) * value_head + within
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    summed = tl.zeros([ROWS, HEADS * WIDTH], tl.float32)
    for start in range(0, count, BLOCK):
        place = start + tl.arange(0, BLOCK)
        listing = tl.load(listed + place, mask=place < count, other=0)  # 0: no query sees it
        column = (listing & 0xFFFF)[:, None]
        used = (place < count)[:, None]  # (block, 1)
        key = tl.load(key_part[None, :] + column * key_column, mask=used, other=0.0)
        value = tl.load(value_part[None, :] + column * value_column, mask=used, other=0.0)
        visible = ((listing[None, :] >> (16 + query[:, None])) & 1) != 0  # (rows, block)
        scores = tl.dot(looking, tl.trans(key), input_precision="ieee") * scale
        scores = tl.where(visible, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        reference = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - reference[:, None])
        kept = tl.exp2(highest - reference)
        total = total * kept + tl.sum(weights, 1)
        summed = summed * kept[:, None]
        summed = tl.dot(weights.to(value.dtype), value, summed, input_precision="ieee")
        highest = higher
    result = summed / tl.where(total > 0, total, 1.0)[:, None]
    target = output + window * output_window + query[:, None] * output_row + (first * WIDTH + entry)[None, :]
    tl.store(target, result.to(output.dtype.element_ty), mask=own)


@triton.jit(do_not_specialize=["new", "heads"])  # type: ignore[untyped-decorator, unused-ignore]
def append_nodes(  # type: ignore[no-untyped-def]
    keys, values, cached_keys, cached_values, write_columns, new, heads,
    key_window, key_head, key_row, value_window, value_head, value_row,
    cached_key_window, cached_key_column, cached_value_window, cached_value_column,
    NEW: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """A window: new keys and values, head by head, into the columns of a cache, whose heads lie side by side."""
    window = tl.program_id(0).to(tl.int64)
    node, entry = tl.arange(0, NEW)[:, None], tl.arange(0, ENTRIES)[None, :]
    head, within = entry // WIDTH, entry % WIDTH
    inside = (node < new) & (head < heads)
    column = tl.load(write_columns + node, mask=node < new, other=0).to(tl.int32)
    key = tl.load(keys + window * key_window + node * key_row + head * key_head + within, mask=inside)
    value = tl.load(values + window * value_window + node * value_row + head * value_head + within, mask=inside)
    tl.store(cached_keys + window * cached_key_window + column * cached_key_column + entry, key, mask=inside)
    tl.store(cached_values + window * cached_value_window + column * cached_value_column + entry, value, mask=inside)

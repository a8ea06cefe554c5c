"""The Triton kernels of `next_tokens` and `fused_embeddings`: what comes before the first layer of a decoding step."""

from __future__ import annotations

import triton
import triton.language as tl

from focat.corpus import vocabulary

_PAD, _START, _SEPARATOR = (tl.constexpr(id) for id in (vocabulary.PAD, vocabulary.START, vocabulary.SEPARATOR))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def append_one(  # type: ignore[no-untyped-def]
    tokens, shifts, write_pos, ancestors, opened_segments, lengths, separators, segments, positions, opened,
    write_columns, capacity, BEAM: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """One token of each hypothesis of a window, of which there are `BEAM` in `SLOTS`."""
    window = tl.program_id(0).to(tl.int64)
    slot = tl.arange(0, SLOTS)
    inside = slot < BEAM
    row = window * BEAM + slot
    token = tl.load(tokens + row, mask=inside, other=_PAD)
    length = tl.load(lengths + row, mask=inside, other=0)
    separator = tl.load(separators + row, mask=inside, other=0)
    first = tl.load(write_pos)
    position = length + separator * tl.load(shifts + window)
    closed = separator + (token == _SEPARATOR).to(tl.int64)
    tl.debug_barrier()  # between reading and writing the same rows
    tl.store(segments + row, tl.where(token == _PAD, -1, separator), mask=inside)
    tl.store(positions + row, position, mask=inside)
    tl.store(opened + row, closed, mask=inside)
    tl.store(opened_segments + window * capacity + first + slot, closed, mask=inside)
    tl.store(lengths + row, length + (token != _PAD).to(tl.int64), mask=inside)
    tl.store(separators + row, closed, mask=inside)
    column = first + slot[None, :]
    own = slot[:, None] == slot[None, :]
    tl.store(ancestors + row[:, None] * capacity + column, own, mask=inside[:, None] & inside[None, :])
    tl.store(write_columns + slot, first + slot, mask=inside & (window == 0))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _sum_part(entries, scale, unread, sinusoid, added, SEGMENTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some columns of the sum, rounded as often as plain torch rounds them."""
    total = tl.where(unread, 0.0, (entries.to(tl.float32) * scale).to(entries.dtype).to(tl.float32))
    total = (total + sinusoid.to(entries.dtype).to(tl.float32)).to(entries.dtype)
    if SEGMENTS:
        total = (total.to(tl.float32) + added.to(entries.dtype).to(tl.float32)).to(entries.dtype)
    return total


@triton.jit(do_not_specialize=["length", "before", "after", "offset"])  # type: ignore[untyped-decorator, unused-ignore]
def embed(  # type: ignore[no-untyped-def]
    tokens, positions, segments, current, table, frequencies, segment_table, output, length, before, after, offset,
    scale, HALF: tl.constexpr, BLOCK: tl.constexpr, ZERO_START: tl.constexpr, SEGMENTS: tl.constexpr,
):  # fmt: skip
    """One token; columns are the sines, then the cosines, `HALF` each in a `BLOCK`."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < HALF
    token, position = tl.load(tokens + row), tl.load(positions + row) + offset
    frequency = tl.load(frequencies + column, mask=inside, other=0.0)
    angle = position.to(frequency.dtype) * frequency
    first = tl.load(table + token * (2 * HALF) + column, mask=inside, other=0.0)
    second = tl.load(table + token * (2 * HALF) + HALF + column, mask=inside, other=0.0)
    first_added, second_added = first, second
    if SEGMENTS:  # the start symbol has the label of the current sentence
        segment, own = tl.load(segments + row), tl.load(current + row // length)
        segment = tl.where(token == _START, own, segment)
        distance = tl.minimum(tl.maximum(own - segment, -after), before)
        index = tl.where(distance >= 0, distance + 1, before + 1 - distance)
        index = tl.where(segment < 0, 0, index)
        first_added = tl.load(segment_table + index * (2 * HALF) + column, mask=inside, other=0.0)
        second_added = tl.load(segment_table + index * (2 * HALF) + HALF + column, mask=inside, other=0.0)
    unread = ZERO_START & (token == _START)
    first = _sum_part(first, scale, unread, tl.sin(angle).to(tl.float32), first_added, SEGMENTS)
    second = _sum_part(second, scale, unread, tl.cos(angle).to(tl.float32), second_added, SEGMENTS)
    tl.store(output + row * (2 * HALF) + column, first, mask=inside)
    tl.store(output + row * (2 * HALF) + HALF + column, second, mask=inside)

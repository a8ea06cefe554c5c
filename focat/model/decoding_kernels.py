"""The Triton kernels of `next_tokens` and `fused_embeddings`: what comes before the first layer of a decoding step."""

from __future__ import annotations

import triton
import triton.language as tl

from focat.corpus import vocabulary

_PAD, _SEPARATOR = tl.constexpr(vocabulary.PAD), tl.constexpr(vocabulary.SEPARATOR)


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

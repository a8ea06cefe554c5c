"""The most probable next tokens in one pass over the logits, a Triton kernel.

A row of logits is read once from memory, in the type that the projection gives. The kernel keeps a maximum of words
and a sum of exponentials for each column of the row, laid out in lines of so many `lanes`. The most probable words
lie in the columns with the highest maxima, which are read once more, from the cache. `selection.TopTokens` has the
same in plain torch; it is the reference that it agrees with.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from focat.corpus.vocabulary import END, SPECIALS

_LAUNCH = {"LINES": 8, "num_warps": 4, "num_stages": 1}


def fused_top_tokens(logits: Tensor, count: int, lanes: int) -> tuple[Tensor, Tensor, Tensor]:
    """What `TopTokens` holds of these logits, (windows, beam, vocabulary): float32, float32 and int64.

    `lanes`: columns that a row is laid out in, each with at least one word.
    """
    windows, beam, vocabulary = logits.shape
    rows = logits.reshape(-1, vocabulary)
    closing = torch.empty((windows, beam, 2), dtype=torch.float32, device=logits.device)
    words = torch.empty((windows, beam, count), dtype=torch.float32, device=logits.device)
    ids = torch.empty((windows, beam, count), dtype=torch.long, device=logits.device)
    _one_row[(len(rows),)](
        rows, closing, words, ids, rows.stride(0), vocabulary, count, FIRST=SPECIALS, END=END,
        COUNT=triton.next_power_of_2(count), DEPTH=triton.next_power_of_2(triton.cdiv(vocabulary, lanes)),
        LANES=lanes, **_LAUNCH,
    )  # fmt: skip
    return closing, words, ids


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _key(value, place):  # type: ignore[no-untyped-def]
    """A 64-bit integer that orders numbers as their values do, and equal values by their place, the first highest."""
    bits = value.to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.to(tl.int64) << 32) | (0x7FFFFFFF - place).to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _value(key):  # type: ignore[no-untyped-def]
    """The value of a key."""
    ordered = (key >> 32).to(tl.int32)
    return (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _place(key):  # type: ignore[no-untyped-def]
    return 0x7FFFFFFF - (key & 0x7FFFFFFF).to(tl.int32)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _add_lines(highest, total, values):  # type: ignore[no-untyped-def]
    """Maxima and sums of exponentials of the columns, with some more lines of the row."""
    higher = tl.maximum(highest, tl.max(values, 0))
    reference = tl.where(higher == float("-inf"), 0.0, higher)
    total *= tl.exp2((highest - reference) * 1.4426950408889634)
    total += tl.sum(tl.exp2((values - reference[None, :]) * 1.4426950408889634), 0)
    return higher, total


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator, unused-ignore]
def _one_row(  # type: ignore[no-untyped-def]
    logits, closing, words, ids, stride, vocabulary, count, FIRST: tl.constexpr, END: tl.constexpr,
    LANES: tl.constexpr, LINES: tl.constexpr, COUNT: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = logits + row * stride
    lane = tl.arange(0, LANES)
    lines = tl.arange(0, LINES)[:, None] * LANES + lane[None, :]
    highest = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    values = tl.load(place + lines, mask=lines < vocabulary, other=float("-inf")).to(tl.float32)
    highest, total = _add_lines(highest, total, tl.where(lines < FIRST, float("-inf"), values))
    for start in range(LINES * LANES, vocabulary, LINES * LANES):
        token = start + lines
        values = tl.load(place + token, mask=token < vocabulary, other=float("-inf")).to(tl.float32)
        highest, total = _add_lines(highest, total, values)
    special = tl.load(place + tl.arange(0, FIRST)).to(tl.float32)
    greatest = tl.maximum(tl.max(highest, 0), tl.max(special, 0))
    total = tl.sum(total * tl.exp2((highest - greatest) * 1.4426950408889634), 0)
    total += tl.sum(tl.exp2((special - greatest) * 1.4426950408889634), 0)
    log_total = tl.log2(total) * 0.6931471805599453
    closes = tl.arange(0, 2)
    tl.store(closing + row * 2 + closes, tl.load(place + END + closes).to(tl.float32) - greatest - log_total)

    least = -0x7FFFFFFFFFFFFFFF
    rank = tl.arange(0, COUNT)
    chosen = tl.zeros([COUNT], tl.int32)
    keys = _key(highest, lane)
    for i in range(count):
        best = tl.max(keys, 0)
        keys = tl.where(keys == best, least, keys)
        chosen = tl.where(rank == i, _place(best), chosen)
    token = chosen[:, None] + tl.arange(0, DEPTH)[None, :] * LANES  # (count, depth)
    exists = (rank < count)[:, None] & (token >= FIRST) & (token < vocabulary)
    values = tl.load(place + token, mask=exists, other=float("-inf")).to(tl.float32)
    found = tl.reshape(tl.where(exists, _key(values, token), least), [COUNT * DEPTH], can_reorder=True)
    for i in range(count):
        best = tl.max(found, 0)
        found = tl.where(found == best, least, found)
        tl.store(words + row * count + i, _value(best) - greatest - log_total)
        tl.store(ids + row * count + i, _place(best).to(tl.int64))

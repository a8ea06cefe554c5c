"""The Triton kernels of `fused_beam`. A program of one warp owns a window: the rows of all its hypotheses.

Rows are permuted in place. A program reads what it is about to overwrite, waits for all its threads, and then writes;
long rows go through it in chunks of columns, which never overlap. No other program touches its rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from focat.corpus import vocabulary

_PAD, _END, _SEPARATOR = (tl.constexpr(id) for id in (vocabulary.PAD, vocabulary.END, vocabulary.SEPARATOR))
_LOWEST = tl.constexpr(-(1 << 63))  # below every key
_LOW_BITS = tl.constexpr((1 << 31) - 1)
_NONE = tl.constexpr(float("-inf"))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _key(numbers, low):  # type: ignore[no-untyped-def]
    """Integers in the order of these numbers, and of `low` among equal ones; NaN is the highest, as for torch."""
    bits = numbers.to(tl.int32, bitcast=True)
    bits = tl.where(numbers == 0, 0, bits)  # two zeros
    bits = tl.where(numbers != numbers, 0x7FC00000, bits)
    return (tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64) << 32) | low


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _number(key):  # type: ignore[no-untyped-def]
    """The number of a key."""
    bits = (key >> 32).to(tl.int32)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _power(length, exponent):  # type: ignore[no-untyped-def]
    """Exact where the result is a whole number, which float32 would miss."""
    return tl.exp2(exponent * tl.log2(length.to(tl.float64))).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _is_forced(closed, empty, step, limit, wanted):  # type: ignore[no-untyped-def]
    """Whether the maximum length leaves no choice but to close what is open; see `next_token_mask`."""
    needed = tl.maximum(2 * (wanted - closed) - 1, 1) + empty.to(tl.int64)
    return limit - step <= tl.where(wanted == 0, 1, needed)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _permute_columns(  # type: ignore[no-untyped-def]
    values, first_row, slot, parent, moved, length, columns, CHUNK: tl.constexpr
):
    """Continue each row that moved from its parent's, up to a length."""
    for start in range(0, length, CHUNK):
        column = start + tl.arange(0, CHUNK)[None, :]
        mask = moved[:, None] & (column < length)
        read = tl.load(values + (first_row + parent)[:, None] * columns + column, mask=mask)
        tl.debug_barrier()
        tl.store(values + (first_row + slot)[:, None] * columns + column, read, mask=mask)


@triton.jit(do_not_specialize=["hypotheses", "nbest", "size"])  # type: ignore[untyped-decorator, unused-ignore]
def advance(  # type: ignore[no-untyped-def]
    closing, words, ids, live_tokens, live_scores, live_truncated, live_rank, ended_tokens, ended_scores,
    ended_truncated, ended_rank, steps, max_lengths, sentences, closed_sentences, empty_sentences, lengths, finished,
    ancestors, cached_tokens, cached_separators, write_pos, parents, hypotheses, nbest, size, capacity, penalty,
    BEAM: tl.constexpr, WORDS: tl.constexpr, SLOTS: tl.constexpr, OPTIONS: tl.constexpr, CHUNK: tl.constexpr,
    MASK_CHUNK: tl.constexpr,
):  # fmt: skip
    """One step of a window: `BeamSearch.advance` with `beam_topk`, and `TreeKVCache.reorder`.

    `SLOTS` hypotheses, of which `BEAM` exist, have `OPTIONS` candidates each: `WORDS` words, END and SEPARATOR, and
    nothing. Rows of a cache that is empty stay as they are.
    """
    window = tl.program_id(0).to(tl.int64)
    slot = tl.arange(0, SLOTS)
    inside = slot < BEAM
    first = window * BEAM
    row = first + slot
    if tl.load(finished + window).to(tl.int32) == 0:
        step, limit, wanted = tl.load(steps + window), tl.load(max_lengths + window), tl.load(sentences + window)
        index = tl.minimum(step, size - 1).to(tl.int32)  # where the next token goes
        new_power, last_power = _power(step + 1, penalty), _power(limit, penalty)

        # What may follow, and how likely it is.
        closed = tl.load(closed_sentences + row, mask=inside, other=0)
        empty = tl.load(empty_sentences + row, mask=inside, other=0) != 0
        forced = _is_forced(closed, empty, step, limit, wanted)
        free, last = wanted == 0, closed >= wanted - 1
        word = ~forced | (empty & ~free)
        separator = (free & ~forced) | ~(free | last | empty)
        end = (free & (step > 0)) | (last & ~empty & ~free)
        option = tl.arange(0, OPTIONS)[None, :]
        exists = inside[:, None] & (option < WORDS + 2)
        top = (window * hypotheses + tl.minimum(slot, hypotheses - 1))[:, None]  # row of the most probable tokens
        score = tl.load(words + top * WORDS + option, mask=exists & (option < WORDS), other=0.0)
        score += tl.load(closing + top * 2 + option - WORDS, mask=exists & (option >= WORDS), other=0.0)
        closes = tl.where(option == WORDS, end[:, None], separator[:, None])
        allowed = tl.where(option < WORDS, word[:, None], closes)
        total = tl.load(live_rank + row, mask=inside, other=0.0)[:, None] + tl.where(allowed, score, _NONE)
        place = slot[:, None] * OPTIONS + option
        keys = tl.where(exists, _key(total, SLOTS * OPTIONS - 1 - place), _LOWEST)

        # The best candidates one by one: those that continue, and of the first `BEAM`, those that end.
        chosen = tl.zeros([SLOTS], tl.int32)
        rank = tl.full([SLOTS], _NONE, tl.float32)
        arrivals = tl.full([SLOTS], _LOWEST, tl.int64)
        continuing, arrived = 0, 0
        for number in range(2 * BEAM):
            best = tl.max(tl.max(keys, 1), 0)
            keys = tl.where(keys == best, _LOWEST, keys)
            at, value = SLOTS * OPTIONS - 1 - (best & _LOW_BITS).to(tl.int32), _number(best)
            ends = at % OPTIONS == WORDS
            taken = (slot == continuing) & ~ends
            chosen = tl.where(taken, at, chosen)
            rank = tl.where(taken, value, rank)
            arrives = ends & (number < BEAM) & (value != _NONE)
            key = _key(value / new_power, ((SLOTS - 1 - number) << 8) | at // OPTIONS)
            arrivals = tl.where((slot == number) & arrives, key, arrivals)
            arrived += arrives.to(tl.int32)
            continuing += 1 - ends.to(tl.int32)

        # The best of the hypotheses that have ended, old and new; they are sorted, so without new ones nothing moves.
        ended = tl.load(ended_rank + row, mask=inside, other=_NONE)
        if arrived > 0:
            old = tl.where(inside, _key(ended, (2 * SLOTS - 1 - slot) << 8), _LOWEST)
            origin = slot
            for number in range(BEAM):
                best = tl.maximum(tl.max(old, 0), tl.max(arrivals, 0))
                old = tl.where(old == best, _LOWEST, old)
                arrivals = tl.where(arrivals == best, _LOWEST, arrivals)
                ended = tl.where(slot == number, _number(best), ended)
                origin = tl.where(slot == number, (best & _LOW_BITS).to(tl.int32), origin)
            before, parent = 2 * SLOTS - 1 - (origin >> 8), origin & 255
            is_new, moved = inside & (before >= SLOTS), inside & (before != slot)
            is_old = moved & ~is_new
            before, parent = tl.where(is_old, before, 0), tl.where(is_new, parent, 0)
            length = tl.load(lengths + first + before, mask=is_old, other=0)
            truncated = tl.load(ended_truncated + first + before, mask=is_old, other=0) != 0
            its_closed = tl.load(closed_sentences + first + parent, mask=is_new, other=0)
            its_empty = tl.load(empty_sentences + first + parent, mask=is_new, other=0) != 0
            its_truncated = tl.load(live_truncated + first + parent, mask=is_new, other=0) != 0
            its_truncated = its_truncated | _is_forced(its_closed, its_empty, step, limit, wanted)
            top_row = window * hypotheses + tl.minimum(parent, hypotheses - 1)
            end_score = tl.load(closing + top_row * 2, mask=is_new, other=0.0)
            tl.debug_barrier()
            tl.store(ended_rank + row, ended, mask=inside)
            tl.store(lengths + row, tl.where(is_new, step + 1, length), mask=moved)
            tl.store(ended_truncated + row, tl.where(is_new, its_truncated, truncated), mask=moved)
            for start in range(0, index + 1, CHUNK):
                column = start + tl.arange(0, CHUNK)[None, :]
                from_old, from_live = is_old[:, None] & (column < index), is_new[:, None] & (column < index)
                there, at_parent = (first + before)[:, None] * size + column, (first + parent)[:, None] * size + column
                tokens = tl.load(ended_tokens + there, mask=from_old, other=_END)
                tokens = tl.where(from_live, tl.load(live_tokens + at_parent, mask=from_live, other=0), tokens)
                scores = tl.load(ended_scores + there, mask=from_old, other=0.0)
                scores = tl.where(from_live, tl.load(live_scores + at_parent, mask=from_live, other=0.0), scores)
                scores = tl.where(column < index, scores, end_score[:, None])
                tl.debug_barrier()
                written = from_old | from_live | (is_new[:, None] & (column == index))
                tl.store(ended_tokens + row[:, None] * size + column, tokens, mask=written)
                tl.store(ended_scores + row[:, None] * size + column, scores, mask=written)

        # A window is finished when `BEAM` hypotheses have ended, or no live one can reach the n best.
        enough = tl.sum((inside & (ended > _NONE)).to(tl.int32), 0) == BEAM
        nth = tl.sum(tl.where(slot == nbest - 1, ended, 0.0), 0)
        attainable = tl.sum(tl.where(slot == 0, rank, 0.0), 0) / last_power
        done = enough | (nth >= attainable)

        # Live hypotheses.
        parent, option = chosen // OPTIONS, chosen % OPTIONS
        top_row = window * hypotheses + tl.minimum(parent, hypotheses - 1)
        is_word, is_separator = inside & (option < WORDS), inside & (option > WORDS)
        token = tl.load(ids + top_row * WORDS + option, mask=is_word, other=_SEPARATOR)
        score = tl.load(words + top_row * WORDS + option, mask=is_word, other=0.0)
        score += tl.load(closing + top_row * 2 + 1, mask=is_separator, other=0.0)
        closes = (token == _SEPARATOR) & inside
        closed = tl.load(closed_sentences + first + parent, mask=inside, other=0)
        empty = tl.load(empty_sentences + first + parent, mask=inside, other=0) != 0
        truncated = tl.load(live_truncated + first + parent, mask=inside, other=0) != 0
        truncated = truncated | _is_forced(closed, empty, step, limit, wanted)
        moved = inside & (parent != slot)
        used = tl.load(write_pos).to(tl.int32)
        in_cache = moved & (used > 0)
        its_tokens = tl.load(cached_tokens + first + parent, mask=in_cache, other=0)
        its_separators = tl.load(cached_separators + first + parent, mask=in_cache, other=0)
        tl.debug_barrier()
        tl.store(live_rank + row, tl.where(done, _NONE, rank), mask=inside)
        tl.store(closed_sentences + row, closed + closes.to(tl.int64), mask=inside)
        tl.store(empty_sentences + row, closes, mask=inside)
        tl.store(live_truncated + row, truncated, mask=inside)
        tl.store(cached_tokens + row, its_tokens, mask=in_cache)
        tl.store(cached_separators + row, its_separators, mask=in_cache)
        tl.store(steps + window, step + 1 - done.to(tl.int64))
        tl.store(finished + window, done)
        tl.store(parents + row, parent.to(tl.int64), mask=inside)
        _permute_columns(live_tokens, first, slot, parent, moved, index, size, CHUNK)
        _permute_columns(live_scores, first, slot, parent, moved, index, size, CHUNK)
        tl.store(live_tokens + row * size + index, token, mask=inside)
        tl.store(live_scores + row * size + index, score, mask=inside)
        _permute_columns(ancestors, first, slot, parent, moved, used, capacity, MASK_CHUNK)
    else:
        tl.store(parents + row, slot.to(tl.int64), mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def reorder(  # type: ignore[no-untyped-def]
    ancestors, cached_tokens, cached_separators, write_pos, parents, capacity,
    BEAM: tl.constexpr, SLOTS: tl.constexpr, MASK_CHUNK: tl.constexpr,
):  # fmt: skip
    """`TreeKVCache.reorder` of one window: row i continues the one of hypothesis parents[i]."""
    first = tl.program_id(0).to(tl.int64) * BEAM
    slot = tl.arange(0, SLOTS)
    parent = tl.load(parents + first + slot, mask=slot < BEAM, other=0).to(tl.int32)
    moved = (slot < BEAM) & (parent != slot)
    its_tokens = tl.load(cached_tokens + first + parent, mask=moved, other=0)
    its_separators = tl.load(cached_separators + first + parent, mask=moved, other=0)
    tl.debug_barrier()
    tl.store(cached_tokens + first + slot, its_tokens, mask=moved)
    tl.store(cached_separators + first + slot, its_separators, mask=moved)
    used = tl.load(write_pos).to(tl.int32)
    _permute_columns(ancestors, first, slot, parent, moved, used, capacity, MASK_CHUNK)


@triton.jit(do_not_specialize=["rows", "size"])  # type: ignore[untyped-decorator, unused-ignore]
def newest_tokens(  # type: ignore[no-untyped-def]
    tokens, steps, finished, newest, rows, size, BEAM: tl.constexpr, ROWS: tl.constexpr
):
    """`BeamSearch.last_tokens` of some rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    index = tl.maximum(tl.load(steps + row // BEAM, mask=inside, other=0) - 1, 0)
    done = tl.load(finished + row // BEAM, mask=inside, other=0) != 0
    token = tl.load(tokens + row * size + index, mask=inside & ~done, other=_PAD)
    tl.store(newest + row, token, mask=inside)

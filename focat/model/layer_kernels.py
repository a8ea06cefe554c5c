"""The Triton kernels of `fused_layers`. A program takes a few rows.

Random numbers come four at a time, one for each quarter of the columns; whether dropout keeps the four entries is in
the lowest bits of a byte. Where the number of columns is no power of two, those up to the next one are outside.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _random(seed, row, column, QUARTER: tl.constexpr, ROUNDS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Four random integers for each row and column of a quarter."""
    return tl.randint4x(tl.load(seed), row[:, None] * QUARTER + column[None, :], ROUNDS)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _is_kept(random, threshold):  # type: ignore[no-untyped-def]
    return random.to(tl.uint32, bitcast=True) >= threshold


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _of_column(vector, place, column, inside):  # type: ignore[no-untyped-def]
    """A vector's entries for all rows: each thread reads its own, so that none are passed between threads."""
    return tl.load(vector + place * 0 + column[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _add_part(  # type: ignore[no-untyped-def]
    x, output, bias, total, place, column, inside, keep, scale,
    DROPOUT: tl.constexpr, BIAS: tl.constexpr, TOTAL: tl.constexpr, OUTPUT: tl.constexpr,
):  # fmt: skip
    """Store one quarter of the columns of the sum, if it is needed; return it as it is stored."""
    added = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    if OUTPUT:
        value = tl.load(output + place, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            value += _of_column(bias, place, column, inside)
        if DROPOUT:
            value = tl.where(keep, value * scale, 0.0)
        added += value
    rounded = added.to(x.dtype.element_ty)
    if TOTAL:
        tl.store(total + place, rounded, mask=inside)
    return rounded.to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _norm_part(  # type: ignore[no-untyped-def]
    part, weight, bias, normalised, place, column, inside, mean, inverse_deviation
):
    scaled = (part - mean) * inverse_deviation * _of_column(weight, place, column, inside)
    scaled += _of_column(bias, place, column, inside)
    tl.store(normalised + place, scaled.to(normalised.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator, unused-ignore]
def sum_and_norm(  # type: ignore[no-untyped-def]
    x, output, output_bias, weight, bias, total, normalised, kept, means, inverse_deviations, seed, rows, scale,
    threshold, epsilon, QUARTER: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, ROUNDS: tl.constexpr,
    DROPOUT: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, TOTAL: tl.constexpr, STATISTICS: tl.constexpr,
    OUTPUT: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    real = column < QUARTER
    inside = (row < rows)[:, None] & real[None, :]
    place = row[:, None] * (4 * QUARTER) + column[None, :]
    first, second, third, fourth = row[:, None], row[:, None], row[:, None], row[:, None]
    if DROPOUT:
        first, second, third, fourth = _random(seed, row, column, QUARTER, ROUNDS)
        first, second = _is_kept(first, threshold), _is_kept(second, threshold)
        third, fourth = _is_kept(third, threshold), _is_kept(fourth, threshold)
        bits = first.to(tl.uint8) | second.to(tl.uint8) << 1 | third.to(tl.uint8) << 2 | fourth.to(tl.uint8) << 3
        tl.store(kept + row[:, None] * QUARTER + column[None, :], bits, mask=inside)
    a = _add_part(x, output, output_bias, total, place, column, inside, first, scale, DROPOUT, BIAS, TOTAL, OUTPUT)
    b = _add_part(
        x, output, output_bias, total, place + QUARTER, column + QUARTER, inside, second, scale, DROPOUT, BIAS, TOTAL,
        OUTPUT,
    )  # fmt: skip
    c = _add_part(
        x, output, output_bias, total, place + 2 * QUARTER, column + 2 * QUARTER, inside, third, scale, DROPOUT, BIAS,
        TOTAL, OUTPUT,
    )  # fmt: skip
    d = _add_part(
        x, output, output_bias, total, place + 3 * QUARTER, column + 3 * QUARTER, inside, fourth, scale, DROPOUT, BIAS,
        TOTAL, OUTPUT,
    )  # fmt: skip
    if NORM:
        sums = tl.sum(tl.where(inside, a + b + c + d, 0.0), 1)
        mean = (sums / (4 * QUARTER))[:, None]
        squares = (a - mean) * (a - mean) + (b - mean) * (b - mean)
        squares += (c - mean) * (c - mean) + (d - mean) * (d - mean)
        squares = tl.where(inside, squares, 0.0)
        inverse = tl.rsqrt(tl.sum(squares, 1) / (4 * QUARTER) + epsilon)[:, None]
        if STATISTICS:  # the backward pass needs them
            tl.store(means + row[:, None], mean, mask=(row < rows)[:, None])
            tl.store(inverse_deviations + row[:, None], inverse, mask=(row < rows)[:, None])
        _norm_part(a, weight, bias, normalised, place, column, inside, mean, inverse)
        _norm_part(b, weight, bias, normalised, place + QUARTER, column + QUARTER, inside, mean, inverse)
        _norm_part(c, weight, bias, normalised, place + 2 * QUARTER, column + 2 * QUARTER, inside, mean, inverse)
        _norm_part(d, weight, bias, normalised, place + 3 * QUARTER, column + 3 * QUARTER, inside, mean, inverse)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _read_gradient(  # type: ignore[no-untyped-def]
    gradient, other, place, inside, TOGETHER: tl.constexpr
):
    """A gradient, or the sum of two."""
    found = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
    if TOGETHER:
        found += tl.load(other + place, mask=inside, other=0.0).to(tl.float32)
    return found


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def sum_and_norm_backward(  # type: ignore[no-untyped-def]
    gradient, second_gradient, total_gradient, second_total_gradient, total, kept, means, inverse_deviations, weight,
    x_gradient, output_gradient, sums, rows, scale, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    DROPOUT: tl.constexpr, NORM: tl.constexpr, SECOND: tl.constexpr, TOTAL: tl.constexpr,
    SECOND_TOTAL: tl.constexpr, BIAS: tl.constexpr, OUTPUT: tl.constexpr,
):  # fmt: skip
    """Each program stores its sums of three gradients: of weight and bias of the norm, and of the output's bias."""
    column = tl.arange(0, COLUMNS)
    real = column < WIDTH
    of_weight = tl.zeros([ROWS, COLUMNS], tl.float32)
    of_norm = tl.zeros([ROWS, COLUMNS], tl.float32)
    of_bias = tl.zeros([ROWS, COLUMNS], tl.float32)
    scales = tl.zeros([COLUMNS], tl.float32)
    if NORM:
        scales = tl.load(weight + column, mask=real, other=0.0)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & real[None, :]
        place = row[:, None] * WIDTH + column[None, :]
        change = tl.zeros([ROWS, COLUMNS], tl.float32)
        if NORM:
            mean = tl.load(means + row, mask=row < rows, other=0.0)[:, None]
            inverse = tl.load(inverse_deviations + row, mask=row < rows, other=0.0)[:, None]
            incoming = _read_gradient(gradient, second_gradient, place, inside, SECOND)
            value = (tl.load(total + place, mask=inside, other=0.0).to(tl.float32) - mean) * inverse
            value = tl.where(inside, value, 0.0)
            of_weight += incoming * value
            of_norm += incoming
            change = incoming * scales[None, :]
            level = (tl.sum(change, 1) / WIDTH)[:, None]
            slope = (tl.sum(change * value, 1) / WIDTH)[:, None]
            change = (change - level - value * slope) * inverse
        if TOTAL:
            change += _read_gradient(total_gradient, second_total_gradient, place, inside, SECOND_TOTAL)
        tl.store(x_gradient + place, change.to(x_gradient.dtype.element_ty), mask=inside)
        if DROPOUT:
            quarter: tl.constexpr = WIDTH // 4
            together: tl.constexpr = 8 if quarter % 8 == 0 else 1  # bytes for a thread, as many as it has entries
            own = tl.max_contiguous(column % quarter, together)
            bits = tl.load(kept + row[:, None] * quarter + own[None, :], mask=inside, other=0)
            keep = (bits >> (column // quarter)[None, :] & 1) != 0
            change = tl.where(keep, change * scale, 0.0)
        if OUTPUT:
            tl.store(output_gradient + place, change.to(output_gradient.dtype.element_ty), mask=inside)
        if BIAS:
            of_bias += tl.where(inside, change, 0.0)
    place = sums + tl.program_id(0) * (3 * WIDTH) + column
    if NORM:
        tl.store(place, tl.sum(of_weight, 0), mask=real)
        tl.store(place + WIDTH, tl.sum(of_norm, 0), mask=real)
    if BIAS:
        tl.store(place + 2 * WIDTH, tl.sum(of_bias, 0), mask=real)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def mask_and_sum(  # type: ignore[no-untyped-def]
    gradient, hidden, masked, sums, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = row[:, None] * width + column[None, :]
        active = tl.load(hidden + place, mask=inside, other=0.0) > 0
        value = tl.where(active, tl.load(gradient + place, mask=inside, other=0.0), 0.0)
        tl.store(masked + place, value, mask=inside)
        total += value.to(tl.float32)
    tl.store(sums + tl.program_id(0) * width + column, tl.sum(total, 0), mask=column < width)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def column_sums(  # type: ignore[no-untyped-def]
    x, sums, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        total += tl.load(x + row[:, None] * width + column[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(sums + tl.program_id(0) * width + column, tl.sum(total, 0), mask=column < width)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def sum_rows(  # type: ignore[no-untyped-def]
    sums, first, others, rows, width, exact, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The first `exact` columns of the sum go into one tensor, the rest into another."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        total += tl.load(sums + row[:, None] * width + column[None, :], mask=inside, other=0.0)
    found = tl.sum(total, 0)
    tl.store(first + column, found, mask=column < exact)
    tl.store(others + column - exact, found.to(others.dtype.element_ty), mask=(column >= exact) & (column < width))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _embed_part(  # type: ignore[no-untyped-def]
    word, position, x, place, column, inside, real, random, threshold, scale, factor, DROPOUT: tl.constexpr
):
    value = tl.load(word + column[None, :], mask=inside, other=0.0) * factor
    value += tl.load(position + column[None, :], mask=inside, other=0.0)
    if DROPOUT:
        value = tl.where(_is_kept(random, threshold), value * scale, 0.0)
    tl.store(x + place, value.to(x.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def embed(  # type: ignore[no-untyped-def]
    tokens, positions, table, position_table, x, seed, rows, scale, threshold, factor, QUARTER: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, ROUNDS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    real = column < QUARTER
    inside = (row < rows)[:, None] & real[None, :]
    place = row[:, None] * (4 * QUARTER) + column[None, :]
    word = table + (tl.load(tokens + row, mask=row < rows, other=0) * (4 * QUARTER))[:, None]
    position = position_table + (tl.load(positions + row, mask=row < rows, other=0) * (4 * QUARTER))[:, None]
    first, second, third, fourth = row[:, None], row[:, None], row[:, None], row[:, None]
    if DROPOUT:
        first, second, third, fourth = _random(seed, row, column, QUARTER, ROUNDS)
    _embed_part(word, position, x, place, column, inside, real, first, threshold, scale, factor, DROPOUT)
    _embed_part(
        word, position, x, place + QUARTER, column + QUARTER, inside, real, second, threshold, scale, factor, DROPOUT
    )
    _embed_part(
        word, position, x, place + 2 * QUARTER, column + 2 * QUARTER, inside, real, third, threshold, scale, factor,
        DROPOUT,
    )  # fmt: skip
    _embed_part(
        word, position, x, place + 3 * QUARTER, column + 3 * QUARTER, inside, real, fourth, threshold, scale, factor,
        DROPOUT,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _spread_part(  # type: ignore[no-untyped-def]
    gradient, found, place, column, inside, random, threshold, scale, DROPOUT: tl.constexpr
):
    value = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32) * scale
    if DROPOUT:
        inside = inside & _is_kept(random, threshold)
    tl.atomic_add(found + column[None, :], value, mask=inside, sem="relaxed")


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def embed_backward(  # type: ignore[no-untyped-def]
    gradient, tokens, table_gradient, seed, rows, scale, threshold, factor, QUARTER: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, ROUNDS: tl.constexpr, DROPOUT: tl.constexpr, PADDING: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    token = tl.load(tokens + row, mask=row < rows, other=PADDING)
    inside = (token != PADDING)[:, None] & (column < QUARTER)[None, :]
    place = row[:, None] * (4 * QUARTER) + column[None, :]
    found = table_gradient + (token * (4 * QUARTER))[:, None]
    first, second, third, fourth = row[:, None], row[:, None], row[:, None], row[:, None]
    if DROPOUT:
        first, second, third, fourth = _random(seed, row, column, QUARTER, ROUNDS)
    scale *= factor
    _spread_part(gradient, found, place, column, inside, first, threshold, scale, DROPOUT)
    _spread_part(gradient, found, place + QUARTER, column + QUARTER, inside, second, threshold, scale, DROPOUT)
    _spread_part(gradient, found, place + 2 * QUARTER, column + 2 * QUARTER, inside, third, threshold, scale, DROPOUT)
    _spread_part(gradient, found, place + 3 * QUARTER, column + 3 * QUARTER, inside, fourth, threshold, scale, DROPOUT)

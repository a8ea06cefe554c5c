"""The Triton kernels of `fused_layers`. A program takes a few rows, those of the residual sum in four quarters."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _add_part(  # type: ignore[no-untyped-def]
    x, output, total, kept, place, inside, random, threshold, scale, DROPOUT: tl.constexpr, TOTAL: tl.constexpr
):
    """Store one quarter of the columns of the sum, if it is needed; return it as it is stored."""
    value = tl.load(output + place, mask=inside, other=0.0).to(tl.float32)
    if DROPOUT:
        keep = random.to(tl.uint32, bitcast=True) >= threshold
        tl.store(kept + place, keep, mask=inside)
        value = tl.where(keep, value * scale, 0.0)
    added = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) + value
    rounded = added.to(x.dtype.element_ty)
    if TOTAL:
        tl.store(total + place, rounded, mask=inside)
    return rounded.to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _norm_part(  # type: ignore[no-untyped-def]
    part, weight, bias, normalised, place, column, inside, mean, inverse_deviation
):
    scaled = (part - mean) * inverse_deviation * tl.load(weight + column)[None, :] + tl.load(bias + column)[None, :]
    tl.store(normalised + place, scaled.to(normalised.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator, unused-ignore]
def sum_and_norm(  # type: ignore[no-untyped-def]
    x, output, weight, bias, total, normalised, kept, means, inverse_deviations, seed, rows, scale, threshold,
    epsilon, QUARTER: tl.constexpr, ROWS: tl.constexpr, ROUNDS: tl.constexpr, DROPOUT: tl.constexpr,
    NORM: tl.constexpr, TOTAL: tl.constexpr, STATISTICS: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, QUARTER)
    inside = (row < rows)[:, None]
    place = row[:, None] * (4 * QUARTER) + column[None, :]
    first, second, third, fourth = row[:, None], row[:, None], row[:, None], row[:, None]
    if DROPOUT:  # four random numbers at a time, one for each quarter of the columns
        where = row[:, None] * QUARTER + column[None, :]
        first, second, third, fourth = tl.randint4x(tl.load(seed), where, ROUNDS)
    a = _add_part(x, output, total, kept, place, inside, first, threshold, scale, DROPOUT, TOTAL)
    b = _add_part(x, output, total, kept, place + QUARTER, inside, second, threshold, scale, DROPOUT, TOTAL)
    c = _add_part(x, output, total, kept, place + 2 * QUARTER, inside, third, threshold, scale, DROPOUT, TOTAL)
    d = _add_part(x, output, total, kept, place + 3 * QUARTER, inside, fourth, threshold, scale, DROPOUT, TOTAL)
    if NORM:
        mean = (tl.sum(a + b + c + d, 1) / (4 * QUARTER))[:, None]
        squares = (a - mean) * (a - mean) + (b - mean) * (b - mean)
        squares += (c - mean) * (c - mean) + (d - mean) * (d - mean)
        inverse = tl.rsqrt(tl.sum(squares, 1) / (4 * QUARTER) + epsilon)
        if STATISTICS:  # the backward pass needs them
            tl.store(means + row, tl.sum(mean, 1), mask=row < rows)
            tl.store(inverse_deviations + row, inverse, mask=row < rows)
        inverse = inverse[:, None]
        _norm_part(a, weight, bias, normalised, place, column, inside, mean, inverse)
        _norm_part(b, weight, bias, normalised, place + QUARTER, column + QUARTER, inside, mean, inverse)
        _norm_part(c, weight, bias, normalised, place + 2 * QUARTER, column + 2 * QUARTER, inside, mean, inverse)
        _norm_part(d, weight, bias, normalised, place + 3 * QUARTER, column + 3 * QUARTER, inside, mean, inverse)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _read_part(  # type: ignore[no-untyped-def]
    gradient, total, weight, place, column, inside, mean, inverse_deviation
):
    """Gradient and normalised value of a quarter, and the gradient times the weight."""
    incoming = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
    value = (tl.load(total + place, mask=inside, other=0.0).to(tl.float32) - mean) * inverse_deviation
    return incoming, value, incoming * tl.load(weight + column)[None, :]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _write_part(  # type: ignore[no-untyped-def]
    total_gradient, kept, x_gradient, output_gradient, place, inside, change, scale, DROPOUT: tl.constexpr,
    TOTAL: tl.constexpr,
):  # fmt: skip
    if TOTAL:
        change += tl.load(total_gradient + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(x_gradient + place, change.to(x_gradient.dtype.element_ty), mask=inside)
    if DROPOUT:
        change = tl.where(tl.load(kept + place, mask=inside, other=0), change * scale, 0.0)
    tl.store(output_gradient + place, change.to(output_gradient.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def sum_and_norm_backward(  # type: ignore[no-untyped-def]
    total_gradient, gradient, total, kept, means, inverse_deviations, weight, x_gradient, output_gradient, sums,
    rows, scale, QUARTER: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr, NORM: tl.constexpr,
    TOTAL: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, QUARTER)
    weight_a, weight_b, weight_c, weight_d = (
        tl.zeros([ROWS, QUARTER], tl.float32), tl.zeros([ROWS, QUARTER], tl.float32),
        tl.zeros([ROWS, QUARTER], tl.float32), tl.zeros([ROWS, QUARTER], tl.float32),
    )  # fmt: skip
    bias_a, bias_b, bias_c, bias_d = weight_a, weight_b, weight_c, weight_d
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None]
        place = row[:, None] * (4 * QUARTER) + column[None, :]
        a, b, c, d = (
            tl.zeros([ROWS, QUARTER], tl.float32), tl.zeros([ROWS, QUARTER], tl.float32),
            tl.zeros([ROWS, QUARTER], tl.float32), tl.zeros([ROWS, QUARTER], tl.float32),
        )  # fmt: skip
        if NORM:
            mean = tl.load(means + row, mask=row < rows, other=0.0)[:, None]
            inverse = tl.load(inverse_deviations + row, mask=row < rows, other=0.0)[:, None]
            raw_a, value_a, a = _read_part(gradient, total, weight, place, column, inside, mean, inverse)
            raw_b, value_b, b = _read_part(
                gradient, total, weight, place + QUARTER, column + QUARTER, inside, mean, inverse
            )
            raw_c, value_c, c = _read_part(
                gradient, total, weight, place + 2 * QUARTER, column + 2 * QUARTER, inside, mean, inverse
            )
            raw_d, value_d, d = _read_part(
                gradient, total, weight, place + 3 * QUARTER, column + 3 * QUARTER, inside, mean, inverse
            )
            weight_a += raw_a * value_a
            weight_b += raw_b * value_b
            weight_c += raw_c * value_c
            weight_d += raw_d * value_d
            bias_a += raw_a
            bias_b += raw_b
            bias_c += raw_c
            bias_d += raw_d
            level = (tl.sum(a + b + c + d, 1) / (4 * QUARTER))[:, None]
            slope = (tl.sum(a * value_a + b * value_b + c * value_c + d * value_d, 1) / (4 * QUARTER))[:, None]
            a = (a - level - value_a * slope) * inverse
            b = (b - level - value_b * slope) * inverse
            c = (c - level - value_c * slope) * inverse
            d = (d - level - value_d * slope) * inverse
        _write_part(total_gradient, kept, x_gradient, output_gradient, place, inside, a, scale, DROPOUT, TOTAL)
        _write_part(
            total_gradient, kept, x_gradient, output_gradient, place + QUARTER, inside, b, scale, DROPOUT, TOTAL
        )
        _write_part(
            total_gradient, kept, x_gradient, output_gradient, place + 2 * QUARTER, inside, c, scale, DROPOUT, TOTAL
        )
        _write_part(
            total_gradient, kept, x_gradient, output_gradient, place + 3 * QUARTER, inside, d, scale, DROPOUT, TOTAL
        )
    if NORM:
        own = sums + tl.program_id(0) * (8 * QUARTER) + column
        tl.store(own, tl.sum(weight_a, 0))
        tl.store(own + QUARTER, tl.sum(weight_b, 0))
        tl.store(own + 2 * QUARTER, tl.sum(weight_c, 0))
        tl.store(own + 3 * QUARTER, tl.sum(weight_d, 0))
        tl.store(own + 4 * QUARTER, tl.sum(bias_a, 0))
        tl.store(own + 5 * QUARTER, tl.sum(bias_b, 0))
        tl.store(own + 6 * QUARTER, tl.sum(bias_c, 0))
        tl.store(own + 7 * QUARTER, tl.sum(bias_d, 0))


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

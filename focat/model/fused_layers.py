"""What surrounds the matrix products of a layer in training, in few passes over memory, for GPUs.

`add_dropout_norm`: dropout, the residual sum and layer normalisation. `linear_relu`: the first half of a feed-forward
block. Backward passes also add up the gradients of weights and biases while a row is at hand. `Residual` and
`FeedForward` have the same in plain torch, for all other devices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

try:
    import triton
    import triton.language as tl
except ImportError:  # a build of torch without GPUs
    triton = None

_ROWS = 4  # that a program holds at a time
_BACKWARD_ROWS = 1
_BACKWARD_WARPS = 2
_WARPS = 4
_PROGRAMS = 2112  # of a backward pass, each with sums of its own: 16 on each multiprocessor of a large GPU
_ROUNDS = 7  # of Philox; the fewest that pass all tests of randomness (Salmon et al., 2011)


def has_fused_layers(x: Tensor) -> bool:
    """Whether the kernels can compute with tensors such as x, (…, width)."""
    quarter = x.shape[-1] // 4
    return triton is not None and x.is_cuda and x.dtype == torch.bfloat16 and quarter & (quarter - 1) == 0


def add_dropout_norm(
    x: Tensor, output: Tensor, rate: float, norm: nn.LayerNorm | None = None
) -> tuple[Tensor, Tensor | None]:
    """x + dropout(output), and its layer normalisation if asked for; both in the shape and type of x."""
    weight, bias, epsilon = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    total, normalised, *_ = _add_dropout_norm(x.contiguous(), output.contiguous(), weight, bias, rate, epsilon)
    return total, None if norm is None else normalised


def linear_relu(x: Tensor, layer: nn.Linear) -> Tensor:
    """relu(layer(x)), (…, width of the layer)."""
    hidden: Tensor = _linear_relu(x.reshape(-1, x.shape[-1]), layer.weight, layer.bias)
    return hidden.view(*x.shape[:-1], -1)


@torch.library.custom_op("focat::add_dropout_norm", mutates_args=())
def _add_dropout_norm(
    x: Tensor, output: Tensor, weight: Tensor | None, bias: Tensor | None, rate: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    outputs = _empty_outputs(x, weight is not None, rate > 0)
    seed = torch.randint(1 << 31, (1,), device=x.device) if rate > 0 else x  # no seed is read without dropout
    _sum_and_norm[(triton.cdiv(rows, _ROWS),)](
        x, output, weight, bias, *outputs, seed, rows, 1 / (1 - rate),
        int(rate * (1 << 32)), epsilon,
        QUARTER=width // 4, ROWS=_ROWS, ROUNDS=_ROUNDS, DROPOUT=rate > 0, NORM=weight is not None, num_warps=_WARPS,
    )  # fmt: skip
    return outputs


def _empty_outputs(x: Tensor, norm: bool, dropout: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Sum, normalised sum, which entries were kept, mean and inverse deviation of each row; empty where not needed."""
    rows = x.numel() // x.shape[-1] if norm else 0
    return (
        torch.empty_like(x),
        torch.empty_like(x) if norm else x.new_empty(0),
        x.new_empty(x.shape if dropout else 0, dtype=torch.bool),
        x.new_empty(rows, dtype=torch.float32),
        x.new_empty(rows, dtype=torch.float32),
    )


@_add_dropout_norm.register_fake
def _(
    x: Tensor, output: Tensor, weight: Tensor | None, bias: Tensor | None, rate: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _empty_outputs(x, weight is not None, rate > 0)


@torch.library.custom_op("focat::add_dropout_norm_backward", mutates_args=())
def _add_dropout_norm_backward(
    total_gradient: Tensor | None, gradient: Tensor | None, total: Tensor, kept: Tensor, mean: Tensor,
    inverse_deviation: Tensor, weight: Tensor | None, rate: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    rows, width = total.numel() // total.shape[-1], total.shape[-1]
    x_gradient, output_gradient = torch.empty_like(total), torch.empty_like(total)
    sums = total.new_empty(_PROGRAMS if weight is not None else 0, 2, width, dtype=torch.float32)
    _sum_and_norm_backward[(_PROGRAMS,)](
        total_gradient, gradient, total, kept, mean, inverse_deviation, weight, x_gradient, output_gradient, sums,
        rows, 1 / (1 - rate), QUARTER=width // 4, ROWS=_BACKWARD_ROWS, DROPOUT=rate > 0,
        NORM=gradient is not None, TOTAL=total_gradient is not None, num_warps=_BACKWARD_WARPS,
    )  # fmt: skip
    return x_gradient, output_gradient, sums.sum(0)


@_add_dropout_norm_backward.register_fake
def _(
    total_gradient: Tensor | None, gradient: Tensor | None, total: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    sums = total.new_empty(2, total.shape[-1], dtype=torch.float32)
    return torch.empty_like(total), torch.empty_like(total), sums


def _save_sum(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    total, _, kept, mean, inverse_deviation = output
    ctx.save_for_backward(total, kept, mean, inverse_deviation, inputs[2])
    ctx.rate = inputs[4]
    ctx.set_materialize_grads(False)


def _sum_gradients(
    ctx: Any, total_gradient: Tensor | None, gradient: Tensor | None, *_: None
) -> tuple[Tensor | None, ...]:
    total, kept, mean, inverse_deviation, weight = ctx.saved_tensors
    gradients = [None if each is None else each.contiguous() for each in (total_gradient, gradient)]
    x_gradient, output_gradient, sums = _add_dropout_norm_backward(
        *gradients, total, kept, mean, inverse_deviation, weight, ctx.rate
    )
    normalisation = (None, None) if gradient is None else (sums[0], sums[1])
    return x_gradient, output_gradient, *normalisation, None, None


_add_dropout_norm.register_autograd(_sum_gradients, setup_context=_save_sum)


@torch.library.custom_op("focat::linear_relu", mutates_args=())
def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.T)


@_linear_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@torch.library.custom_op("focat::relu_backward", mutates_args=())
def _relu_backward(gradient: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before the activation, and its sum over all rows, which is that of the bias."""
    rows, width = hidden.shape
    masked = torch.empty_like(hidden)
    columns = min(512, width)
    programs = max(1, _PROGRAMS // 4 * columns // width)
    sums = hidden.new_empty(programs, width, dtype=torch.float32)
    _mask_and_sum[(programs, triton.cdiv(width, columns))](
        gradient, hidden, masked, sums, rows, width, ROWS=_ROWS, COLUMNS=columns, num_warps=_WARPS
    )
    return masked, sums.sum(0)


@_relu_backward.register_fake
def _(gradient: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(hidden), hidden.new_empty(hidden.shape[1], dtype=torch.float32)


def _save_linear(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _linear_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, hidden = ctx.saved_tensors
    masked, bias_gradient = _relu_backward(gradient.contiguous(), hidden)
    return masked @ weight, masked.T @ x, bias_gradient.to(weight.dtype)


_linear_relu.register_autograd(_linear_gradients, setup_context=_save_linear)


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _add_part(  # type: ignore[no-untyped-def]
        x, output, total, kept, place, inside, random, threshold, scale, DROPOUT: tl.constexpr
    ):
        """Store one quarter of the columns of the sum; return it as it was stored."""
        value = tl.load(output + place, mask=inside, other=0.0).to(tl.float32)
        if DROPOUT:
            keep = random.to(tl.uint32, bitcast=True) >= threshold
            tl.store(kept + place, keep, mask=inside)
            value = tl.where(keep, value * scale, 0.0)
        added = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) + value
        rounded = added.to(total.dtype.element_ty)
        tl.store(total + place, rounded, mask=inside)
        return rounded.to(tl.float32)

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _norm_part(  # type: ignore[no-untyped-def]
        part, weight, bias, normalised, place, column, inside, mean, inverse_deviation
    ):
        scaled = (part - mean) * inverse_deviation * tl.load(weight + column)[None, :] + tl.load(bias + column)[None, :]
        tl.store(normalised + place, scaled.to(normalised.dtype.element_ty), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _sum_and_norm(  # type: ignore[no-untyped-def]
        x, output, weight, bias, total, normalised, kept, means, inverse_deviations, seed, rows, scale, threshold,
        epsilon, QUARTER: tl.constexpr, ROWS: tl.constexpr, ROUNDS: tl.constexpr, DROPOUT: tl.constexpr,
        NORM: tl.constexpr,
    ):  # fmt: skip
        row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, QUARTER)
        inside = (row < rows)[:, None]
        place = row[:, None] * (4 * QUARTER) + column[None, :]
        first, second, third, fourth = row[:, None], row[:, None], row[:, None], row[:, None]
        if DROPOUT:  # four random numbers at a time, one for each quarter of the columns
            where = row[:, None] * QUARTER + column[None, :]
            first, second, third, fourth = tl.randint4x(tl.load(seed), where, ROUNDS)
        a = _add_part(x, output, total, kept, place, inside, first, threshold, scale, DROPOUT)
        b = _add_part(x, output, total, kept, place + QUARTER, inside, second, threshold, scale, DROPOUT)
        c = _add_part(x, output, total, kept, place + 2 * QUARTER, inside, third, threshold, scale, DROPOUT)
        d = _add_part(x, output, total, kept, place + 3 * QUARTER, inside, fourth, threshold, scale, DROPOUT)
        if NORM:
            mean = (tl.sum(a + b + c + d, 1) / (4 * QUARTER))[:, None]
            squares = (a - mean) * (a - mean) + (b - mean) * (b - mean)
            squares += (c - mean) * (c - mean) + (d - mean) * (d - mean)
            inverse = tl.rsqrt(tl.sum(squares, 1) / (4 * QUARTER) + epsilon)
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
    def _sum_and_norm_backward(  # type: ignore[no-untyped-def]
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
    def _mask_and_sum(  # type: ignore[no-untyped-def]
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

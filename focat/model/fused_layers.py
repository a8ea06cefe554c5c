"""What surrounds the matrix products of a layer, in few passes over memory, for GPUs.

`add_dropout_norm`: dropout, the residual sum and layer normalisation. `linear_relu`: the first half of a feed-forward
block. Backward passes also add up the gradients of weights and biases while a row is at hand. `add_norm` is for
translation, without a gradient. `Residual` and `FeedForward` have the same in plain torch, for all other devices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from focat.hardware import runs_kernels

_ROWS = 4  # that a program holds at a time
_BACKWARD_ROWS = 1
_BACKWARD_WARPS = 2
_WARPS = 4
_PROGRAMS = 2112  # at most, of a backward pass, each with sums of its own: 16 on each multiprocessor of a large GPU
_ROUNDS = 7  # of Philox; the fewest that pass all tests of randomness (Salmon et al., 2011)


def has_fused_layers(x: Tensor) -> bool:
    """Whether the kernels can compute with tensors such as x, (…, width)."""
    width = x.shape[-1]
    return runs_kernels(x.device) and x.dtype == torch.bfloat16 and width >= 4 and width & (width - 1) == 0


def add_norm(x: Tensor, output: Tensor, norm: nn.LayerNorm, with_sum: bool) -> tuple[Tensor, Tensor]:
    """x + output and its layer normalisation, or the latter twice, in the shape and type of x; there is no gradient."""
    from focat.model import layer_kernels  # imports Triton, some 80 MB

    x, output = x.contiguous(), output.contiguous()
    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    total, normalised = torch.empty_like(x) if with_sum else None, torch.empty_like(x)
    layer_kernels.sum_and_norm[(-(-rows // _ROWS),)](
        x, output, norm.weight, norm.bias, total, normalised, None, None, None, None, rows, 1.0, 0, norm.eps,
        QUARTER=width // 4, ROWS=_ROWS, ROUNDS=_ROUNDS, DROPOUT=False, NORM=True, TOTAL=with_sum, STATISTICS=False,
        num_warps=_WARPS,
    )  # fmt: skip
    return normalised if total is None else total, normalised


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
    from focat.model import layer_kernels  # imports Triton, some 80 MB

    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    outputs = _empty_outputs(x, weight is not None, rate > 0)
    seed = torch.randint(1 << 31, (1,), device=x.device) if rate > 0 else x  # no seed is read without dropout
    layer_kernels.sum_and_norm[(-(-rows // _ROWS),)](
        x, output, weight, bias, *outputs, seed, rows, 1 / (1 - rate),
        int(rate * (1 << 32)), epsilon,
        QUARTER=width // 4, ROWS=_ROWS, ROUNDS=_ROUNDS, DROPOUT=rate > 0, NORM=weight is not None,
        TOTAL=True, STATISTICS=True, num_warps=_WARPS,
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
    from focat.model import layer_kernels

    rows, width = total.numel() // total.shape[-1], total.shape[-1]
    x_gradient, output_gradient = torch.empty_like(total), torch.empty_like(total)
    programs = min(_PROGRAMS, -(-rows // _BACKWARD_ROWS))
    sums = total.new_empty(programs if weight is not None else 0, 2, width, dtype=torch.float32)
    layer_kernels.sum_and_norm_backward[(programs,)](
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
    from focat.model import layer_kernels

    rows, width = hidden.shape
    masked = torch.empty_like(hidden)
    columns = min(512, 1 << (width - 1).bit_length())  # a power of two, of which some may be outside
    programs = max(1, min(_PROGRAMS // 4 * columns // width, -(-rows // _ROWS)))
    sums = hidden.new_empty(programs, width, dtype=torch.float32)
    layer_kernels.mask_and_sum[(programs, -(-width // columns))](
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

"""What surrounds the matrix products of a layer, in few passes over memory, for GPUs.

`add_dropout_norm`: bias, dropout, the residual sum and layer normalisation; `branch_norm`: normalisation alone.
`linear_relu`: the first half of a feed-forward block. `embed`: embeddings of tokens and positions, and dropout.
Backward passes also add up the gradients of weights and biases while a row is at hand. `add_norm` is for translation,
without a gradient. `Residual`, `FeedForward` and `sum_embeddings` have the same in plain torch, for all other devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.corpus.vocabulary import PAD
from focat.hardware import runs_kernels

_ROWS = 4  # that a program holds at a time
_WARPS = 4
_PROGRAMS = 1056  # at most, of a backward pass, each with sums of its own: 8 on each multiprocessor of a large GPU
_NORM_PROGRAMS = 2112  # the same of normalisation, where a row is for one warp: 16 on each
_SUM_ROWS, _SUM_COLUMNS, _SUM_PROGRAMS = 16, 128, 128  # of a sum of columns: rows at a time, and parts of all rows
_LAST_ROWS, _LAST_COLUMNS, _LAST_WARPS = 256, 32, 8  # of the sum of such sums
_SEEDS = 64  # that are drawn together
_ROUNDS = 7  # of Philox; the fewest that pass all tests of randomness (Salmon et al., 2011)


def has_fused_layers(x: Tensor) -> bool:
    """Whether the kernels can compute with tensors such as x, (…, width)."""
    return runs_kernels(x.device) and x.dtype == torch.bfloat16 and x.shape[-1] % 4 == 0


def add_norm(x: Tensor, output: Tensor, norm: nn.LayerNorm, with_sum: bool) -> tuple[Tensor, Tensor]:
    """x + output and its layer normalisation, or the latter twice, in the shape and type of x; there is no gradient."""
    from focat.model import layer_kernels  # imports Triton, some 80 MB

    x, output = x.contiguous(), output.contiguous()
    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    total, normalised = torch.empty_like(x) if with_sum else None, torch.empty_like(x)
    layer_kernels.sum_and_norm[(-(-rows // _ROWS),)](
        x, output, None, norm.weight, norm.bias, total, normalised, None, None, None, None, rows, 1.0, 0, norm.eps,
        **_widths(width), ROWS=_ROWS, ROUNDS=_ROUNDS, DROPOUT=False, NORM=True, BIAS=False, TOTAL=with_sum,
        STATISTICS=False, OUTPUT=True, num_warps=_WARPS,
    )  # fmt: skip
    return normalised if total is None else total, normalised


def add_dropout_norm(
    x: Tensor, output: Tensor, bias: Tensor | None, rate: float, norm: nn.LayerNorm | None = None, post: bool = False
) -> tuple[Tensor, Tensor]:
    """The residual sum x + dropout(output + bias), and its layer normalisation, both in the shape and type of x.

    Returns:
        What the next residual connection adds to, and what the next block reads: the sum and its normalisation.
        Without a norm, both are the sum; with `post`, both are the normalisation. They share their memory then, but
        their gradients come in apart, so that the kernel adds them up.
    """
    weight, norm_bias, epsilon = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    found: tuple[Tensor, Tensor] = _AddDropoutNorm.apply(  # type: ignore[no-untyped-call]
        x.contiguous(), output.contiguous(), bias, weight, norm_bias, rate, epsilon, post
    )
    return found


def branch_norm(x: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """x, for the next residual connection to add to, and its layer normalisation, for the block to read."""
    found: tuple[Tensor, Tensor] = _AddDropoutNorm.apply(  # type: ignore[no-untyped-call]
        x.contiguous(), None, None, norm.weight, norm.bias, 0.0, norm.eps, False
    )
    return found


def linear_relu(x: Tensor, layer: nn.Linear) -> Tensor:
    """relu(layer(x)), (…, width of the layer)."""
    hidden: Tensor = _LinearRelu.apply(x.reshape(-1, x.shape[-1]), layer.weight, layer.bias)  # type: ignore[no-untyped-call]
    return hidden.view(*x.shape[:-1], -1)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x, (…, width), times the transposed weight, plus the bias; by kernels where gradients are in half precision."""
    if not (has_fused_layers(x) and weight.dtype == x.dtype):
        return F.linear(x, weight, bias)
    output: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return output.view(*x.shape[:-1], -1)


def sum_columns(x: Tensor, precision: torch.dtype) -> Tensor:
    """The sum over all rows of x, (rows, width)."""
    from focat.model import layer_kernels

    rows, width = x.shape
    programs = min(_SUM_PROGRAMS, -(-rows // _SUM_ROWS))
    sums = x.new_empty(programs, width, dtype=torch.float32)
    layer_kernels.column_sums[(programs, -(-width // _SUM_COLUMNS))](
        x, sums, rows, width, ROWS=_SUM_ROWS, COLUMNS=_SUM_COLUMNS, num_warps=_WARPS
    )
    return _sum_rows(sums, 0, precision)[1]


def embed(tokens: Tensor, positions: Tensor, table: Tensor, position_table: Tensor, rate: float) -> Tensor:
    """dropout(table[tokens] · √width + position_table[positions]) in bfloat16; PAD has no gradient.

    Args:
        tokens, positions: integers, of the same shape.
        table: (vocabulary, width) in float32.
        position_table: (positions, width) in float32.
        rate: of dropout.

    Returns:
        (…, width).
    """
    found: Tensor = _Embed.apply(tokens.contiguous(), positions.contiguous(), table, position_table, rate)  # type: ignore[no-untyped-call]
    return found


class _AddDropoutNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        output: Tensor | None,
        bias: Tensor | None,
        weight: Tensor | None,
        norm_bias: Tensor | None,
        rate: float,
        epsilon: float,
        post: bool,
    ) -> tuple[Tensor, Tensor]:
        from focat.model import layer_kernels  # imports Triton, some 80 MB

        norm, dropout, width = weight is not None, rate > 0, x.shape[-1]
        rows = x.numel() // width
        total = x.view_as(x) if output is None else torch.empty_like(x)
        normalised = torch.empty_like(x) if norm else total
        kept = x.new_empty(rows * width // 4 if dropout else 0, dtype=torch.uint8)  # four entries in a byte
        mean, inverse_deviation = x.new_empty(2, rows if norm else 0, dtype=torch.float32)
        layer_kernels.sum_and_norm[(-(-rows // _ROWS),)](
            x, output, bias, weight, norm_bias, total, normalised, kept, mean, inverse_deviation, _seed(x, rate), rows,
            *_dropout(rate), epsilon,
            **_widths(width), ROWS=_ROWS, ROUNDS=_ROUNDS, DROPOUT=dropout, NORM=norm, BIAS=bias is not None,
            TOTAL=output is not None, STATISTICS=True, OUTPUT=output is not None, num_warps=_WARPS,
        )  # fmt: skip
        ctx.save_for_backward(x if output is None else total, kept, mean, inverse_deviation, weight)
        ctx.rate, ctx.post, ctx.bias_type = rate, post and norm, None if bias is None else bias.dtype
        ctx.adds = output is not None
        ctx.set_materialize_grads(False)
        first = normalised if ctx.post else total
        return first, normalised if first is not normalised else first.view_as(first)

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> tuple[Tensor | None, ...]:
        from focat.model import layer_kernels

        total, kept, mean, inverse_deviation, weight = ctx.saved_tensors
        norm = weight is not None
        if ctx.post or not norm:  # both are gradients of the same
            one, other = (first, second) if first is not None else (second, first)
            of_norm_gradients, of_total = ((one, other), (None, None)) if norm else ((None, None), (one, other))
        else:
            of_norm_gradients, of_total = (second, None), (first, None)
        norm = of_norm_gradients[0] is not None
        gradients = [None if each is None else each.contiguous() for each in (*of_norm_gradients, *of_total)]
        rows, width = total.numel() // total.shape[-1], total.shape[-1]
        columns = 1 << (width - 1).bit_length()
        x_gradient, output_gradient = torch.empty_like(total), torch.empty_like(total) if ctx.adds else None
        programs = min(_NORM_PROGRAMS, rows)
        sums = total.new_empty(programs if norm or ctx.bias_type else 0, 3, width, dtype=torch.float32)
        layer_kernels.sum_and_norm_backward[(programs,)](
            *gradients, total, kept, mean, inverse_deviation, weight, x_gradient, output_gradient, sums, rows,
            _dropout(ctx.rate)[0],
            WIDTH=width, COLUMNS=columns, ROWS=1, DROPOUT=ctx.rate > 0, NORM=norm,
            SECOND=of_norm_gradients[1] is not None, TOTAL=of_total[0] is not None,
            SECOND_TOTAL=of_total[1] is not None, BIAS=ctx.bias_type is not None, OUTPUT=ctx.adds,
            num_warps=max(1, columns // 1024),
        )  # fmt: skip
        of_norm: tuple[Tensor | None, ...] = (None, None)
        of_bias = None
        if len(sums):
            exact, of_bias = _sum_rows(sums.view(programs, -1), 2 * width, ctx.bias_type or total.dtype)
            of_norm = (exact[:width], exact[width:]) if norm else of_norm
        return x_gradient, output_gradient, of_bias if ctx.bias_type else None, *of_norm, *(None, None, None)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.with_bias = bias is not None
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_bias = sum_columns(gradient, weight.dtype) if ctx.with_bias else None
        return gradient @ weight, gradient.T @ x if ctx.needs_input_grad[1] else None, of_bias


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        hidden = torch._addmm_activation(bias, x, weight.T)
        ctx.save_for_backward(x, weight, hidden)
        return hidden

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from focat.model import layer_kernels

        x, weight, hidden = ctx.saved_tensors
        rows, width = hidden.shape
        masked = torch.empty_like(hidden)  # the gradient before the activation; its sum is that of the bias
        columns = min(512, 1 << (width - 1).bit_length())  # a power of two, of which some may be outside
        programs = max(1, min(_PROGRAMS // 2 * columns // width, -(-rows // _ROWS)))
        sums = hidden.new_empty(programs, width, dtype=torch.float32)
        layer_kernels.mask_and_sum[(programs, -(-width // columns))](
            gradient.contiguous(), hidden, masked, sums, rows, width, ROWS=_ROWS, COLUMNS=columns, num_warps=_WARPS
        )
        of_weight = masked.T @ x if ctx.needs_input_grad[1] else None
        return masked @ weight, of_weight, _sum_rows(sums, 0, weight.dtype)[1]


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, positions: Tensor, table: Tensor, position_table: Tensor, rate: float
    ) -> Tensor:
        from focat.model import layer_kernels

        width = table.shape[1]
        x = table.new_empty(*tokens.shape, width, dtype=torch.bfloat16)
        seed = _seed(table, rate)
        layer_kernels.embed[(-(-tokens.numel() // _ROWS),)](
            tokens, positions, table, position_table, x, seed, tokens.numel(), *_dropout(rate), width**0.5,
            **_widths(width), ROWS=_ROWS, ROUNDS=_ROUNDS, DROPOUT=rate > 0, num_warps=_WARPS,
        )  # fmt: skip
        ctx.save_for_backward(tokens, seed)
        ctx.rate, ctx.shape = rate, table.shape
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from focat.model import layer_kernels

        tokens, seed = ctx.saved_tensors
        width = ctx.shape[1]
        found = gradient.new_zeros(ctx.shape, dtype=torch.float32)
        layer_kernels.embed_backward[(tokens.numel(),)](
            gradient.contiguous(), tokens, found, seed, tokens.numel(), *_dropout(ctx.rate), width**0.5,
            **_widths(width), ROWS=1, ROUNDS=_ROUNDS, DROPOUT=ctx.rate > 0, PADDING=PAD, num_warps=_WARPS,
        )  # fmt: skip
        return None, None, found, None, None


def _sum_rows(sums: Tensor, exact: int, precision: torch.dtype) -> tuple[Tensor, Tensor]:
    """The sum of the rows, (programs, width), in float32 for the first `exact` columns, in `precision` for others."""
    from focat.model import layer_kernels

    rows, width = sums.shape
    first, others = sums.new_empty(exact), sums.new_empty(width - exact, dtype=precision)
    layer_kernels.sum_rows[(-(-width // _LAST_COLUMNS),)](
        sums, first, others, rows, width, exact, ROWS=_LAST_ROWS, COLUMNS=_LAST_COLUMNS, num_warps=_LAST_WARPS
    )
    return first, others


def _seed(x: Tensor, rate: float) -> Tensor:
    """A random number on the device of x; without dropout none is read."""
    if rate == 0:
        return x.new_empty(0)
    if _seeds:
        return next(_seeds[-1])
    return torch.randint(1 << 31, (1,), device=x.device)


_seeds: list[Iterator[Tensor]] = []  # drawn beforehand; of the innermost context last


@contextmanager
def drawn_seeds(device: torch.device) -> Iterator[None]:
    """Draw the seeds of all dropout in a forward pass together, in one launch; `_SEEDS` at a time."""

    def seeds() -> Iterator[Tensor]:
        while True:
            drawn = torch.randint(1 << 31, (_SEEDS, 2), device=device)
            yield from drawn[:, :1].unbind(0)  # 16 bytes apart, as kernels like pointers to be

    _seeds.append(seeds())
    try:
        yield
    finally:
        _seeds.pop()


def _dropout(rate: float) -> tuple[float, int]:
    """The factor of what is kept, and the least random integer that keeps an entry."""
    return 1 / (1 - rate), int(rate * (1 << 32))


def _widths(width: int) -> dict[str, int]:
    """A quarter of the columns, and the power of two that holds it."""
    quarter = width // 4
    return {"QUARTER": quarter, "COLUMNS": 1 << (quarter - 1).bit_length()}

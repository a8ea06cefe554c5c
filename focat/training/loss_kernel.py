"""The losses of a chunk and their gradient in one pass over the logits, for GPUs; elsewhere, plain torch.

A row of logits is read once, stays in registers, and is overwritten by its gradient, for the least memory traffic.
`objective.losses_and_gradient` is the reference that it agrees with.
"""

from __future__ import annotations

import torch
from torch import Tensor

from focat.corpus.vocabulary import PAD
from focat.training.objective import Kernel, losses_and_gradient

try:
    import triton
    import triton.language as tl
except ImportError:  # a build of torch without GPUs
    triton = None

_WIDEST = 1 << 16  # entries of a row that the registers of one block can hold


def fastest_kernel(device: torch.device, vocabulary: int, compiled: bool) -> Kernel:
    """The fastest implementation of `losses_and_gradient` for this device and vocabulary."""
    if triton is not None and device.type == "cuda" and vocabulary <= _WIDEST:
        return fused_losses_and_gradient
    return torch.compile(losses_and_gradient, dynamic=True) if compiled else losses_and_gradient


def fused_losses_and_gradient(
    logits: Tensor, labels: Tensor, weights: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as `losses_and_gradient`; the gradient takes the place of the logits."""
    tokens, vocabulary = logits.shape
    smoothed, plain = (torch.empty(tokens, device=logits.device) for _ in range(2))
    block = triton.next_power_of_2(vocabulary)
    _one_row[(tokens,)](
        logits,
        labels,
        weights,
        smoothed,
        plain,
        logits.stride(0),
        vocabulary,
        smoothing,
        PAD,
        block,
        num_warps=min(32, max(4, block // 1024)),
    )
    return smoothed, plain, logits


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _one_row(  # type: ignore[no-untyped-def]
        logits,
        labels,
        weights,
        smoothed,
        plain,
        stride,
        vocabulary,
        smoothing,
        PADDING: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, BLOCK)
        inside = column < vocabulary
        place = logits + row * stride + column
        label = tl.load(labels + row)
        values = tl.load(place, mask=inside, other=-float("inf")).to(tl.float32)
        highest = tl.max(values, 0)
        shares = tl.exp(values - highest)
        total = tl.sum(shares, 0)
        log_total = highest + tl.log(total)
        mean = tl.sum(tl.where(inside, values, 0.0), 0) / vocabulary
        loss = log_total - tl.sum(tl.where(column == label, values, 0.0), 0)
        real = tl.where(label == PADDING, 0.0, 1.0)
        tl.store(plain + row, loss * real)
        tl.store(smoothed + row, ((1 - smoothing) * loss + smoothing * (log_total - mean)) * real)
        wanted = tl.where(column == label, 1 - smoothing, 0.0) + smoothing / vocabulary
        gradient = (shares / total - wanted) * tl.load(weights + row)
        tl.store(place, gradient.to(logits.dtype.element_ty), mask=inside)

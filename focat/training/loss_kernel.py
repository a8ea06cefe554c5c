"""The losses of a chunk and their gradient in one pass over the logits, a Triton kernel.

A row of logits is read once from memory and once more from the cache, and is overwritten by its gradient.
`objective.losses_and_gradient` is the reference that it agrees with.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from focat.corpus.vocabulary import PAD

_WARPS = 8
_BLOCK = 4096  # entries of a row that a program holds at a time


def fused_losses_and_gradient(
    logits: Tensor, labels: Tensor, weights: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as `objective.losses_and_gradient`; the gradient takes the place of the logits."""
    tokens, vocabulary = logits.shape
    smoothed, plain = (torch.empty(tokens, device=logits.device) for _ in range(2))
    _one_row[(tokens,)](
        logits, labels, weights, smoothed, plain, logits.stride(0), vocabulary, smoothing, PAD,
        min(_BLOCK, triton.next_power_of_2(vocabulary)), num_warps=_WARPS,
    )  # fmt: skip
    return smoothed, plain, logits


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
    place = logits + row * stride
    label = tl.load(labels + row)
    highest = tl.load(place).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)  # in each column of the blocks, as the plain sum
    plain_sum = tl.zeros([BLOCK], tl.float32)
    for start in range(0, vocabulary, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < vocabulary
        values = tl.load(place + column, mask=inside, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(values, 0))
        total = total * tl.exp(highest - higher) + tl.exp(values - higher)
        plain_sum += tl.where(inside, values, 0.0)
        highest = higher
    log_total = highest + tl.log(tl.sum(total, 0))
    loss = log_total - tl.load(place + label).to(tl.float32)
    mean = tl.sum(plain_sum, 0) / vocabulary
    real = tl.where(label == PADDING, 0.0, 1.0)
    tl.store(plain + row, loss * real)
    tl.store(smoothed + row, ((1 - smoothing) * loss + smoothing * (log_total - mean)) * real)
    weight = tl.load(weights + row)
    for start in range(0, vocabulary, BLOCK):  # the row is still in the cache
        column = start + tl.arange(0, BLOCK)
        inside = column < vocabulary
        values = tl.load(place + column, mask=inside, other=-float("inf")).to(tl.float32)
        wanted = tl.where(column == label, 1 - smoothing, 0.0) + smoothing / vocabulary
        gradient = (tl.exp(values - log_total) - wanted) * weight
        tl.store(place + column, gradient.to(logits.dtype.element_ty), mask=inside)

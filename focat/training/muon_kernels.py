"""The Triton kernels of `fused_muon`. A program has a part of one matrix."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def step_momentum(  # type: ignore[no-untyped-def]
    gradient, momentum, sums, finite_in, entries, decay, BLOCK: tl.constexpr, BLOCKS: tl.constexpr
):
    """Put Nesterov's step in place of the gradient, and store the sum of its squares."""
    part, parts = tl.program_id(1), tl.num_programs(1)
    matrix = tl.program_id(0).to(tl.int64) * entries
    finite = tl.load(finite_in)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(BLOCKS):
        entry = (part * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        inside = entry < entries
        new = tl.load(gradient + matrix + entry, mask=inside, other=0.0)
        new = tl.where(finite > 0, new, 0.0)  # a product with zero would keep NaN
        after = tl.load(momentum + matrix + entry, mask=inside, other=0.0) * (1 - (1 - decay) * finite) + new
        tl.store(momentum + matrix + entry, after, mask=inside)
        step = (new + decay * after) * finite
        tl.store(gradient + matrix + entry, step, mask=inside)
        total += step * step
    tl.store(sums + tl.program_id(0) * parts + part, tl.sum(total, 0))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def scale(  # type: ignore[no-untyped-def]
    step, sums, scaled, entries, parts, least, PARTS: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr
):
    """Divide a matrix by its norm."""
    own = tl.arange(0, PARTS)
    squares = tl.load(sums + tl.program_id(0) * parts + own, mask=own < parts, other=0.0)
    norm = tl.sqrt(tl.sum(squares, 0)) + least
    matrix = tl.program_id(0).to(tl.int64) * entries
    for block in range(BLOCKS):
        entry = (tl.program_id(1) * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(step + matrix + entry, mask=entry < entries, other=0.0) / norm
        tl.store(scaled + matrix + entry, value.to(scaled.dtype.element_ty), mask=entry < entries)

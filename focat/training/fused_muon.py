"""What Muon computes for each entry of its matrices before they are made orthogonal, in two kernels, for GPUs.

`optimizer.step_momentum` is the same in plain torch, for all other devices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from focat.hardware import runs_kernels

_BLOCK, _BLOCKS = 1024, 8  # entries at a time, and how often, of a program
_WARPS = 4


def has_fused_momentum(momentum: Tensor) -> bool:
    """Whether the kernels can update a momentum such as this."""
    return runs_kernels(momentum.device) and momentum.dtype == torch.float32


def step_momentum(
    gradient: Tensor, momentum: Tensor, finite: Tensor, decay: float, least: float, precision: torch.dtype
) -> Tensor:
    """Add the gradient to the momentum, unless it is not finite; return Nesterov's step, each matrix over its norm.

    Args:
        gradient: (matrices, rows, columns), contiguous, which is overwritten.
        momentum: as the gradient.
        finite: () 1, or 0 to leave the momentum as it is and return zeros.
        decay: of the momentum.
        least: added to the norm of a matrix.
        precision: of what is returned, in the shape of the gradient.
    """
    from focat.training import muon_kernels  # imports Triton, some 80 MB

    entries = gradient[0].numel()
    parts = -(-entries // (_BLOCK * _BLOCKS))
    grid, blocks = (len(gradient), parts), {"BLOCK": _BLOCK, "BLOCKS": _BLOCKS, "num_warps": _WARPS}
    sums, scaled = gradient.new_empty(grid), torch.empty_like(gradient, dtype=precision)
    muon_kernels.step_momentum[grid](gradient, momentum, sums, finite, entries, decay, **blocks)
    padded = 1 << (parts - 1).bit_length()
    muon_kernels.scale[grid](gradient, sums, scaled, entries, parts, least, PARTS=padded, **blocks)
    return scaled

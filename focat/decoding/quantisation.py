"""Rows of floats to bytes and back, around products of eight-bit integers: by kernels in C, or by PyTorch."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from focat.c_library import load_library

ZERO = 128
"""The byte that stands for zero."""

_SOURCE = Path(__file__).with_suffix(".c")


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Round the numbers of each row to bytes from 1 to 255.

    Args:
        x: (rows, width), contiguous.

    Returns:
        The bytes, (rows, width), and the scale of each row, (rows, 1): x is about (bytes - ZERO) · scale.
    """
    library = load_library(_SOURCE)
    if library is None:
        most = x.abs().amax(1, keepdim=True).clamp(min=1e-12)
        return (x * (127 / most)).add_(ZERO + 0.5).to(torch.uint8), most / 127
    quantised, scales = torch.empty_like(x, dtype=torch.uint8), x.new_empty(len(x), 1)
    library.focat_quantise_rows(_pointer(x), *_sizes(x), _pointer(quantised), _pointer(scales))
    return quantised, scales


def unscale_rows(y: Tensor, scales: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
    """Multiply each row of y, (rows, width), by its scale, (rows, 1), and add a bias, (width,), in place.

    With `relu`, what is negative then becomes 0.
    """
    library = load_library(_SOURCE)
    if library is None:
        y.mul_(scales)
        y = y if bias is None else y.add_(bias)
        return y.relu_() if relu else y
    added = None if bias is None else _pointer(bias)
    library.focat_unscale_rows(_pointer(y), *_sizes(y), _pointer(scales), added, ctypes.c_int(relu))
    return y


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _sizes(x: Tensor) -> tuple[ctypes.c_int64, ctypes.c_int64]:
    return ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1])

"""Attention on a CPU by a kernel in C: of few queries, as in a step of beam search, and of windows without padding.

PyTorch's own kernel multiplies head by head, which takes two to four times as long where a window has four queries.
Where windows have many, both take as long, but PyTorch needs them padded to one length.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from focat.c_library import load_library

_SOURCE = Path(__file__).with_suffix(".c")
_WIDTH_MULTIPLE = 32  # head widths that the kernel is made for
_MAX_QUERIES = 48  # of a window; with more, products of large matrices are as fast
_MAX_THREADS = 3  # of torch; with more, its own kernel, which shares its work among them, is faster

_Shape = ctypes.c_int64 * 5
_Strides = ctypes.c_int64 * 12
_WindowShape = ctypes.c_int64 * 4
_WindowStrides = ctypes.c_int64 * 6


class WindowMask(NamedTuple):
    """A query sees the keys of its own window; the tokens of all windows are in one row, one behind the other."""

    bounds: Tensor  # (2, windows + 1) where the queries of each window begin, and its keys
    causal: bool = False  # a query sees no later key; the last one is beside the last key

    @property
    def last_queries(self) -> Tensor:
        """The last query of each window, (windows,)."""
        return self.bounds[0, 1:] - 1

    def of_last(self) -> WindowMask:
        """The mask of these queries alone."""
        return WindowMask(torch.stack((torch.arange(self.bounds.shape[1]), self.bounds[1])), self.causal)


def is_available() -> bool:
    """Whether the kernel can be compiled on this machine, or has been before."""
    return load_library(_SOURCE) is not None


def can_decode(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> bool:
    """Whether `decode_attention` computes this, and is the fastest way to do so."""
    return (
        queries.device.type == "cpu"
        and queries.shape[2] <= _MAX_QUERIES
        and queries.shape[3] % _WIDTH_MULTIPLE == 0
        and mask.shape[1] == 1  # the same for all heads
        and not torch.is_grad_enabled()
        and all(each.dtype == torch.float32 and each.stride(3) == 1 for each in (queries, keys, values))
        and torch.get_num_threads() <= _MAX_THREADS
        and is_available()
    )


def has_window_attention(weights: Tensor, head_width: int) -> bool:
    """Whether `window_attention` computes with activations such as these weights, and is the fastest way to do so."""
    return (
        weights.device.type == "cpu"
        and weights.dtype == torch.float32
        and head_width % _WIDTH_MULTIPLE == 0
        and not torch.is_grad_enabled()
        and torch.get_num_threads() <= _MAX_THREADS
        and is_available()
    )


def decode_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention; arguments and result are those of `attention.attend`."""
    library = load_library(_SOURCE)
    assert library is not None
    windows, heads, count, width = queries.shape
    output = queries.new_empty(windows, count, heads, width)
    mask = mask.expand(windows, 1, count, keys.shape[2])
    by_window, _, by_query, by_key = mask.stride()
    strides = (stride for each in (queries, keys, values) for stride in each.stride()[:3])
    pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (queries, keys, values, mask, output))
    shape = _Shape(windows, heads, count, keys.shape[2], width)
    if library.focat_decode_attention(*pointers, shape, _Strides(*strides, by_window, by_query, by_key)):
        raise MemoryError
    return output.transpose(1, 2)


def window_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: WindowMask) -> Tensor:
    """Scaled dot-product attention inside windows.

    Args:
        queries, keys, values: (1, heads, tokens, head width), the numbers of a head adjacent.
        mask: what each query sees.

    Returns:
        (1, heads, queries, head width), a view of (1, queries, heads, head width).
    """
    library = load_library(_SOURCE)
    assert library is not None
    _, heads, count, width = queries.shape
    output = queries.new_empty(1, count, heads, width)
    bounds = mask.bounds.contiguous()
    strides = (stride for each in (queries, keys, values) for stride in each.stride()[1:3])
    pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (queries, keys, values, output, bounds))
    shape = _WindowShape(bounds.shape[1] - 1, heads, width, mask.causal)
    if library.focat_window_attention(*pointers, shape, _WindowStrides(*strides)):
        raise MemoryError
    return output.transpose(1, 2)

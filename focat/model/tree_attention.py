"""Attention of few queries to a tree of hypotheses on a GPU, as in a step of beam search.

A window sees few columns of its KV cache: its prefix, and the nodes of its tree that are on a branch, in a buffer that
is wide enough for all windows. They are listed once for all layers of a step (`TreeMask`), and the kernel reads the
keys and values of these columns alone. What the others hold does not matter, be it NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from focat.config.schema import ModelSettings
from focat.hardware import runs_kernels

MAX_QUERIES = 16  # of a window; with more, products of large matrices are as fast
_MAX_COLUMNS = 1 << 16  # an entry of the list has 16 bits for a column, and 16 for the queries that see it
_LEAST_QUERIES = 4  # fewer are padded: one kernel serves greedy search and a beam of four
_ROWS = 16  # of tensor cores, queries times heads
_MAX_ENTRIES = 4096  # of a column, all heads together, that a program copies
_MAX_HEAD_BYTES = 256  # a width of 128 in half precision
_LIST = {"BLOCK": 256, "num_warps": 2}
_ATTEND = {"BLOCK": 32, "num_warps": 4, "num_stages": 3}
_LOG2_E = math.log2(math.e)

Other = TypeVar("Other")


class TreeMask(NamedTuple):
    """Which columns the queries of each window see, as a mask and as lists."""

    mask: Tensor  # (windows, 1, queries, columns) True where a query sees a column
    entries: Tensor  # (windows, columns) int32: the columns that any query sees, and in the upper bits which do
    counts: Tensor  # (windows,) int32 how many entries each window has

    @classmethod
    def of(cls, mask: Tensor, queries: int) -> TreeMask:
        """Of a mask (windows, 1, queries, columns), or (windows, 1, 1, columns) for all of so many queries."""
        from focat.model import tree_attention_kernels  # imports Triton, some 80 MB

        windows, _, _, columns = mask.shape
        mask = mask.expand(windows, 1, queries, columns)
        entries = torch.empty((windows, columns), dtype=torch.int32, device=mask.device)
        counts = torch.empty(windows, dtype=torch.int32, device=mask.device)
        by_window, _, by_query, by_column = mask.stride()
        tree_attention_kernels.list_columns[(windows,)](
            mask.view(torch.uint8), entries, counts, columns, queries, by_window, by_query, by_column,
            QUERIES=_padded(queries), **_LIST,
        )  # fmt: skip
        return cls(mask, entries, counts)


def tree_masks(masks: Sequence[Tensor | Other], queries: Tensor) -> list[Tensor | TreeMask | Other]:
    """The masks of all layers for these queries, (windows, queries, width), with lists where a kernel can use them.

    Layers that share a mask share a list. What is no tensor stays as it is.
    """
    made: dict[int, TreeMask] = {}
    found: list[Tensor | TreeMask | Other] = []
    for mask in masks:
        if isinstance(mask, Tensor) and lists_columns(mask, queries.shape[1], queries.dtype):
            if id(mask) not in made:
                made[id(mask)] = TreeMask.of(mask, queries.shape[1])
            found.append(made[id(mask)])
        else:
            found.append(mask)
    return found


def lists_columns(mask: Tensor, queries: int, dtype: torch.dtype) -> bool:
    """Whether to list the columns of a mask, for so many queries of this type."""
    windows, heads, _, columns = mask.shape
    return (
        runs_kernels(mask.device)
        and dtype.itemsize == 2
        and heads == 1  # the same for all heads
        and queries <= MAX_QUERIES
        and columns < _MAX_COLUMNS
        and windows > 0
    )


def always_lists_columns(settings: ModelSettings, weights: Tensor) -> bool:
    """Whether all attentions of a model's steps read listed columns alone; others in its buffers cost nothing then."""
    width = settings.d_model // settings.heads
    fits = width >= 16 and width & (width - 1) == 0 and width * weights.itemsize <= _MAX_HEAD_BYTES
    plain = settings.attention == "full" and settings.context is None and settings.second_pass is None
    return runs_kernels(weights.device) and weights.itemsize == 2 and fits and plain


def can_attend(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether `tree_attention` computes with these; it has no gradient."""
    width = queries.shape[3]
    return (
        width >= 16
        and width & (width - 1) == 0
        and width * queries.itemsize <= _MAX_HEAD_BYTES
        and queries.dtype == keys.dtype == values.dtype
        and all(each.stride(3) == 1 for each in (queries, keys, values))
        and not (torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad or values.requires_grad))
    )


def tree_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: TreeMask, together: int | None = None
) -> Tensor:
    """Scaled dot-product attention; zero where a query sees nothing.

    Args:
        queries: (windows, heads, queries, head width), at most `MAX_QUERIES`.
        keys, values: (windows, heads, columns, head width).
        mask: which columns are seen.
        together: heads of a program; by default, as many as fill the rows of tensor cores.

    Returns:
        (windows, heads, queries, head width), a view of (windows, queries, heads, head width).
    """
    from focat.model import tree_attention_kernels

    windows, heads, count, width = queries.shape
    padded = _padded(count)
    together = together or next(group for group in (4, 2, 1) if group * padded <= _ROWS and heads % group == 0)
    groups = heads // together
    output = torch.empty((windows, count, heads, width), dtype=queries.dtype, device=queries.device)
    tree_attention_kernels.attend[(windows * groups,)](
        queries, keys, values, mask.entries, mask.counts, output, _LOG2_E / math.sqrt(width), mask.mask.shape[3],
        count, groups, *queries.stride()[:3], *keys.stride()[:3], *values.stride()[:3], *output.stride()[:2],
        QUERIES=padded, HEADS=together, ROWS=max(_ROWS, together * padded), WIDTH=width, **_ATTEND,
    )  # fmt: skip
    return output.transpose(1, 2)


def can_append(cached: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether `append_nodes` writes these, (windows, heads, new, width), into (windows, capacity, heads, width)."""
    _, heads, new, width = keys.shape
    return (
        runs_kernels(cached.device)
        and new <= MAX_QUERIES
        and heads * width <= _MAX_ENTRIES
        and width & (width - 1) == 0
        and cached.stride()[2:] == (width, 1)
        and cached.dtype == keys.dtype == values.dtype
        and all(each.stride(3) == 1 for each in (keys, values))
        and not torch.is_grad_enabled()
    )


def append_nodes(
    cached_keys: Tensor, cached_values: Tensor, write_columns: Tensor, keys: Tensor, values: Tensor
) -> None:
    """Write new keys and values, (windows, heads, new, head width), into the same columns of all windows of a cache.

    Args:
        cached_keys, cached_values: (windows, capacity, heads, head width).
        write_columns: (new,) where they go.
    """
    from focat.model import tree_attention_kernels

    windows, heads, new, width = keys.shape
    entries = 1 << (heads * width - 1).bit_length()
    tree_attention_kernels.append_nodes[(windows,)](
        keys, values, cached_keys, cached_values, write_columns, new, heads, *keys.stride()[:3], *values.stride()[:3],
        *cached_keys.stride()[:2], *cached_values.stride()[:2], NEW=_padded(new), ENTRIES=entries, WIDTH=width,
        num_warps=4,
    )  # fmt: skip


def _padded(queries: int) -> int:
    """The next power of two."""
    return max(_LEAST_QUERIES, 1 << (queries - 1).bit_length())

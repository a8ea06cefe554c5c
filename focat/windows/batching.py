"""Batching by token budget: windows of similar length together, each once per epoch, shuffled by (seed, epoch).

Padded lengths come from a small fixed set, so that a compiler sees few shapes. All windows are sorted and shuffled as
arrays; the only loop is over batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focat.windows.corpus_windows import CorpusWindows, Indices
from focat.windows.splitmix64 import splitmix64

_ROWS_MULTIPLE = 8  # matrix units like multiples of 8


def padded_lengths(longest: int) -> Indices:
    """Lengths that windows are padded to, up to `longest`: multiples of 4 up to 128, then 16 per doubling."""
    lengths = [4]
    while lengths[-1] < longest:
        step = max(4, (1 << lengths[-1].bit_length()) // 32)
        lengths.append(lengths[-1] + step)
    return np.array(lengths)


@dataclass(frozen=True)
class EpochOrder:
    """The batches of one epoch: batch i has the windows `rows[bounds[i]:bounds[i + 1]]`."""

    rows: Indices  # (windows,)
    bounds: Indices  # (batches + 1,)
    source_lengths: Indices  # (batches,) padded
    target_lengths: Indices  # (batches,) padded

    def __len__(self) -> int:
        return len(self.source_lengths)

    def batch(self, i: int) -> tuple[Indices, int, int]:
        """Window indices of batch i, and the lengths to pad its source and target to."""
        rows = self.rows[self.bounds[i] : self.bounds[i + 1]]
        return rows, int(self.source_lengths[i]), int(self.target_lengths[i])


def order_epoch(windows: CorpusWindows, batch_tokens: int, seed: int, epoch: int) -> EpochOrder:
    """Put all windows into batches of at most `batch_tokens` on their longer side, padding included; shuffle these."""
    source, target = _padded(windows.source.lengths), _padded(windows.target.lengths)
    # By source length, and within it by target length, alternately up and down: neighbours are alike on both sides.
    _, rank = np.unique(source, return_inverse=True)
    snake = np.where(rank % 2 == 0, target, -target)
    rows = np.lexsort((splitmix64(len(windows), seed, epoch, 3), snake, source))
    bounds = _batch_bounds(source[rows], target[rows], batch_tokens)

    starts = bounds[:-1]
    source_lengths = np.maximum.reduceat(source[rows], starts) if len(starts) else starts
    target_lengths = np.maximum.reduceat(target[rows], starts) if len(starts) else starts
    shuffled = np.argsort(splitmix64(len(starts), seed, epoch, 4), kind="stable")
    sizes = np.diff(bounds)[shuffled]
    moved = np.repeat(starts[shuffled], sizes) + _ranges(sizes)
    return EpochOrder(
        rows[moved], np.concatenate([[0], np.cumsum(sizes)]), source_lengths[shuffled], target_lengths[shuffled]
    )


def _batch_bounds(source: Indices, target: Indices, batch_tokens: int) -> Indices:
    """Boundaries of batches, (batches + 1,), in windows sorted by their padded lengths."""
    bounds = [0]
    while (start := bounds[-1]) < len(source):
        limit = max(1, batch_tokens // int(max(source[start], target[start])))
        longest = np.maximum.accumulate(np.maximum(source[start : start + limit], target[start : start + limit]))
        count = int(np.searchsorted(longest * np.arange(1, len(longest) + 1), batch_tokens, "right"))
        if count > _ROWS_MULTIPLE and start + count < len(source):
            count -= count % _ROWS_MULTIPLE
        bounds.append(start + max(1, count))
    return np.array(bounds)


def _padded(lengths: Indices) -> Indices:
    allowed = padded_lengths(int(lengths.max(initial=1)))
    return allowed[np.searchsorted(allowed, lengths)]


def _ranges(sizes: NDArray[np.int64]) -> Indices:
    """`range(size)` for each of the sizes, concatenated."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)

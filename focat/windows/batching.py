"""Batches: windows of similar length side by side, each once per epoch, in an order that (seed, epoch) decides.

Padded lengths come from a small fixed set, so that a compiler sees few shapes. What is shuffled, sorted and cut here
are whole arrays; the only loop is over batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focat.windows.corpus_windows import Indices, Windows
from focat.windows.splitmix64 import scramble

_ROWS_MULTIPLE = 8  # matrix units like multiples of 8


def padded_lengths(longest: int) -> Indices:
    """The lengths that windows are padded to: multiples of 4 up to 128, then 16 steps for every doubling."""
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
        """The windows of a batch, and the lengths to pad its sides to."""
        rows = self.rows[self.bounds[i] : self.bounds[i + 1]]
        return rows, int(self.source_lengths[i]), int(self.target_lengths[i])


def order_epoch(windows: Windows, batch_tokens: int, seed: int, epoch: int) -> EpochOrder:
    """All windows once, in batches of at most `batch_tokens` on their longer side, padding included."""
    source, target = _padded(windows.source.lengths), _padded(windows.target.lengths)
    # Sorted by source length, and inside it by target length, up and down in turns: neighbours are alike on both sides.
    _, rank = np.unique(source, return_inverse=True)
    snake = np.where(rank % 2 == 0, target, -target)
    rows = np.lexsort((scramble(len(windows), seed, epoch, 3), snake, source))
    bounds = _cut(source[rows], target[rows], batch_tokens)

    starts = bounds[:-1]
    source_lengths = np.maximum.reduceat(source[rows], starts) if len(starts) else starts
    target_lengths = np.maximum.reduceat(target[rows], starts) if len(starts) else starts
    shuffled = np.argsort(scramble(len(starts), seed, epoch, 4), kind="stable")
    sizes = np.diff(bounds)[shuffled]
    moved = np.repeat(starts[shuffled], sizes) + _count_up(sizes)
    return EpochOrder(
        rows[moved], np.concatenate([[0], np.cumsum(sizes)]), source_lengths[shuffled], target_lengths[shuffled]
    )


def _cut(source: Indices, target: Indices, batch_tokens: int) -> Indices:
    """Where batches begin and end in windows of these padded lengths."""
    bounds = [0]
    while (start := bounds[-1]) < len(source):
        most = max(1, batch_tokens // int(max(source[start], target[start])))
        longest = np.maximum.accumulate(np.maximum(source[start : start + most], target[start : start + most]))
        count = int(np.searchsorted(longest * np.arange(1, len(longest) + 1), batch_tokens, "right"))
        if count > _ROWS_MULTIPLE and start + count < len(source):
            count -= count % _ROWS_MULTIPLE
        bounds.append(start + max(1, count))
    return np.array(bounds)


def _padded(lengths: Indices) -> Indices:
    allowed = padded_lengths(int(lengths.max(initial=1)))
    return allowed[np.searchsorted(allowed, lengths)]


def _count_up(sizes: NDArray[np.int64]) -> Indices:
    """0, 1, …, size - 1 for each of the sizes, in a row."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)

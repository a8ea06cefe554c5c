"""Batching by token budget: windows of similar length together, each once per epoch, shuffled by (seed, epoch).

Padded lengths come from a small fixed set, so that a compiler sees few shapes. Windows of the same padded lengths are a
group; groups are sorted, and windows shuffled within them, as arrays. The only loop is over batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from focat.windows.corpus_windows import CorpusWindows, Indices
from focat.windows.shuffling import Unsigned, chunks, shuffle_groups
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
    """The batches of one epoch: batch i has the windows `rows[starts[i]:ends[i]]`."""

    rows: Unsigned  # (windows,) sorted by length
    starts: Indices  # (batches,)
    ends: Indices  # (batches,)
    source_lengths: Indices  # (batches,) padded
    target_lengths: Indices  # (batches,) padded

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows_of(self, i: int) -> Indices:
        """Window indices of batch i."""
        return self.rows[self.starts[i] : self.ends[i]].astype(np.int64)

    def batch(self, i: int) -> tuple[Indices, int, int]:
        """Window indices of batch i, and the lengths to pad its source and target to."""
        return self.rows_of(i), int(self.source_lengths[i]), int(self.target_lengths[i])


def order_epoch(windows: CorpusWindows, batch_tokens: int, seed: int, epoch: int) -> EpochOrder:
    """Put all windows into batches of at most `batch_tokens` on their longer side, padding included; shuffle these."""
    groups, sizes, source, target = _group_by_length(windows)
    rows = shuffle_groups(groups, sizes, seed, epoch, 3)
    del groups  # makes room for what follows
    bounds = _batch_bounds(np.repeat(np.maximum(source, target), sizes), batch_tokens)
    starts, ends = bounds[:-1], bounds[1:]
    source_lengths, target_lengths = (
        np.maximum.reduceat(np.repeat(side, sizes), starts).astype(np.int64) if len(starts) else starts
        for side in (source, target)
    )
    shuffled = np.argsort(splitmix64(len(starts), seed, epoch, 4))
    return EpochOrder(rows, starts[shuffled], ends[shuffled], source_lengths[shuffled], target_lengths[shuffled])


def _group_by_length(windows: CorpusWindows) -> tuple[Unsigned, Indices, Unsigned, Unsigned]:
    """Group windows that are padded to the same lengths.

    Returns:
        The group of each window, (windows,); and of each group, (groups,), how many windows it has, and the lengths
        that its sources and targets are padded to. Neighbouring groups are alike on both sides.
    """
    allowed = padded_lengths(windows.settings.max_tokens)
    possible = len(allowed) ** 2
    groups: Unsigned = np.empty(len(windows), np.min_scalar_type(possible))
    sizes = np.zeros(possible, np.int64)
    for rows in chunks(len(windows)):
        some = windows[rows]
        source_rank, target_rank = (np.searchsorted(allowed, side.lengths) for side in (some.source, some.target))
        groups[rows] = source_rank * len(allowed) + target_rank
        sizes += np.bincount(groups[rows], minlength=possible)
    found = np.flatnonzero(sizes)
    source, target = (allowed[ranks] for ranks in np.divmod(found, len(allowed)))
    # By source length, and within it by target length, alternately up and down.
    _, rank = np.unique(source, return_inverse=True)
    order = np.lexsort((np.where(rank % 2 == 0, target, -target), source))
    number = np.empty(possible, groups.dtype)
    number[found[order]] = np.arange(len(found))
    for rows in chunks(len(windows)):
        groups[rows] = number[groups[rows]]
    length_type = np.min_scalar_type(allowed[-1])
    return groups, sizes[found[order]], source[order].astype(length_type), target[order].astype(length_type)


def _batch_bounds(longest: Unsigned, batch_tokens: int) -> Indices:
    """Boundaries of batches, (batches + 1,), in windows of these padded lengths on their longer side."""
    bounds = [0]
    while (start := bounds[-1]) < len(longest):
        limit = max(1, batch_tokens // int(longest[start]))
        padded = np.maximum.accumulate(longest[start : start + limit].astype(np.int64))
        count = int(np.searchsorted(padded * np.arange(1, len(padded) + 1), batch_tokens, "right"))
        if count > _ROWS_MULTIPLE and start + count < len(longest):
            count -= count % _ROWS_MULTIPLE
        bounds.append(start + max(1, count))
    return np.array(bounds)

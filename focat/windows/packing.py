"""Packed batches: windows in random order, one behind the other, as many as fit; all batches have the same shape.

Without padding between windows nothing is computed in vain, and with one shape a GPU can repeat what it has recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from focat.corpus.store import Sentences
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.batch import BLOCK, PackedBatch, PackedSequences
from focat.windows.corpus_windows import CorpusWindows, Indices, Span
from focat.windows.shuffling import Unsigned, shuffle

_MULTIPLE = 128  # matrix units like multiples of their blocks
_MORE_WINDOWS = 1.1  # room for batches whose windows are shorter than usual; room for tokens would be padding in others


@dataclass(frozen=True)
class PackedShape:
    """The shape of all packed batches of a corpus."""

    source: int  # tokens
    target: int
    windows: int  # the most that a batch may have

    @property
    def bounds(self) -> int:
        """Windows, with those that the padding behind them is cut into."""
        return self.windows + -(-max(self.source, self.target) // BLOCK)


@dataclass(frozen=True)
class PackedOrder:
    """The batches of one epoch: batch i has the windows `rows[bounds[i]:bounds[i + 1]]`."""

    rows: Unsigned  # (windows,)
    bounds: Indices  # (batches + 1,)
    shape: PackedShape

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def rows_of(self, i: int) -> Indices:
        """Window indices of batch i."""
        return self.rows[self.bounds[i] : self.bounds[i + 1]].astype(np.int64)


def packed_shape(windows: CorpusWindows, batch_tokens: int, max_tokens: int) -> PackedShape:
    """The shape of batches with `batch_tokens` on the side that is longer in this corpus."""
    totals = [int(lengths.sum()) for lengths in windows.lengths()]
    batch_tokens = max(min(batch_tokens, max(totals)), max_tokens)
    shares = [total / max(1, *totals) for total in totals]
    sides = [batch_tokens if share == 1 else max(max_tokens, int(batch_tokens * share)) for share in shares]
    count = int(batch_tokens * len(windows) / max(1, *totals) * _MORE_WINDOWS) + 8
    source, target = (-(-side // _MULTIPLE) * _MULTIPLE for side in sides)
    return PackedShape(source, target, count)


def order_packed(windows: CorpusWindows, shape: PackedShape, seed: int, epoch: int) -> PackedOrder:
    """Put all windows into batches, in random order."""
    rows = shuffle(len(windows), seed, epoch, 3)
    sides = list(zip(windows.lengths(), (shape.source, shape.target), strict=True))
    bounds = [0]
    while (start := bounds[-1]) < len(rows):
        some = rows[start : start + shape.windows]
        fit = min(np.searchsorted(np.cumsum(lengths[some]), most, "right") for lengths, most in sides)
        bounds.append(start + int(fit))
    return PackedOrder(rows, np.array(bounds), shape)


def gather_packed(windows: CorpusWindows, rows: Indices, shape: PackedShape) -> PackedBatch:
    """Collate the windows `rows` into a packed batch."""
    some, split = windows[rows], windows.split
    source, target = (
        _bounds(span.lengths, capacity, shape)
        for span, capacity in ((some.source, shape.source), (some.target, shape.target))
    )
    return PackedBatch(
        _pack_side(split.source, some.source, some.current, source, target, shape),
        _pack_side(split.target, some.target, some.current, target, source, shape),
    )


def _bounds(lengths: Indices, capacity: int, shape: PackedShape) -> Indices:
    """Where each window of a side begins and ends; behind the last, padding is cut into windows."""
    missing = capacity - int(lengths.sum()) - BLOCK * np.arange(shape.bounds - len(lengths))
    return np.concatenate([[0], np.cumsum(np.concatenate([lengths, np.clip(missing, 0, BLOCK)]))])


def _pack_side(
    sentences: Sentences, span: Span, current: Indices, bounds: Indices, other_bounds: Indices, shape: PackedShape
) -> PackedSequences:
    count, total, capacity = len(current), int(span.lengths.sum()), int(bounds[-1])
    window = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))  # (capacity,)
    index = np.arange(capacity) - bounds[window]
    tokens = np.full(capacity, PAD, np.int64)
    tokens[:total] = sentences.tokens[span.addresses(sentences, window[:total], index[:total])]
    tokens[bounds[1 : count + 1] - 1] = END  # in place of the last sentence's separator
    closes = tokens == SEPARATOR
    before = np.cumsum(closes) - closes
    segments = np.where(tokens == PAD, -1, before - before[bounds[window]])
    currents = np.zeros(shape.bounds, np.int64)
    currents[:count] = span.before(current)
    return PackedSequences(
        torch.from_numpy(tokens)[None],
        torch.from_numpy(segments)[None],
        torch.from_numpy(index)[None],
        torch.from_numpy(window)[None],
        torch.from_numpy(currents),
        torch.from_numpy(bounds.astype(np.int32)),
        torch.from_numpy(cut_blocks(bounds, other_bounds, capacity // BLOCK + shape.windows + 1)),
    )


def cut_blocks(bounds: Indices, other_bounds: Indices, count: int) -> NDArray[np.int32]:
    """Cut windows into blocks; all that a kernel of attention must know of each.

    Args:
        bounds: (windows + 1,) where each window begins on this side.
        other_bounds: the same of the other side.
        count: of blocks, if all windows end inside of one.

    Returns:
        (count, 5) first token of the block; first and last token, exclusive, of its window, on this side and on the
        other. 0 behind the last block.
    """
    pieces = -(-np.diff(bounds) // BLOCK)  # (windows,)
    window = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(window)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    blocks = np.zeros((count, 5), np.int32)
    ranges = bounds[window], bounds[window + 1], other_bounds[window], other_bounds[window + 1]
    blocks[: len(window)] = np.stack((bounds[window] + BLOCK * number, *ranges), 1)
    return blocks

"""A batch of windows as the model sees them: padded to one length, or packed one behind the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class PaddedSequences:
    """One side of a batch of windows: `x1 <S> x2 <S> … xn <E>` in each row, then padding."""

    tokens: Tensor  # (windows, length) ids; PAD after the end
    segments: Tensor  # (windows, length) index of each token's sentence in its window; -1 on padding
    current: Tensor  # (windows,) segment of the current sentence

    @property
    def current_segments(self) -> Tensor:
        """The segment of the current sentence for each token, to be broadcast: (windows, 1)."""
        return self.current[:, None]

    def map(self, change: Callable[[Tensor], Tensor]) -> PaddedSequences:
        """Apply a function to every tensor."""
        return PaddedSequences(change(self.tokens), change(self.segments), change(self.current))

    def to(self, device: str) -> PaddedSequences:
        """Copy to a device; asynchronous from pinned memory."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


BLOCK = 64  # tokens of a packed window that a kernel takes at a time


@dataclass(frozen=True)
class PackedSequences:
    """One side of a batch of windows, as one row: `x1 <S> x2 … xn <E>` of each window, one window behind the other.

    Row and number of windows have the same length in every batch of an epoch: behind the last window there is padding,
    cut into windows of its own.
    """

    tokens: Tensor  # (1, tokens) ids; PAD behind the last window
    segments: Tensor  # (1, tokens) index of each token's sentence in its window; -1 on padding
    index: Tensor  # (1, tokens) of each token in its window
    window: Tensor  # (1, tokens) number of each token's window
    current: Tensor  # (windows,) segment of the current sentence
    bounds: Tensor  # (windows + 1,) int32: where each window begins; the last ones may be empty
    blocks: Tensor  # (blocks, 5) int32: windows cut into `BLOCK` tokens, see `packing.cut_blocks`

    @property
    def current_segments(self) -> Tensor:
        """The segment of the current sentence of its window for each token: (1, tokens)."""
        return self.current[self.window]

    def map(self, change: Callable[[Tensor], Tensor]) -> PackedSequences:
        """Apply a function to every tensor."""
        return PackedSequences(
            change(self.tokens),
            change(self.segments),
            change(self.index),
            change(self.window),
            change(self.current),
            change(self.bounds),
            change(self.blocks),
        )

    def to(self, device: str) -> PackedSequences:
        """Copy to a device; asynchronous from pinned memory."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


@dataclass(frozen=True)
class Batch:
    """Windows on both sides, and the sentences that are current in them."""

    source: PaddedSequences
    target: PaddedSequences  # what the decoder must produce; its input is `segments.decoder_input(target)`
    sentences: Tensor  # (windows,) index in the store of each window's current sentence

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Apply a function to every tensor."""
        return Batch(self.source.map(change), self.target.map(change), change(self.sentences))

    def to(self, device: str) -> Batch:
        """Copy to a device; asynchronous from pinned memory."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


@dataclass(frozen=True)
class PackedBatch:
    """Packed windows on both sides."""

    source: PackedSequences
    target: PackedSequences

    def map(self, change: Callable[[Tensor], Tensor]) -> PackedBatch:
        """Apply a function to every tensor."""
        return PackedBatch(self.source.map(change), self.target.map(change))

    def to(self, device: str) -> PackedBatch:
        """Copy to a device; asynchronous from pinned memory."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


Sequences = PaddedSequences | PackedSequences

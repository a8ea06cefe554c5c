"""A batch: windows padded to one length, as the model sees them."""

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

    def map(self, change: Callable[[Tensor], Tensor]) -> PaddedSequences:
        """Apply a function to every tensor."""
        return PaddedSequences(change(self.tokens), change(self.segments), change(self.current))

    def to(self, device: str) -> PaddedSequences:
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

"""A batch: windows padded side by side, as the model sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class PaddedSequences:
    """The source or the target of a batch of windows: `x1 <S> x2 <S> … xn <E>`, then padding."""

    tokens: Tensor  # (windows, length) ids; PAD after the end
    segments: Tensor  # (windows, length) index of each token's sentence in its window; -1 on padding
    current: Tensor  # (windows,) segment of the current sentence

    def map(self, change: Callable[[Tensor], Tensor]) -> PaddedSequences:
        """The same side with every tensor changed."""
        return PaddedSequences(change(self.tokens), change(self.segments), change(self.current))

    def to(self, device: str) -> PaddedSequences:
        """The same side on another device, without waiting for the copy when the memory is pinned."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


@dataclass(frozen=True)
class Batch:
    """Windows and the sentences they are about."""

    source: PaddedSequences
    target: PaddedSequences  # tokens are what the decoder must produce; its input is the same behind a start symbol
    sentences: Tensor  # (windows,) index in the store of each window's current sentence

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The same batch with every tensor changed."""
        return Batch(self.source.map(change), self.target.map(change), change(self.sentences))

    def to(self, device: str) -> Batch:
        """The same batch on another device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

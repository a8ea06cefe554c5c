"""A batch: windows padded side by side, as the model sees them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Side:
    """The source or the target of a batch of windows: `x1 <S> x2 <S> … xn <E>`, then padding."""

    tokens: Tensor  # (windows, length) ids; PAD after the end
    segments: Tensor  # (windows, length) index of each token's sentence in its window; -1 on padding
    current: Tensor  # (windows,) segment of the current sentence

    def to(self, device: str) -> Side:
        """The same side on another device, without waiting for the copy when the memory is pinned."""
        return Side(*(t.to(device, non_blocking=True) for t in (self.tokens, self.segments, self.current)))


@dataclass(frozen=True)
class Batch:
    """Windows and the sentences they are about."""

    source: Side
    target: Side  # tokens are what the decoder must produce; its input is the same behind a start symbol
    sentences: Tensor  # (windows,) index in the store of each window's current sentence

    def to(self, device: str) -> Batch:
        """The same batch on another device."""
        return Batch(self.source.to(device), self.target.to(device), self.sentences.to(device, non_blocking=True))

"""What is kept between the steps of decoding: the encoded source, and what the decoder has read so far.

A row's tokens are all it takes to know its segments, positions and masks (section 3 of the paper). They are derived at
each step by the functions that serve training, so a hypothesis is seen exactly as it would be in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from focat.model.attention import Past
from focat.windows.batch import Side

BLOCK = 64  # tokens for which room is made at a time


@dataclass(frozen=True)
class Memory:
    """Encoded windows."""

    hidden: Tensor  # (windows, source length, width)
    source: Side
    shift: Tensor  # (windows,) segment shift of each window, for both sides

    def select(self, rows: Tensor) -> Memory:
        """Some windows, in any order, any number of times: say, one for each candidate translation."""
        tokens, segments, current = self.source.tokens, self.source.segments, self.source.current
        source = Side(tokens[rows], segments[rows], current[rows])
        return Memory(self.hidden[rows], source, self.shift[rows])


@dataclass
class DecoderCache:
    """Hypotheses in the making: `beam` consecutive rows for each window of the memory."""

    tokens: Tensor  # (rows, length) what each row has read, from the start symbol on; PAD is skipped over
    past: Tensor  # (layers, 2, rows, heads, capacity, head width) keys and values of those tokens
    remembered: Tensor  # (layers, 2, windows, heads, source length, head width) keys and values of the source
    source: Side
    shift: Tensor  # (windows,)
    current: Tensor  # (windows,) segment of the current sentence on the target
    beam: int  # rows for each window

    @property
    def length(self) -> int:
        """Tokens read so far, skipped ones included."""
        return self.tokens.shape[1]

    def per_row(self, of_windows: Tensor) -> Tensor:
        """What is known of each window, (windows,), for each of its rows."""
        return of_windows.repeat_interleave(self.beam, output_size=self.tokens.shape[0])

    def append(self, tokens: Tensor) -> list[Past]:
        """Take note of new tokens (rows, new) and make room for their keys and values in every layer."""
        read = self.length
        self.tokens = torch.cat((self.tokens, tokens), 1)
        missing = self.length - self.past.shape[-2]
        if missing > 0:
            room = list(self.past.shape)
            room[-2] = BLOCK * -(-missing // BLOCK)
            self.past = torch.cat((self.past, self.past.new_empty(room)), -2)
        return [Past(keys, values, read) for keys, values in self.past]

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has read. Rows stay with their window, so the source stays in place."""
        self.tokens = self.tokens.index_select(0, rows)
        self.past = self.past.index_select(2, rows)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in any order and number, as long as `beam` at a time are of one window."""
        windows = rows[:: self.beam] // self.beam
        self.reorder(rows)
        self.remembered = self.remembered.index_select(2, windows)
        self.source = Side(self.source.tokens[windows], self.source.segments[windows], self.source.current[windows])
        self.shift, self.current = self.shift[windows], self.current[windows]

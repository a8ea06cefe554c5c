"""Segment embeddings: how far a token's sentence is from the current one, added to its input.

The alternatives to shifted positions of section 4.6 of the paper, and the one-hot variant of Lupo et al. (2023). One
module serves encoder and decoder.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import WindowSettings
from focat.errors import FocatError
from focat.model.positions import sinusoids


def distance_index(segments: Tensor, current: Tensor, before: int, after: int) -> Tensor:
    """1 for the current sentence, 2 for the previous one, up to before + 1; then before + 1 + d for the d-th after it.

    Both arguments are segments: of the tokens, and of the current sentence of each token's window. 0 is for
    padding. A sentence outside the window, which only a runaway hypothesis has, counts as the last inside it.
    """
    distance = (current - segments).clamp(-after, before)  # (windows, length)
    index = torch.where(distance >= 0, distance + 1, before + 1 - distance)
    return index.masked_fill(segments < 0, 0)


class SegmentEmbedding(nn.Module):
    """A vector for each distance from the current sentence: learned, a sinusoid, or one-hot."""

    def __init__(self, kind: Literal["sinusoidal", "learned", "one-hot"], windows: WindowSettings, width: int) -> None:
        super().__init__()
        self.before, self.after = windows.before, windows.after
        rows = windows.size + 1  # row 0 is for padding and stays zero
        if kind == "one-hot" and rows > width:
            raise FocatError(
                f"model.segment_embeddings: one-hot needs a model.d_model of {rows} or more for windows of "
                f"{windows.size} sentences, not {width}"
            )
        self.table: Tensor  # (size + 1, width)
        if kind == "learned":
            self.table = nn.Parameter(torch.empty(rows, width))
            nn.init.normal_(self.table, std=width**-0.5)
            nn.init.zeros_(self.table[0])
        else:
            one_hot = torch.eye(rows, width)
            table = one_hot if kind == "one-hot" else sinusoids(torch.arange(rows)[None], width)[0]
            self.register_buffer("table", table.index_fill(0, torch.tensor([0]), 0.0), persistent=False)

    def forward(self, segments: Tensor, current: Tensor) -> Tensor:
        """The embedding of each token, (windows, length, width), from segments of tokens and current sentences."""
        return F.embedding(distance_index(segments, current, self.before, self.after), self.table, padding_idx=0)

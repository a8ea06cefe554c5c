"""The input of encoder and decoder: the sum of token, position and segment embeddings.

Segment embeddings say how far a token's sentence is from the current one: the alternatives to shifted positions of
section 4.6 of the paper, and the one-hot variant of Lupo et al. (2023). One module serves encoder and decoder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import SPECIALS, START
from focat.errors import FocatError
from focat.model.fused_embeddings import fused_embeddings, has_fused_embeddings
from focat.model.fused_layers import has_fused_layers
from focat.model.positions import RotaryAngles, rope_angles, sinusoids
from focat.windows.batch import PaddedSequences, Sequences


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


@dataclass(frozen=True)
class Embedded:
    """The input of a stack of layers."""

    x: Tensor  # (windows, length, width)
    per_layer_embedding: Tensor | None  # the same shape: added again to the input of every layer but the first
    rope: RotaryAngles | None


def sum_embeddings(
    settings: ModelSettings,
    sequences: Sequences,
    positions: Tensor,
    table: nn.Embedding,
    learned: nn.Embedding | None,
    segment_embedding: SegmentEmbedding | None,
    dropout: nn.Dropout,
) -> Embedded:
    """The sum of token, position and segment embeddings, with dropout.

    Args:
        settings: of the model.
        sequences: one side of a batch.
        positions: in the shape of its tokens.
        table: embeddings of tokens.
        learned: embeddings of positions, if they are learned.
        segment_embedding: of sentences, if there is any.
        dropout: applied to the sum.
    """
    width = settings.d_model
    drops = dropout.training and dropout.p > 0
    if not drops and isinstance(sequences, PaddedSequences) and has_fused_embeddings(settings, table.weight):
        of = segment_embedding
        of_segments = (None, 0, 0) if of is None else (of.table, of.before, of.after)
        return Embedded(fused_embeddings(settings, sequences, positions, table.weight, *of_segments), None, None)
    x = table(sequences.tokens) * math.sqrt(width)  # (windows, length, width)
    if settings.start_embedding == "zero":
        x = x.masked_fill((sequences.tokens == START)[..., None], 0.0)
    rope = None
    if settings.positions == "rotary":
        rope = rope_angles(positions, width // settings.heads)
    elif learned is not None:
        # the furthest row serves for all beyond it, which no window has and only a runaway hypothesis reaches
        x = x + learned(positions.clamp(max=learned.num_embeddings - 1))
    else:
        x = x + sinusoids(positions + settings.position_offset, width, settings.sinusoids).to(x.dtype)
    x = x.to(_working_precision(x))
    if segment_embedding is None:
        return Embedded(dropout(x), None, rope)
    # The start symbol has the label of the current sentence, as in the authors' code; its position is in segment 0.
    current = sequences.current_segments
    segments = torch.where(sequences.tokens == START, current, sequences.segments)
    added = segment_embedding(segments, current).to(x.dtype)  # (windows, length, width)
    every_layer = settings.segment_embeddings_at == "every-layer"
    return Embedded(dropout(x + added), added if every_layer else None, rope)


def can_fuse_embeddings(settings: ModelSettings, table: nn.Embedding) -> bool:
    """Whether `fused_layers.embed` computes `sum_embeddings` in training, in the precision at hand."""
    plain = settings.positions == "sinusoidal" and settings.segment_embeddings == "none"
    like = table.weight.new_empty(0, settings.d_model, dtype=_working_precision(table.weight))
    return plain and settings.start_embedding == "learned" and has_fused_layers(like)


def hide_words(sequences: Sequences, rate: float, everywhere: bool) -> Sequences:
    """Replace some words of current sentences, or of all, by START, which stands for no word otherwise."""
    words = sequences.tokens >= SPECIALS
    if not everywhere:
        words = words & (sequences.segments == sequences.current_segments)
    hidden = words & (torch.rand(words.shape, device=words.device) < rate)
    return replace(sequences, tokens=sequences.tokens.masked_fill(hidden, START))


def _working_precision(x: Tensor) -> torch.dtype:
    """What passes from block to block is of the type that autocast computes in, or of the weights' own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def new_embedding(rows: int, width: int, padding: int | None = None) -> nn.Embedding:
    """Entries of variance 1/width, so that the product with a normalised vector has variance 1; padding is zero."""
    table = nn.Embedding(rows, width, padding)
    nn.init.normal_(table.weight, std=width**-0.5)
    if padding is not None:
        nn.init.zeros_(table.weight[padding])
    return table

"""The encoder-decoder Transformer over windows (section 3 of the paper), all it adds derived from segments.

Teacher forcing (`forward`) and step-by-step decoding (`start`, `step`) give the same representations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import PAD, SPECIALS, START
from focat.errors import FocatError
from focat.model.attention import Record
from focat.model.embeddings import SegmentEmbedding
from focat.model.kv_cache import BLOCK, DecoderCache, Memory
from focat.model.layers import DecoderLayer, EncoderLayer
from focat.model.masks import (
    causal,
    check_global_layers,
    masks_of_layers,
    opened_segments,
    whole_window,
)
from focat.model.positions import Rotary, furthest_position, rotary, sequence_shift, shifted_positions, sinusoids
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input, segments_of


@dataclass(frozen=True)
class AttentionWeights:
    """Weights of every layer, (windows, heads, queries, keys) each. The decoder's query t is what predicts label t."""

    encoder: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


@dataclass(frozen=True)
class Entry:
    """What goes into a stack of layers."""

    x: Tensor  # (windows, length, width)
    again: Tensor | None  # the same shape: what is added anew at the input of every layer but the first
    turn: Rotary | None


class Transformer(nn.Module):
    """Windows in, representations of every target position out; `project` makes logits of them."""

    def __init__(
        self,
        settings: ModelSettings,
        windows: WindowSettings,
        source_vocabulary: int,
        target_vocabulary: int,
        shift: int | Literal["avg-sequence"],
    ) -> None:
        super().__init__()
        check_global_layers(settings)
        if settings.embeddings == "shared" and source_vocabulary != target_vocabulary:
            raise FocatError(
                f"model.embeddings: shared needs one vocabulary, but the source has {source_vocabulary} pieces and the "
                f"target {target_vocabulary}: set data.tokenizer.joint, or model.embeddings: tied"
            )
        self.settings, self.windows, self.shift = settings, windows, shift
        width = settings.d_model
        # a matrix with two uses is kept under one name, so that a checkpoint holds it once
        self.target_embedding = _embedding(target_vocabulary, width, PAD)
        self.source_embedding = None if settings.embeddings == "shared" else _embedding(source_vocabulary, width, PAD)
        self.output = _embedding(target_vocabulary, width) if settings.embeddings == "separate" else None
        learned, rows = settings.positions == "learned", furthest_position(windows, shift)
        self.source_positions = _embedding(rows, width) if learned else None
        self.target_positions = _embedding(rows, width) if learned else None
        kind = settings.segment_embeddings
        self.segment_embedding = None if kind == "none" else SegmentEmbedding(kind, windows, width)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        pre = settings.norm == "pre"  # the sum that pre-norm layers add to is normalised once, at the end
        self.encoder_norm = nn.LayerNorm(width) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if pre else nn.Identity()

    @property
    def output_weight(self) -> Tensor:
        """(target vocabulary, width): the output projection, which has no bias."""
        return (self.target_embedding if self.output is None else self.output).weight

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", self.decoder)

    def project(self, hidden: Tensor) -> Tensor:
        """Logits over the target vocabulary, (…, target vocabulary)."""
        return F.linear(hidden, self.output_weight)

    def forward(self, source: PaddedSequences, target: PaddedSequences) -> Tensor:
        """The representation that predicts each label of `target`: (windows, target length, width)."""
        return self.decode(self.encode(source), decoder_input(target))

    def encode(self, source: PaddedSequences, record: Record | None = None) -> Memory:
        """Encode the source, once for everything that is decoded from it."""
        constant = None if self.shift == "avg-sequence" else torch.full_like(source.current, self.shift)
        shift = sequence_shift(source) if constant is None else constant  # (windows,)
        table = self.target_embedding if self.source_embedding is None else self.source_embedding
        positions = shifted_positions(source.segments, shift)  # (windows, source length)
        entry = self._enter(self._with_hidden_words(source), positions, table, self.source_positions)
        visible = whole_window(source.segments >= 0)
        masks = masks_of_layers(self.settings, len(self.encoder), source.segments, source.segments, visible)
        x = entry.x
        for i, (layer, mask) in enumerate(zip(self.encoder, masks, strict=True)):
            x = x if i == 0 or entry.again is None else x + entry.again
            run = layer if record is None else layer.forward  # the bare method is never compiled; lists are not for it
            x = run(x, mask, entry.turn, record)
        return Memory(self.encoder_norm(x), source, shift)

    def decode(
        self, memory: Memory, side: PaddedSequences, record: Record | None = None, cross_record: Record | None = None
    ) -> Tensor:
        """Read the decoder's input, all positions at once: (windows, target length, width)."""
        positions = shifted_positions(side.segments, memory.shift)  # (windows, target length)
        entry = self._enter(side, positions, self.target_embedding, self.target_positions)
        opened, layers, length = opened_segments(side.tokens), len(self.decoder), side.tokens.shape[1]
        visible = causal(length, length, side.tokens.device)  # padding comes last: no real query sees it
        masks = masks_of_layers(self.settings, layers, opened, opened, visible)
        cross_masks = self._cross_masks(memory.source, side.current[:, None] - opened)
        x = entry.x
        for i, (layer, mask, cross) in enumerate(zip(self.decoder, masks, cross_masks, strict=True)):
            x = x if i == 0 or entry.again is None else x + entry.again
            own = None if mask is visible else mask  # plain causality has a faster kernel, which needs no mask
            run = layer if record is None else layer.forward
            x = run(x, memory.hidden, own, cross, entry.turn, record, cross_record)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    @torch.no_grad()
    def attention(self, source: PaddedSequences, target: PaddedSequences) -> AttentionWeights:
        """Teacher-forced attention weights, for the analyses."""
        encoder: Record = []
        decoder: Record = []
        cross: Record = []
        self.decode(self.encode(source, encoder), decoder_input(target), decoder, cross)
        return AttentionWeights(tuple(encoder), tuple(decoder), tuple(cross))

    @torch.no_grad()
    def start(
        self, memory: Memory, beam: int = 1, current: Tensor | None = None, room: int | None = None
    ) -> DecoderCache:
        """Begin `beam` hypotheses for each window; the first token to give to `step` is the start symbol.

        `current` is the segment the current sentence will have on the target, (windows,): if not given, as many
        context sentences as the source has, within what target windows may have. There is room for so many tokens of a
        window, and more is made when needed.
        """
        if current is None:
            current = memory.source.current.clamp(max=self.windows.target[0])
        # (layers, 2, windows, heads, source length, head width)
        remembered = torch.stack(
            [torch.stack(layer.cross_attention.remember(memory.hidden)) for layer in self._decoder_layers]
        )
        layers, two, windows, heads, _, head_width = remembered.shape
        room = room or beam * BLOCK
        past = remembered.new_empty(layers, two, windows, room, heads, head_width)
        branch = torch.zeros(windows, beam, room, dtype=torch.bool, device=past.device)
        none = current.new_zeros(windows, beam)
        return DecoderCache(
            past=past,
            branch=branch,
            sentences=current.new_zeros(windows, room),
            read=none,
            closed=none.clone(),
            used=current.new_zeros(()),
            remembered=remembered,
            source=memory.source,
            shift=memory.shift,
            current=current,
        )

    @torch.no_grad()
    def step(self, cache: DecoderCache, tokens: Tensor, columns: int | None = None, last: bool = False) -> Tensor:
        """Read the next tokens of each row, (rows, new): (rows, new, width), as teacher forcing would give it.

        With `last`, where there is one row to a window, only for the last of them: (rows, 1, width).

        PAD is skipped over, so that prefixes of different lengths can be read together; what comes out there is noise.
        With `columns`, attention spans so many columns of the cache, in use or not: shapes that stay as they are.
        """
        rows, new = tokens.shape
        windows = cache.current.shape[0]
        segments = segments_of(tokens)  # (rows, new), counted from the first of the new tokens, as positions are
        shift = cache.shift.repeat_interleave(cache.beam, output_size=rows)
        before, closed = cache.read.view(-1), cache.closed.view(-1)
        positions = shifted_positions(segments, shift) + (before + closed * shift)[:, None]
        segments = torch.where(segments < 0, segments, segments + closed[:, None])
        side = PaddedSequences(
            tokens.reshape(windows, -1), segments.reshape(windows, -1), cache.current
        )  # (windows, beam · new)
        entry = self._enter(side, positions.reshape(windows, -1), self.target_embedding, self.target_positions)
        reading = cache.append(tokens, columns)
        layers = len(self.decoder)
        masks = masks_of_layers(self.settings, layers, reading.queries, reading.sentences, reading.visible)
        cross_masks = self._cross_masks(cache.source, cache.current[:, None] - reading.queries)
        x = entry.x
        for i, layer in enumerate(self._decoder_layers):
            x = x if i == 0 or entry.again is None else x + entry.again
            keys, values = cache.remembered[i]
            only_last = last and i == layers - 1
            x = layer.step(x, reading.pasts[i], keys, values, masks[i], cross_masks[i], entry.turn, only_last)
        hidden: Tensor = self.decoder_norm(x)
        return hidden.view(rows, 1 if last else new, -1)

    def _with_hidden_words(self, source: PaddedSequences) -> PaddedSequences:
        """In training, some words of the current sentence give way to START, which no source has otherwise."""
        rate = self.settings.word_dropout
        if not self.training or not rate:
            return source
        words = (source.segments == source.current[:, None]) & (source.tokens >= SPECIALS)
        hidden = words & (torch.rand(words.shape, device=words.device) < rate)
        return replace(source, tokens=source.tokens.masked_fill(hidden, START))

    def _enter(
        self, side: PaddedSequences, positions: Tensor, table: nn.Embedding, learned: nn.Embedding | None
    ) -> Entry:
        """Tokens, positions and segments, added up."""
        width = self.settings.d_model
        x = table(side.tokens) * math.sqrt(width)  # (windows, length, width)
        turn = None
        if self.settings.positions == "rotary":
            turn = rotary(positions, width // self.settings.heads)
        elif learned is not None:
            # the furthest row serves for all beyond it, which no window has and only a runaway hypothesis reaches
            x = x + learned(positions.clamp(max=learned.num_embeddings - 1))
        else:
            x = x + sinusoids(positions, width).to(x.dtype)
        x = x.to(_working_precision(x))
        if self.segment_embedding is None:
            return Entry(self.dropout(x), None, turn)
        added = self.segment_embedding(side.segments, side.current).to(x.dtype)  # (windows, length, width)
        again = added if self.settings.segment_embeddings_at == "every-layer" else None
        return Entry(self.dropout(x + added), again, turn)

    def _cross_masks(self, source: PaddedSequences, distance: Tensor) -> list[Tensor]:
        """What target tokens see of the source, by how far their sentence is from the current one, (windows, queries).

        By distance, because the two sides may have different numbers of context sentences.
        """
        key_distance = source.current[:, None] - source.segments
        visible = whole_window(source.segments >= 0)
        return masks_of_layers(self.settings, len(self.decoder), distance, key_distance, visible)


def _working_precision(x: Tensor) -> torch.dtype:
    """What passes from block to block is of the type that autocast computes in, or of the weights' own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _embedding(rows: int, width: int, padding: int | None = None) -> nn.Embedding:
    """Entries of variance 1/width, so that the product with a normalised vector has variance 1; padding is zero."""
    table = nn.Embedding(rows, width, padding)
    nn.init.normal_(table.weight, std=width**-0.5)
    if padding is not None:
        nn.init.zeros_(table.weight[padding])
    return table

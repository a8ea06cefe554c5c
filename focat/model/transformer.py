"""The encoder-decoder Transformer over windows (section 3 of the paper), all it adds derived from segments.

Teacher forcing (`forward`) and step-by-step decoding (`init_cache`, `decode_step`) give the same representations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.errors import FocatError
from focat.model.attention import AttentionWeights, WeightsOut
from focat.model.context import ContextAttention, ContextKeys
from focat.model.context_encoder import ContextEncoder, decoder_place, encoder_place
from focat.model.embeddings import (
    Embedded,
    SegmentEmbedding,
    can_fuse_embeddings,
    hide_words,
    new_embedding,
    sum_embeddings,
)
from focat.model.fused_layers import drawn_seeds, embed
from focat.model.global_attention import GlobalKV
from focat.model.kv_cache import CAPACITY_STEP, EncoderOutput, TreeKVCache
from focat.model.layers import DecoderLayer, EncoderLayer, LayerContext, SerialContext, normalise
from focat.model.masks import (
    GatedMask,
    check_global_layers,
    cross_masks,
    decoder_masks,
    has_two_attentions,
    layer_masks,
    opened_segments,
    own_sentence_mask,
    padding_mask,
)
from focat.model.next_tokens import read_next
from focat.model.packed_stacks import decode_packed, encode_packed
from focat.model.positions import (
    furthest_position,
    positions_of,
    sentence_positions,
    sequence_shift,
    shifted_positions,
    sinusoids,
)
from focat.model.tree_attention import TreeMask, tree_masks
from focat.windows.batch import BLOCK, PackedSequences, PaddedSequences, Sequences
from focat.windows.segments import decoder_input

# Bias of the logit of a special token that an imported model does not have, so that it is never predicted: far below
# other logits, and not so far that label smoothing, which averages all logits, would be about it.
UNUSED_BIAS = -100.0


class Transformer(nn.Module):
    """Windows in, representations of every target position out; `project` makes logits of them."""

    predicts_context = True
    """Whether representations of context sentences predict their tokens, too."""

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
        self.target_embedding = new_embedding(target_vocabulary, width, PAD)
        self.source_embedding = (
            None if settings.embeddings == "shared" else new_embedding(source_vocabulary, width, PAD)
        )
        self.output = new_embedding(target_vocabulary, width) if settings.embeddings == "separate" else None
        self._sinusoids: Tensor | None = None
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary)) if settings.output_bias else None
        learned, rows = settings.positions == "learned", furthest_position(windows, shift)
        self.source_positions = new_embedding(rows, width) if learned else None
        self.target_positions = new_embedding(rows, width) if learned else None
        kind = settings.segment_embeddings
        self.segment_embedding = None if kind == "none" else SegmentEmbedding(kind, windows, width)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EncoderLayer(settings, encoder_place(settings, i), has_two_attentions(settings, i, "encoder"))
            for i in range(settings.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(settings, decoder_place(settings), has_two_attentions(settings, i, "decoder"))
            for i in range(settings.decoder_layers)
        )
        self.context = ContextEncoder(settings, windows) if settings.context or settings.second_pass else None
        pre = settings.norm == "pre"  # the sum that pre-norm layers add to is normalised once, at the end
        self.encoder_norm = nn.LayerNorm(width) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if pre else nn.Identity()

    @property
    def output_weight(self) -> Tensor:
        """(target vocabulary, width): the output projection; its bias, if it has one, is `output_bias`."""
        return (self.target_embedding if self.output is None else self.output).weight

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", self.decoder)

    @property
    def _context_attentions(self) -> list[ContextAttention]:
        """Attentions of the decoder's layers to the context, if they have them."""
        found = [layer.context for layer in self._decoder_layers]
        parallel = [each.attention if isinstance(each, SerialContext) else each for each in found]
        return [each for each in parallel if each is not None]

    def project(self, hidden: Tensor) -> Tensor:
        """Logits over the target vocabulary, (…, target vocabulary)."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def forward(self, source: Sequences, target: Sequences) -> Tensor:
        """Teacher forcing: the representation that predicts each token of `target`, (windows, target length, width).

        Both sides are padded, or both are packed.
        """
        with drawn_seeds(source.tokens.device):
            encoded = self.encode(source)
            return self.decode(encoded, decoder_input(target))

    def shift_of(self, source: Sequences) -> Tensor:
        """The segment shift of each window, (windows,)."""
        return sequence_shift(source) if self.shift == "avg-sequence" else torch.full_like(source.current, self.shift)

    @property
    def _source_table(self) -> nn.Embedding:
        return self.target_embedding if self.source_embedding is None else self.source_embedding

    def embed_source(self, source: Sequences, shift: Tensor) -> Embedded:
        """The input of the encoder; shift is (windows,)."""
        return self._embed(source, positions_of(source, shift), self._source_table, self.source_positions)

    def embed_target(self, target_input: Sequences, positions: Tensor) -> Embedded:
        """The input of the decoder; positions are in the shape of the tokens."""
        return self._embed(target_input, positions, self.target_embedding, self.target_positions)

    def encode(self, source: Sequences, weights_out: WeightsOut | None = None) -> EncoderOutput:
        """Encode the source windows.

        Args:
            source: (windows, source length).
            weights_out: if given, the attention weights of each layer are appended to it.
        """
        shift = self.shift_of(source)  # (windows,)
        if self.context is not None:
            assert isinstance(source, PaddedSequences)
            return self._encode_apart(self.context, source, self._source_table, shift, weights_out)
        embedded = self.embed_source(self._with_word_dropout(source, "source"), shift)
        if isinstance(source, PackedSequences):
            layers = cast("list[EncoderLayer]", self.encoder)
            hidden = encode_packed(self.settings, layers, source, embedded, _last_norm(self.encoder_norm))
            return EncoderOutput(hidden, source, shift)
        visible = padding_mask(source.segments >= 0)
        masks = layer_masks(self.settings, len(self.encoder), source.segments, source.segments, visible, "encoder")
        x = embedded.x
        for i, (layer, mask) in enumerate(zip(self.encoder, masks, strict=True)):
            x = x if i == 0 or embedded.per_layer_embedding is None else x + embedded.per_layer_embedding
            # `forward` is not compiled: it may fill a list, and has many shapes outside training
            run = layer if self.training and weights_out is None else layer.forward
            x = run(x, mask, embedded.rope, weights_out)
        return EncoderOutput(normalise(self.encoder_norm, x), source, shift)

    def _encode_apart(
        self,
        context_encoder: ContextEncoder,
        source: PaddedSequences,
        table: nn.Embedding,
        shift: Tensor,
        weights_out: WeightsOut | None,
    ) -> EncoderOutput:
        """Encode each sentence of the source windows alone, as a sentence-level system does, and attend to the context.

        Sentences are told apart by masks, positions start again in each, and all end with the end symbol.
        """
        source = replace(source, tokens=source.tokens.masked_fill(source.tokens == SEPARATOR, END))
        words, keys = self._with_word_dropout(source, "source"), ContextKeys.of(source)
        embedded = self._embed(words, sentence_positions(source.segments), table, self.source_positions)
        own = own_sentence_mask(source.segments, source.segments, padding_mask(source.segments >= 0))
        context = None
        if context_encoder.kind == "separate":  # all context sentences, joined
            joined = self._embed(words, shifted_positions(source.segments, shift), table, self.source_positions)
            context = context_encoder.encode(joined.x, keys.mask, joined.rope)
        x = embedded.x
        for i, layer in enumerate(self.encoder):
            if i == len(self.encoder) - 1 and context_encoder.kind == "last-own":
                context = context_encoder.encode(x, own, embedded.rope)
            run = layer if self.training and weights_out is None else layer.forward
            x = run(x, own, embedded.rope, weights_out, None if context is None else LayerContext(keys, context))
        hidden = normalise(self.encoder_norm, x)
        context = hidden if context is None else context
        distances = [d for d in range(-self.windows.after, self.windows.before + 1) if d]
        hidden = context_encoder.mix(hidden, context, source, keys, distances, weights_out)
        return EncoderOutput(hidden, source, shift, context)

    def decode(
        self,
        encoded: EncoderOutput,
        target_input: Sequences,
        weights_out: WeightsOut | None = None,
        cross_weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Run the decoder over all positions of its input at once.

        Args:
            encoded: the encoded source.
            target_input: (windows, target length), the start symbol first.
            weights_out, cross_weights_out: if given, the weights of self- and cross-attention are appended to them.

        Returns:
            (windows, target length, width).
        """
        words = self._with_word_dropout(target_input, "target")
        embedded = self.embed_target(words, positions_of(target_input, encoded.shift))
        if isinstance(encoded.source, PackedSequences):
            assert isinstance(target_input, PackedSequences)
            last_norm = _last_norm(self.decoder_norm)
            return decode_packed(
                self.settings, self._decoder_layers, encoded.hidden, encoded.source, target_input, embedded, last_norm
            )
        assert isinstance(target_input, PaddedSequences)
        opened = opened_segments(target_input)
        masks = decoder_masks(self.settings, opened)
        of_source = cross_masks(self.settings, encoded.source, target_input.current_segments, opened)
        context = None
        if self._context_attentions:
            context = LayerContext(ContextKeys.of(encoded.source), encoded.context)
        x = embedded.x
        for i, (layer, mask, cross) in enumerate(zip(self.decoder, masks, of_source, strict=True)):
            x = x if i == 0 or embedded.per_layer_embedding is None else x + embedded.per_layer_embedding
            run = layer if self.training and weights_out is None else layer.forward
            x = run(x, encoded.hidden, mask, cross, embedded.rope, weights_out, cross_weights_out, context)
        return normalise(self.decoder_norm, x)

    @torch.no_grad()
    def attention(self, source: PaddedSequences, target: PaddedSequences) -> AttentionWeights:
        """Teacher-forced attention weights, for the analyses."""
        encoder: WeightsOut = []
        decoder: WeightsOut = []
        cross: WeightsOut = []
        self.decode(self.encode(source, encoder), decoder_input(target), decoder, cross)
        return AttentionWeights(tuple(encoder), tuple(decoder), tuple(cross))

    @torch.no_grad()
    def init_cache(
        self, encoded: EncoderOutput, beam: int = 1, current: Tensor | None = None, capacity: int | None = None
    ) -> TreeKVCache:
        """An empty KV cache for step-by-step decoding; the first token to give to `decode_step` is the start symbol.

        Args:
            encoded: the encoded source.
            beam: hypotheses for each window.
            current: (windows,) segment that the current sentence will have on the target. By default, as many context
                sentences as the source has, within what target windows may have.
            capacity: columns to allocate, one for each token of each hypothesis; the cache grows when they are used up.
        """
        assert isinstance(encoded.source, PaddedSequences)
        if current is None:
            current = encoded.source.current.clamp(max=self.windows.target[0])
        source_kv = [each for keys_values in self._source_kv(encoded) for each in keys_values]
        # (layers, 2, windows, heads, source length, head width)
        cross_kv = torch.stack(source_kv).view(-1, 2, *source_kv[0].shape)
        _, two, windows, heads, _, head_width = cross_kv.shape
        layers, capacity = self._cached_layers, capacity or beam * CAPACITY_STEP
        zeros = current.new_zeros(windows, beam)
        return TreeKVCache(
            self_kv=cross_kv.new_empty(layers, two, windows, capacity, heads, head_width),
            ancestor_mask=torch.zeros(windows, beam, capacity, dtype=torch.bool, device=cross_kv.device),
            opened_segments=current.new_zeros(windows, capacity),
            lengths=zeros,
            num_separators=zeros.clone(),
            write_pos=current.new_zeros(()),
            cross_kv=cross_kv,
            source=encoded.source,
            shift=encoded.shift,
            current=current,
        )

    @property
    def _cached_layers(self) -> int:
        """Attentions whose keys and values of target tokens are cached: of each layer, then those to the window."""
        return len(self.decoder) + sum(layer.global_self_attention is not None for layer in self._decoder_layers)

    def _source_kv(self, encoded: EncoderOutput) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the source for each layer; then those of the context where layers attend to it, or of
        attentions to the window beside those to the own sentence."""
        projected = [layer.project_kv(encoded.hidden) for layer in self._decoder_layers]
        found = [of_layer for of_layer, _ in projected]
        found += [of_window for _, of_window in projected if of_window is not None]
        for attention in self._context_attentions:
            assert encoded.context is not None
            found.append(attention.attention.project_kv(encoded.context))
        return found

    @torch.no_grad()
    def decode_step(
        self,
        cache: TreeKVCache,
        tokens: Tensor,
        columns: int | None = None,
        last_only: bool = False,
        branches: Tensor | None = None,
    ) -> Tensor:
        """Run the decoder over the next tokens of each hypothesis, and add them to the cache.

        Args:
            cache: what has been read so far.
            tokens: (rows, new). PAD is skipped, so that prefixes of different lengths can be read together.
            columns: attention spans so many columns of the cache, in use or not, so that shapes stay the same.
            last_only: compute the last position alone; for one hypothesis to a window.
            branches: if given, the cache is empty and each row of tokens is a tree; see `TreeKVCache.append`.

        Returns:
            (rows, new, width), as teacher forcing would give it, or (rows, 1, width); undefined on PAD.
        """
        rows, new = tokens.shape
        read = read_next(cache, tokens, columns, branches)
        inputs = read.inputs
        embedded = self.embed_target(read.target_input, read.positions)
        layers = len(self.decoder)
        masks: Sequence[Tensor | TreeMask | GatedMask]
        masks = layer_masks(self.settings, layers, inputs.query_segments, inputs.key_segments, inputs.mask, "decoder")
        of_source: Sequence[Tensor | TreeMask | GatedMask]
        of_source = cross_masks(self.settings, cache.source, cache.current[:, None], inputs.query_segments)
        if new == 1 and not last_only:
            masks, of_source = tree_masks(masks, embedded.x), tree_masks(of_source, embedded.x)
        context_keys = ContextKeys.of(cache.source) if self._context_attentions else None
        x, context = embedded.x, None
        row = layers  # of the cache, where what follows the layers' own keys and values is read
        for i, layer in enumerate(self._decoder_layers):
            x = x if i == 0 or embedded.per_layer_embedding is None else x + embedded.per_layer_embedding
            keys, values = cache.cross_kv[i]
            global_kv = None
            if context_keys is not None:
                cached = cache.cross_kv[row]
                context = LayerContext(context_keys, cached=(cached[0], cached[1]))
            elif layer.global_self_attention is not None:
                cached = cache.cross_kv[row]
                global_kv = GlobalKV(inputs.layers[row], (cached[0], cached[1]))
            row += context is not None or global_kv is not None
            own, last, rope = inputs.layers[i], last_only and i == layers - 1, embedded.rope
            x = layer.decode_step(x, own, keys, values, masks[i], of_source[i], rope, last, context, global_kv)
        hidden = normalise(self.decoder_norm, x)
        return hidden.view(rows, 1 if last_only else new, -1)

    def compile_for_training(self, options: dict[str, Any]) -> None:
        """Compile the layers for training on padded windows; everything else runs as it is written."""
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=True, options=options)  # one compilation serves all layers of a stack

    def _with_word_dropout(self, sequences: Sequences, side: Literal["source", "target"]) -> Sequences:
        """In training, some words hidden: of current source sentences, or of everything that is read."""
        rate, everywhere = self.settings.word_dropout, self.settings.word_dropout_in == "window"
        if not self.training or not rate or (side == "target" and not everywhere):
            return sequences
        return hide_words(sequences, rate, everywhere)

    def _embed(
        self, sequences: Sequences, positions: Tensor, table: nn.Embedding, learned: nn.Embedding | None
    ) -> Embedded:
        """The sum of token, position and segment embeddings."""
        settings, segments = self.settings, self.segment_embedding
        if self.training and isinstance(sequences, PackedSequences) and can_fuse_embeddings(settings, table):
            places = positions + settings.position_offset
            x = embed(sequences.tokens, places, table.weight, self._sinusoid_table(places), self.dropout.p)
            return Embedded(x, None, None)
        return sum_embeddings(settings, sequences, positions, table, learned, segments, self.dropout)

    def _sinusoid_table(self, positions: Tensor) -> Tensor:
        """Sinusoids of all positions of windows, (positions, width), made once."""
        if self._sinusoids is None or self._sinusoids.device != positions.device:
            rows = max(furthest_position(self.windows, self.shift), BLOCK) + self.settings.position_offset
            places = torch.arange(rows, device=positions.device)[None]
            self._sinusoids = sinusoids(places, self.settings.d_model, self.settings.sinusoids)[0]
        return self._sinusoids


def _last_norm(norm: nn.Module) -> nn.LayerNorm | None:
    return norm if isinstance(norm, nn.LayerNorm) else None

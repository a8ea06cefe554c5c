"""The stacks of encoder and decoder over packed windows, in training.

Between layers go two tensors: what a residual connection adds to, and what the next block reads. So normalisation is
fused with the sum before it, also from layer to layer, and their gradients are added where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from torch import Tensor, nn

from focat.config.schema import ModelSettings
from focat.model.embeddings import Embedded
from focat.model.layers import DecoderLayer, EncoderLayer, Stream
from focat.model.masks import opened_segments, packed_masks
from focat.model.source_projection import project_source
from focat.windows.batch import PackedSequences


def encode_packed(
    settings: ModelSettings,
    layers: Sequence[EncoderLayer],
    source: PackedSequences,
    embedded: Embedded,
    last_norm: nn.LayerNorm | None,
) -> Tensor:
    """The output of the encoder, (1, tokens, width); `last_norm` is behind its last layer."""
    sentences = None if settings.attention == "full" else (source.segments, source.segments)
    masks = packed_masks(settings, len(layers), source, source, sentences, "encoder")
    stream = layers[0].self_attention_residual.pre_packed(embedded.x)
    for i, (layer, mask) in enumerate(zip(layers, masks, strict=True)):
        stream = layer.packed(stream, mask, embedded.rope, _following(layers, i, embedded, last_norm))
        stream = _enter_next(stream, layers, i, embedded)
    return stream[1]


def decode_packed(
    settings: ModelSettings,
    layers: Sequence[DecoderLayer],
    encoded: Tensor,
    source: PackedSequences,
    target_input: PackedSequences,
    embedded: Embedded,
    last_norm: nn.LayerNorm | None,
) -> Tensor:
    """The same of the decoder; `encoded` is the source, (1, source tokens, width)."""
    own_sentences = distances = None
    if settings.attention != "full":
        opened = opened_segments(target_input)
        own_sentences = opened, opened
        distances = target_input.current_segments - opened, source.current_segments - source.segments
    masks = packed_masks(settings, len(layers), target_input, target_input, own_sentences, "decoder", True)
    cross = packed_masks(settings, len(layers), target_input, source, distances, "decoder")
    projections = [each.kv_proj for layer in layers for each in layer.source_attentions]
    source_kv = iter(project_source(encoded, projections, settings.heads))
    stream = layers[0].self_attention_residual.pre_packed(embedded.x)
    for i, (layer, own, other) in enumerate(zip(layers, masks, cross, strict=True)):
        kv = list(islice(source_kv, len(layer.source_attentions)))
        stream = layer.packed(stream, kv, own, other, embedded.rope, _following(layers, i, embedded, last_norm))
        stream = _enter_next(stream, layers, i, embedded)
    return stream[1]


def _following(
    layers: Sequence[EncoderLayer | DecoderLayer], i: int, embedded: Embedded, last_norm: nn.LayerNorm | None
) -> nn.LayerNorm | None:
    """The normalisation behind layer i where it comes before blocks, if nothing is added in between."""
    if i == len(layers) - 1:
        return last_norm
    return None if embedded.per_layer_embedding is not None else layers[i + 1].self_attention_residual.norm


def _enter_next(stream: Stream, layers: Sequence[EncoderLayer | DecoderLayer], i: int, embedded: Embedded) -> Stream:
    """Add what is added to the input of every layer."""
    if i == len(layers) - 1 or embedded.per_layer_embedding is None:
        return stream
    x = stream[0] + embedded.per_layer_embedding
    return layers[i + 1].self_attention_residual.pre_packed(x)

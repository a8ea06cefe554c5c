"""Attention masks over segments: True where a query sees a key.

`full` is the paper's; `long-short` (Zhang et al., 2020) and `group` (after Bao et al., 2021) keep some heads or layers
inside their own sentence; `gated-group` (Bao et al., 2021) has two masks where a layer has two attentions. The same
rules hold in the encoder, in the decoder and between them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from focat.config.schema import ModelSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.errors import FocatError
from focat.model.packed_attention import PackedMask
from focat.windows.batch import PackedSequences, PaddedSequences, Sequences

Mask = TypeVar("Mask", Tensor, PackedMask)
Stack = Literal["encoder", "decoder"]
"""Whose queries a mask is for."""


class GatedMask(NamedTuple):
    """What the two attentions of a layer see: the own sentence, and the window."""

    own: Tensor | PackedMask
    window: Tensor | PackedMask | None  # None for causal attention

    def last(self) -> GatedMask:
        """Of the last query alone."""
        assert isinstance(self.own, Tensor)
        assert isinstance(self.window, Tensor)
        return GatedMask(self.own[..., -1:, :], self.window[..., -1:, :])


def opened_segments(target_input: Sequences) -> Tensor:
    """The sentence that each token of the decoder's input helps to produce: the separators up to and including it.

    A separator closes a sentence for positions and embeddings, but the word predicted where it is read is the first of
    the next sentence. Kept inside "its own" sentence by the segment of the input, that word would see the previous
    sentence alone; so, for masks, a separator opens a sentence just as the start symbol does. It needs no look-ahead.
    """
    opened = (target_input.tokens == SEPARATOR).cumsum(-1)  # (windows, length)
    if isinstance(target_input, PackedSequences):  # one row: what earlier windows opened does not count
        return opened - opened[0, target_input.bounds.long().clamp(max=opened.shape[1] - 1)][target_input.window]
    return opened


def padding_mask(real: Tensor) -> Tensor:
    """Every query sees every key that is not padding: (windows, 1, 1, keys)."""
    return real[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """The last `queries` of `keys` tokens see themselves and what came before: (1, 1, queries, keys)."""
    return torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def causal_mask_with_padding(real: Tensor, queries: int) -> Tensor:
    """The same where padding may stand between tokens: (windows, 1, queries, keys).

    Only padding sees padding, and only itself, lest it see nothing and become a NaN, which no weight of zero stops.
    """
    keys = real.shape[1]
    before = causal_mask(queries, keys, real.device)
    return before & (padding_mask(real) | before.triu(keys - queries))


def own_sentence_mask(query_sentence: Tensor, key_sentence: Tensor, visible: Tensor) -> Tensor:
    """A query sees the visible keys of its own sentence, or, where there are none, all visible keys.

    None are left when a hypothesis has more sentences than its source; to see nothing would be not a number.
    """
    own = (query_sentence[:, None, :, None] == key_sentence[:, None, None, :]) & visible  # (windows, 1, queries, keys)
    return own | (visible & ~own.any(-1, keepdim=True))


def long_short_mask(own: Tensor, visible: Tensor, heads: int, local_heads: int) -> Tensor:
    """The first `local_heads` heads see their own sentence, the others the window: (windows, heads, queries, keys)."""
    local = torch.arange(heads, device=own.device) < local_heads
    return torch.where(local[:, None, None], own, visible)


def group_masks(settings: ModelSettings, layers: int, stack: Stack, own: Mask, visible: Mask) -> list[Mask | GatedMask]:
    """Own sentence only, except in the global layers, which see the window instead, or both: one for each layer."""
    opened: Mask | GatedMask = GatedMask(own, visible) if settings.attention == "gated-group" else visible
    return [opened if layer in global_layers(settings, layers, stack) else own for layer in range(layers)]


def packed_masks(
    settings: ModelSettings,
    layers: int,
    queries: PackedSequences,
    keys: PackedSequences,
    sentences: tuple[Tensor, Tensor] | None,
    stack: Stack,
    causal: bool = False,
) -> list[PackedMask | GatedMask]:
    """`layer_masks` of packed windows.

    Sentences are (1, queries) and (1, keys); each query's has a key. None where all queries see the window.
    """
    query_sentences, key_sentences = (queries.window, keys.window) if sentences is None else map(Tensor.int, sentences)

    def mask(local_heads: int) -> PackedMask:
        bounds, blocks = (queries.bounds, keys.bounds), (queries.blocks, keys.blocks)
        own = query_sentences[0], key_sentences[0]
        return PackedMask(*bounds, *blocks, *own, causal, local_heads, same_side=queries is keys)

    if settings.attention == "full":
        return [mask(0)] * layers
    if settings.attention == "long-short":
        return [mask(settings.local_heads or settings.heads // 2)] * layers
    return group_masks(settings, layers, stack, mask(settings.heads), mask(0))


def layer_masks(
    settings: ModelSettings, layers: int, query_sentence: Tensor, key_sentence: Tensor, visible: Tensor, stack: Stack
) -> list[Tensor | GatedMask]:
    """What each layer of a stack lets its heads see, of the keys `visible` to all; one tensor shared by many layers.

    Sentences are given as any numbers, (windows, queries) and (windows, keys), that are equal for the same sentence.
    """
    if settings.attention == "full":
        return [visible] * layers
    own = own_sentence_mask(query_sentence, key_sentence, visible)
    if settings.attention == "long-short":
        local_heads = settings.local_heads or settings.heads // 2
        return [long_short_mask(own, visible, settings.heads, local_heads)] * layers
    return group_masks(settings, layers, stack, own, visible)


def decoder_masks(settings: ModelSettings, opened: Tensor) -> list[Tensor | GatedMask | None]:
    """What target tokens see of the target in each layer, in teacher forcing; None for plain causality.

    Args:
        settings: of the model.
        opened: (windows, length) opened segments of the target tokens.
    """
    length = opened.shape[1]
    visible = causal_mask(length, length, opened.device)  # padding comes last: no real query sees it
    masks = layer_masks(settings, settings.decoder_layers, opened, opened, visible, "decoder")
    # plain causality has a faster kernel, which needs no mask
    masks = [mask._replace(window=None) if isinstance(mask, GatedMask) else mask for mask in masks]
    return [None if mask is visible else mask for mask in masks]


def cross_masks(
    settings: ModelSettings, source: PaddedSequences, current: Tensor, opened: Tensor
) -> list[Tensor | GatedMask]:
    """What target tokens see of the source in each layer, by how far their sentence is from the current one.

    By distance, because the two sides may have different numbers of context sentences.

    Args:
        settings: of the model.
        source: the source.
        current: (windows, 1) segment of the current sentence on the target.
        opened: (windows, queries) opened segments of the target tokens.
    """
    layers, real = settings.decoder_layers, source.segments >= 0
    sees_window = settings.context is None and settings.second_pass is None
    if settings.attention == "full" and sees_window:
        return [padding_mask(real)] * layers
    distance, key_distance = current - opened, source.current[:, None] - source.segments
    if settings.context and settings.context.at == "global-layer":
        return [own_sentence_mask(distance, key_distance, padding_mask(real))] * layers
    visible = padding_mask(real if sees_window else real & (key_distance == 0))
    return layer_masks(settings, layers, distance, key_distance, visible, "decoder")


def has_two_attentions(settings: ModelSettings, layer: int, stack: Stack) -> bool:
    """Whether a layer of a stack attends to its own sentence and to the window."""
    layers = settings.encoder_layers if stack == "encoder" else settings.decoder_layers
    return settings.attention == "gated-group" and layer in global_layers(settings, layers, stack)


def global_layers(settings: ModelSettings, layers: int, stack: Stack) -> tuple[int, ...]:
    """Layers of a stack with (gated) group attention that see the whole window: by default the top two."""
    if stack == "decoder" and settings.decoder_global_layers is not None:
        return settings.decoder_global_layers
    return tuple(range(max(layers - 2, 0), layers)) if settings.global_layers is None else settings.global_layers


def check_global_layers(settings: ModelSettings) -> None:
    """Refuse layers that neither stack has."""
    highest = max(settings.encoder_layers, settings.decoder_layers) - 1
    for name in ("global_layers", "decoder_global_layers"):
        for layer in getattr(settings, name) or ():
            if layer > highest:
                raise FocatError(f"model.{name} names layer {layer}: layers are counted from 0 to {highest}")

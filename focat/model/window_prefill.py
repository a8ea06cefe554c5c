"""Prefill on CPUs without padding: the tokens of some windows in one row, one window behind the other.

All but attention goes token by token, and `window_attention` keeps the windows apart. Padded windows are the reference,
and serve what this does not: attention to parts of a window, contexts encoded apart, other devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from focat.model.attention import LayerKV
from focat.model.decode_attention import WindowMask, has_window_attention
from focat.model.kv_cache import KVMemory, TreeKVCache
from focat.model.layers import DecoderLayer, EncoderLayer, normalise
from focat.model.next_tokens import NextTokens, read_next
from focat.model.transformer import Transformer
from focat.windows.batch import PackedSequences, PaddedSequences


def can_prefill_windows(model: Transformer) -> bool:
    """Whether `prefill_windows` serves this model, here."""
    settings = model.settings
    whole = settings.attention == "full" and settings.context is None and settings.second_pass is None
    return whole and has_window_attention(model.output_weight, settings.d_model // settings.heads)


def prefill_windows(
    model: Transformer,
    source: PaddedSequences,
    prefixes: Tensor,
    parts: Iterable[slice],
    columns: int,
    memory: KVMemory,
) -> tuple[TreeKVCache, Tensor]:
    """Encode the sources and read the prefixes, some windows at a time.

    Args:
        model: one that `can_prefill_windows`.
        source: (windows, source length).
        prefixes: (windows, prefix length), padding in front.
        parts: the windows that are read together.
        columns: of the cache.
        memory: for keys and values.

    Returns:
        The KV cache with one hypothesis to a window, and what predicts the first token, (windows, width).
    """
    cache = _empty_cache(model, source, columns, memory)
    read = read_next(cache, prefixes)
    return cache, torch.cat([_prefill_part(model, cache, read, windows) for windows in parts])


def _empty_cache(model: Transformer, source: PaddedSequences, columns: int, memory: KVMemory) -> TreeKVCache:
    settings, weight = model.settings, model.output_weight
    windows, length = source.tokens.shape
    layers, heads, head_width = settings.decoder_layers, settings.heads, settings.d_model // settings.heads
    zeros = source.tokens.new_zeros(windows, 1)
    return TreeKVCache(
        self_kv=memory.empty("self", weight, layers, 2, windows, columns, heads, head_width),
        ancestor_mask=torch.zeros(windows, 1, columns, dtype=torch.bool),
        opened_segments=source.tokens.new_zeros(windows, columns),
        lengths=zeros,
        num_separators=zeros.clone(),
        write_pos=zeros.new_zeros(()),
        cross_kv=memory.empty("cross", weight, layers, 2, windows, heads, length, head_width),
        source=source,
        shift=model.shift_of(source),
        current=source.current.clamp(max=model.windows.target[0]),
    )


def _prefill_part(model: Transformer, cache: TreeKVCache, read: NextTokens, windows: slice) -> Tensor:
    """Write keys and values of some windows into the cache; what predicts the first token of each, (windows, width)."""
    source, target = (_pack(padded.map(lambda tensor: tensor[windows])) for padded in (cache.source, read.target_input))
    own = WindowMask(torch.stack((source.bounds, source.bounds)))
    embedded = model.embed_source(source, cache.shift[windows])
    x = embedded.x  # (1, source tokens, width)
    for i, encoder_layer in enumerate(cast("list[EncoderLayer]", model.encoder)):
        x = x if i == 0 or embedded.per_layer_embedding is None else x + embedded.per_layer_embedding
        x = encoder_layer.forward(x, own, embedded.rope)
    encoded = normalise(model.encoder_norm, x)

    own = WindowMask(torch.stack((target.bounds, target.bounds)), causal=True)
    cross = WindowMask(torch.stack((target.bounds, source.bounds)))
    source_bounds, target_bounds = source.bounds.tolist(), target.bounds.tolist()
    positions = read.positions[windows][read.target_input.segments[windows] >= 0][None]
    embedded = model.embed_target(target, positions)
    x = embedded.x  # (1, prefix tokens, width)
    for i, layer in enumerate(cast("list[DecoderLayer]", model.decoder)):
        x = x if i == 0 or embedded.per_layer_embedding is None else x + embedded.per_layer_embedding
        keys_values = layer.cross_attention.project_kv(encoded)
        for cached, new in zip(cache.cross_kv[i, :, windows], keys_values, strict=True):
            for of_window, (start, end) in zip(cached, pairwise(source_bounds), strict=True):
                of_window[:, : end - start] = new[0, :, start:end]
        own_kv = _WindowKV(read.inputs.layers[i], windows, target_bounds)
        x = layer.decode_step(x, own_kv, *keys_values, own, cross, embedded.rope, i == len(model.decoder) - 1)
    return normalise(model.decoder_norm, x)[0]


class _WindowKV(LayerKV):
    """The KV cache of one layer, of some windows whose new tokens are in one row."""

    def __init__(self, of_layer: LayerKV, windows: slice, bounds: list[int]) -> None:
        super().__init__(of_layer.keys[windows], of_layer.values[windows], of_layer.write_columns, of_layer.columns)
        self._bounds = bounds  # where the tokens of each window begin

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values, (1, heads, tokens, head width), and return them alone."""
        for cached, new in ((self.keys, keys), (self.values, values)):
            for of_window, (start, end) in zip(cached, pairwise(self._bounds), strict=True):
                of_window[self.columns - (end - start) : self.columns] = new[0, :, start:end].transpose(0, 1)
        return keys, values


def _pack(sequences: PaddedSequences) -> PackedSequences:
    """The same tokens in one row, without padding."""
    real = sequences.segments >= 0  # (windows, length)
    window = real.nonzero()[:, 0]
    bounds = F.pad(real.sum(1).cumsum(0), (1, 0))
    return PackedSequences(
        tokens=sequences.tokens[real][None],
        segments=sequences.segments[real][None],
        index=(torch.arange(len(window)) - bounds[window])[None],
        window=window[None],
        current=sequences.current,
        bounds=bounds,
        blocks=bounds.new_empty(0, 5),
    )

"""Two attentions and a gate: the top layers of the G-Transformer (Bao et al., 2021).

Every layer attends to the own sentence of a token (group attention); a global layer also attends to the whole window,
with projections of its own, and a gate mixes what the two find. The two differ by their masks over segments alone.
Weights of the attention to the own sentence have the names of a sentence-level system's, which they can start from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, LayerKV, SelfAttention, WeightsOut
from focat.model.context import Gate
from focat.model.decode_attention import WindowMask
from focat.model.masks import GatedMask
from focat.model.packed_attention import PackedMask
from focat.model.positions import RotaryAngles
from focat.model.tree_attention import TreeMask

Unbiased = tuple[Tensor, Tensor | None]
"""The output of a block of a layer, and the bias to add to it, if it is not in it."""


@dataclass(frozen=True)
class GlobalKV:
    """What the attentions of a layer to the whole window have cached in step-by-step decoding."""

    target: LayerKV
    source: tuple[Tensor, Tensor]  # keys and values, (windows, heads, source length, head width) each


class GlobalSelfAttention(nn.Module):
    """Attention to all tokens of a window, beside that to the own sentence, and the gate between the two."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.gate = Gate(settings.d_model, settings.d_model)


class GlobalCrossAttention(nn.Module):
    """Attention to the whole source window, beside that to the sentence that is translated, and the gate between."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = CrossAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.gate = Gate(settings.d_model, settings.d_model)


def attend_to_self(
    own: SelfAttention,
    window: GlobalSelfAttention | None,
    x: Tensor,
    mask: Tensor | TreeMask | WindowMask | GatedMask | None,
    rope: RotaryAngles | None,
    cache: LayerKV | None = None,
    global_cache: LayerKV | None = None,
    weights_out: WeightsOut | None = None,
    last_only: bool = False,
) -> Tensor:
    """Self-attention of a layer: one, or two and their gate; see `SelfAttention`."""
    if window is None:
        assert not isinstance(mask, GatedMask)
        attended: Tensor = own(x, mask, rope, cache, weights_out, last_only)
        return attended
    assert isinstance(mask, GatedMask)
    weights: WeightsOut | None = None if weights_out is None else []
    local = own(x, mask.own, rope, cache, weights, last_only)
    found = window.attention(x, mask.window, rope, global_cache, weights, last_only)
    return _mix(window.gate, local, found, weights, weights_out)


def attend_to_source(
    own: CrossAttention,
    window: GlobalCrossAttention | None,
    x: Tensor,
    keys_values: tuple[Tensor, Tensor],
    global_keys_values: tuple[Tensor, Tensor] | None,
    mask: Tensor | TreeMask | WindowMask | GatedMask,
    weights_out: WeightsOut | None = None,
) -> Tensor:
    """Attention of a layer to the source: one, or two and their gate; see `CrossAttention`."""
    if window is None:
        assert not isinstance(mask, GatedMask)
        attended: Tensor = own(x, *keys_values, mask, weights_out)
        return attended
    assert isinstance(mask, GatedMask)
    assert global_keys_values is not None
    weights: WeightsOut | None = None if weights_out is None else []
    local = own(x, *keys_values, mask.own, weights)
    found = window.attention(x, *global_keys_values, mask.window, weights)
    return _mix(window.gate, local, found, weights, weights_out)


def attend_to_packed_self(
    own: SelfAttention,
    window: GlobalSelfAttention | None,
    x: Tensor,
    mask: PackedMask | GatedMask,
    rope: RotaryAngles | None,
) -> Unbiased:
    """`attend_to_self` of packed windows."""
    if window is None:
        assert isinstance(mask, PackedMask)
        return own.packed(x, mask, rope), own.out_proj.bias
    assert isinstance(mask, GatedMask)
    assert isinstance(mask.own, PackedMask)
    assert isinstance(mask.window, PackedMask)
    local, found = own.packed(x, mask.own, rope), window.attention.packed(x, mask.window, rope)
    biases = own.out_proj.bias, window.attention.out_proj.bias
    return _mix(window.gate, local + biases[0], found + biases[1], None, None), None


def attend_to_packed_source(
    own: CrossAttention,
    window: GlobalCrossAttention | None,
    x: Tensor,
    keys_values: Sequence[Tensor],
    mask: PackedMask | GatedMask,
) -> Unbiased:
    """`attend_to_source` of packed windows; keys and values of each attention are one tensor."""
    if window is None:
        assert isinstance(mask, PackedMask)
        return own.packed(x, keys_values[0], mask), own.out_proj.bias
    assert isinstance(mask, GatedMask)
    assert isinstance(mask.own, PackedMask)
    assert isinstance(mask.window, PackedMask)
    local = own.packed(x, keys_values[0], mask.own)
    found = window.attention.packed(x, keys_values[1], mask.window)
    biases = own.out_proj.bias, window.attention.out_proj.bias
    return _mix(window.gate, local + biases[0], found + biases[1], None, None), None


def _mix(
    gate: Gate, local: Tensor, found: Tensor, weights: WeightsOut | None, weights_out: WeightsOut | None
) -> Tensor:
    """What the gate makes of both; the attention weights of the layer are mixed by the mean of its features."""
    share = gate.share(local, found)  # (windows, length, width)
    if weights is not None and weights_out is not None:
        of_own, of_window = weights
        mean = share.mean(-1)[:, None, :, None]
        weights_out.append(of_window + mean * (of_own - of_window))
    return found + share * (local - found)

"""The layers of encoder and decoder (Vaswani et al., 2017; sizes in appendix A of the paper).

What a window adds (masks, rotations) comes in as tensors made once for a batch, so a layer compiles on its own. Packed
windows, in training, have methods of their own, which leave biases and gradients of residual connections to the fused
kernels of GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, LayerKV, SelfAttention, WeightsOut, init_blocks
from focat.model.context import ContextAttention, ContextKeys
from focat.model.decode_attention import WindowMask
from focat.model.fused_layers import (
    add_dropout_norm,
    add_norm,
    branch_norm,
    has_fused_layers,
    linear,
    linear_relu,
)
from focat.model.global_attention import (
    GlobalCrossAttention,
    GlobalKV,
    GlobalSelfAttention,
    Unbiased,
    attend_to_packed_self,
    attend_to_packed_source,
    attend_to_self,
    attend_to_source,
)
from focat.model.masks import GatedMask
from focat.model.packed_attention import PackedMask
from focat.model.positions import RotaryAngles
from focat.model.tree_attention import TreeMask

ContextPlace = Literal["parallel", "serial"]
KeysValues = tuple[Tensor, Tensor]
Stream = tuple[Tensor, Tensor]
"""What a residual connection adds to, and what the block beside it reads; the results of `Residual.post`."""
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class Residual(nn.Module):
    """Residual connection with dropout; layer normalisation after the sum (the paper) or before the block."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.norm_first = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.d_model)
        self.dropout = nn.Dropout(settings.dropout)

    def pre(self, x: Tensor) -> Tensor:
        """The input of the block."""
        return self.normalise(x) if self.norm_first else x

    def post(self, x: Tensor, output: Tensor, following: Residual | None = None) -> Stream:
        """The sum of the block's input x and its output, normalised if normalisation comes last.

        Returns:
            The sum, and the input of the block of the following residual connection.
        """
        norm = self._norm(None if following is None else following.norm)
        if norm is not None and not self.training and _fuses_inference(x, output):
            total, normalised = add_norm(x, output, norm, with_sum=self.norm_first)
            return total if self.norm_first else normalised, normalised
        return self._add(x, output, norm)

    def pre_packed(self, x: Tensor) -> Stream:
        """x and the input of the block, of packed windows."""
        if self.norm_first and self.training and has_fused_layers(x):
            return branch_norm(x, self.norm)
        return x, self.pre(x)

    def packed(self, x: Tensor, output: Unbiased, following: nn.LayerNorm | None) -> Stream:
        """`post` of packed windows, with the bias of the output apart, and the normalisation that follows."""
        norm = self._norm(following)
        if self.training and has_fused_layers(x):
            return add_dropout_norm(x, *output, self.dropout.p, norm, not self.norm_first)
        unbiased, bias = output
        return self._add(x, unbiased if bias is None else unbiased + bias, norm)

    def _norm(self, following: nn.LayerNorm | None) -> nn.LayerNorm | None:
        """The normalisation that comes after the sum."""
        return following if self.norm_first else self.norm

    def _add(self, x: Tensor, output: Tensor, norm: nn.LayerNorm | None) -> Stream:
        total = x + self.dropout(output)
        following_input = total if norm is None else normalise(norm, total)
        return total if self.norm_first else following_input, following_input

    def normalise(self, x: Tensor) -> Tensor:
        """The layer normalisation of x."""
        return normalise(self.norm, x)


def normalise(norm: nn.Module, x: Tensor) -> Tensor:
    """Normalise in float32, and return x's type: under autocast, half the bytes between blocks."""
    normalised: Tensor = norm(x)
    return normalised.to(x.dtype)


def _fuses_inference(x: Tensor, other: Tensor) -> bool:
    """Whether kernels without a gradient can compute with x and another tensor; under autocast, types may differ."""
    return not torch.is_grad_enabled() and x.dtype == other.dtype and has_fused_layers(x)


class FeedForward(nn.Module):
    """Position-wise feed-forward block. For swiglu, `up_proj` is the gate's matrix and the other, stacked."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.activation: str = settings.activation
        """How hidden units are activated; `none` where a layer for decoding has done it."""
        parts = 2 if settings.activation == "swiglu" else 1
        self.up_proj = nn.Linear(settings.d_model, parts * settings.d_ff)
        self.down_proj = nn.Linear(settings.d_ff, settings.d_model)
        self.dropout = nn.Dropout(settings.activation_dropout)
        init_blocks(self.up_proj, parts)
        init_blocks(self.down_proj)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token of x, (windows, length, width); the output has the same shape."""
        fused = self.activation == "relu" and not self.training and isinstance(self.up_proj, nn.Linear)
        if fused and _fuses_inference(x, self.up_proj.weight):
            hidden = linear_relu(x, self.up_proj)
        else:
            hidden = self._activate(self.up_proj(x))
        output: Tensor = self.down_proj(self.dropout(hidden))
        return output

    def packed(self, x: Tensor) -> Unbiased:
        """The same of packed windows, with the bias of the output apart."""
        if self.training and self.activation == "relu" and not self.dropout.p and has_fused_layers(x):
            hidden = linear_relu(x, self.up_proj)
        else:
            hidden = self.dropout(self._activate(self.up_proj(x)))
        return linear(hidden, self.down_proj.weight), self.down_proj.bias

    def _activate(self, hidden: Tensor) -> Tensor:
        """(windows, length, d_ff); for swiglu, the input is twice as wide."""
        if self.activation == "swiglu":
            gate, up = hidden.chunk(2, -1)
            return F.silu(gate) * up
        if self.activation == "none":
            return hidden
        return _ACTIVATIONS[self.activation](hidden)


class SerialContext(nn.Module):
    """Context attention between two blocks of a layer: the gate stands in place of the residual connection."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = ContextAttention(settings)
        self.residual = Residual(settings)

    def forward(self, x: Tensor, queries: Tensor, context: LayerContext, following: Residual) -> tuple[Tensor, Tensor]:
        """Mix context into x, whose normalised form for the attention is `queries`; the results of `Residual.post`."""
        mixed = self.attention(x, queries, context.keys_values(self.attention), context.keys)
        x = mixed if self.residual.norm_first else self.residual.normalise(mixed)
        return x, following.pre(x)


@dataclass(frozen=True)
class LayerContext:
    """The encoded context as one layer sees it."""

    keys: ContextKeys
    states: Tensor | None = None  # (windows, source length, width)
    cached: tuple[Tensor, Tensor] | None = None  # keys and values made of them, in step-by-step decoding

    def keys_values(self, attention: ContextAttention) -> tuple[Tensor, Tensor]:
        """Keys and values for a context attention."""
        if self.cached is not None:
            return self.cached
        assert self.states is not None
        return attention.attention.project_kv(self.states)


class EncoderLayer(nn.Module):
    """Self-attention, feed-forward.

    Args:
        context: attention to the context: none, beside self-attention (parallel) or after it (serial).
        two_attentions: to the own sentence, and to the window.
    """

    def __init__(
        self, settings: ModelSettings, context: ContextPlace | None = None, two_attentions: bool = False
    ) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.global_self_attention = GlobalSelfAttention(settings) if two_attentions else None
        self.self_attention_residual = Residual(settings)
        self.context = _context_attention(settings, context)
        self.feedforward = FeedForward(settings)
        self.feedforward_residual = Residual(settings)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | WindowMask | GatedMask,
        rope: RotaryAngles | None = None,
        weights_out: WeightsOut | None = None,
        context: LayerContext | None = None,
    ) -> Tensor:
        """Encode x, (windows, source length, width); the output has the same shape."""
        residual, following = self.self_attention_residual, self.feedforward_residual
        queries = residual.pre(x)
        attended = attend_to_self(
            self.self_attention, self.global_self_attention, queries, mask, rope, weights_out=weights_out
        )
        if isinstance(self.context, SerialContext):
            assert context is not None
            x, block_input = residual.post(x, attended, self.context.residual)
            x, block_input = self.context(x, block_input, context, following)
        else:
            attended = _mix_parallel(self.context, attended, queries, context)
            x, block_input = residual.post(x, attended, following)
        return self.feedforward_residual.post(x, self.feedforward(block_input))[0]

    def packed(
        self, stream: Stream, mask: PackedMask | GatedMask, rope: RotaryAngles | None, following: nn.LayerNorm | None
    ) -> Stream:
        """Encode packed windows; `following` is the normalisation that comes next if it comes before blocks."""
        x, block_input = stream
        attended = attend_to_packed_self(self.self_attention, self.global_self_attention, block_input, mask, rope)
        x, block_input = self.self_attention_residual.packed(x, attended, self.feedforward_residual.norm)
        return self.feedforward_residual.packed(x, self.feedforward.packed(block_input), following)


def _context_attention(settings: ModelSettings, place: ContextPlace | None) -> ContextAttention | SerialContext | None:
    if place is None:
        return None
    return SerialContext(settings) if place == "serial" else ContextAttention(settings)


def _mix_parallel(
    attention: ContextAttention | None, attended: Tensor, queries: Tensor, context: LayerContext | None
) -> Tensor:
    """What another attention has found, mixed with what the same queries find in the context."""
    if attention is None:
        return attended
    assert context is not None
    mixed: Tensor = attention(attended, queries, context.keys_values(attention), context.keys)
    return mixed


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward.

    Args:
        context: attention to the context: none, beside the attention to the source (parallel) or before it (serial).
        two_attentions: to the own sentence and to the window, on both sides.
    """

    def __init__(
        self, settings: ModelSettings, context: ContextPlace | None = None, two_attentions: bool = False
    ) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.global_self_attention = GlobalSelfAttention(settings) if two_attentions else None
        self.self_attention_residual = Residual(settings)
        self.cross_attention = CrossAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.global_cross_attention = GlobalCrossAttention(settings) if two_attentions else None
        self.cross_attention_residual = Residual(settings)
        self.context = _context_attention(settings, context)
        self.feedforward = FeedForward(settings)
        self.feedforward_residual = Residual(settings)

    def forward(
        self,
        x: Tensor,
        encoded: Tensor,
        mask: Tensor | GatedMask | None,
        cross_mask: Tensor | GatedMask,
        rope: RotaryAngles | None = None,
        weights_out: WeightsOut | None = None,
        cross_weights_out: WeightsOut | None = None,
        context: LayerContext | None = None,
    ) -> Tensor:
        """Decode x, (windows, target length, width), all positions at once, as in teacher forcing.

        `encoded` is the encoded source, (windows, source length, width). The output has the shape of x.
        """
        residual = self.self_attention_residual
        attended = attend_to_self(
            self.self_attention, self.global_self_attention, residual.pre(x), mask, rope, weights_out=weights_out
        )
        keys_values, global_keys_values = self.project_kv(encoded)
        return self._after_self_attention(
            x, attended, keys_values, global_keys_values, cross_mask, cross_weights_out, context
        )

    def packed(
        self,
        stream: Stream,
        source_kv: Sequence[Tensor],
        mask: PackedMask | GatedMask,
        cross_mask: PackedMask | GatedMask,
        rope: RotaryAngles | None,
        following: nn.LayerNorm | None,
    ) -> Stream:
        """Decode packed windows; `following` is the normalisation that comes next if it comes before blocks.

        `source_kv` are keys and values for each of `source_attentions`.
        """
        x, queries = stream
        attended = attend_to_packed_self(self.self_attention, self.global_self_attention, queries, mask, rope)
        x, queries = self.self_attention_residual.packed(x, attended, self.cross_attention_residual.norm)
        own, window = self.cross_attention, self.global_cross_attention
        attended = attend_to_packed_source(own, window, queries, source_kv, cross_mask)
        x, block_input = self.cross_attention_residual.packed(x, attended, self.feedforward_residual.norm)
        return self.feedforward_residual.packed(x, self.feedforward.packed(block_input), following)

    @property
    def source_attentions(self) -> list[CrossAttention]:
        """Its attention to the source; if it has two, that to the window last."""
        window = self.global_cross_attention
        return [self.cross_attention, *([] if window is None else [window.attention])]

    def project_kv(self, encoded: Tensor) -> tuple[KeysValues, KeysValues | None]:
        """Keys and values of the encoded source, and those of the attention to the window if the layer has one."""
        window = self.global_cross_attention
        of_window = None if window is None else window.attention.project_kv(encoded)
        return self.cross_attention.project_kv(encoded), of_window

    def decode_step(
        self,
        x: Tensor,
        cache: LayerKV,
        cross_keys: Tensor,
        cross_values: Tensor,
        mask: Tensor | TreeMask | WindowMask | GatedMask,
        cross_mask: Tensor | TreeMask | WindowMask | GatedMask,
        rope: RotaryAngles | None,
        last_only: bool = False,
        context: LayerContext | None = None,
        global_kv: GlobalKV | None = None,
    ) -> Tensor:
        """Decode the next tokens x, (windows, new, width), after those in the cache, which they are added to.

        With `last_only`, the output is that of the last of them, (windows, 1, width), or of the last of each window.
        """
        residual = self.self_attention_residual
        own, window = self.self_attention, self.global_self_attention
        global_cache, global_source = (None, None) if global_kv is None else (global_kv.target, global_kv.source)
        attended = attend_to_self(own, window, residual.pre(x), mask, rope, cache, global_cache, last_only=last_only)
        if last_only:
            assert not isinstance(cross_mask, TreeMask)
            if isinstance(cross_mask, WindowMask):
                x, cross_mask = x[:, cross_mask.last_queries], cross_mask.of_last()
            else:
                x = x[:, -1:]
                cross_mask = cross_mask.last() if isinstance(cross_mask, GatedMask) else cross_mask[..., -1:, :]
        keys_values = cross_keys, cross_values
        return self._after_self_attention(x, attended, keys_values, global_source, cross_mask, context=context)

    def _after_self_attention(
        self,
        x: Tensor,
        attended: Tensor,
        keys_values: KeysValues,
        global_keys_values: KeysValues | None,
        mask: Tensor | TreeMask | WindowMask | GatedMask,
        weights_out: WeightsOut | None = None,
        context: LayerContext | None = None,
    ) -> Tensor:
        residual, following = self.self_attention_residual, self.cross_attention_residual
        if isinstance(self.context, SerialContext):
            assert context is not None
            x, queries = residual.post(x, attended, self.context.residual)
            x, queries = self.context(x, queries, context, following)
        else:
            x, queries = residual.post(x, attended, following)
        own, window = self.cross_attention, self.global_cross_attention
        attended = attend_to_source(own, window, queries, keys_values, global_keys_values, mask, weights_out)
        if isinstance(self.context, ContextAttention):
            attended = _mix_parallel(self.context, attended, queries, context)
        x, block_input = self.cross_attention_residual.post(x, attended, self.feedforward_residual)
        return self.feedforward_residual.post(x, self.feedforward(block_input))[0]

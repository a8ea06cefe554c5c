"""The layers of encoder and decoder (Vaswani et al., 2017; sizes in appendix A of the paper).

What a window adds (masks, rotations) comes in as tensors made once for a batch, so a layer compiles on its own.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, LayerKV, SelfAttention, WeightsOut, init_blocks
from focat.model.fused_layers import add_dropout_norm, has_fused_layers, linear_relu
from focat.model.packed_attention import PackedMask
from focat.model.positions import RotaryAngles

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
        return self._normalise(x) if self.norm_first else x

    def post(self, x: Tensor, output: Tensor, following: Residual | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the block's input x and its output, normalised if normalisation comes last.

        Returns:
            The sum, and the input of the block of the following residual connection.
        """
        norm = self if not self.norm_first else following
        if self.training and has_fused_layers(x):
            total, normalised = add_dropout_norm(x, output, self.dropout.p, None if norm is None else norm.norm)
        else:
            total = x + self.dropout(output)
            normalised = None if norm is None else norm._normalise(total)
        following_input = total if normalised is None else normalised
        return total if self.norm_first else following_input, following_input

    def _normalise(self, x: Tensor) -> Tensor:
        """Computed in float32, returned in x's type: under autocast, half the bytes between blocks."""
        normalised: Tensor = self.norm(x)
        return normalised.to(x.dtype)


class FeedForward(nn.Module):
    """Position-wise feed-forward block. For swiglu, `up_proj` is the gate's matrix and the other, stacked."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.activation = settings.activation
        parts = 2 if settings.activation == "swiglu" else 1
        self.up_proj = nn.Linear(settings.d_model, parts * settings.d_ff)
        self.down_proj = nn.Linear(settings.d_ff, settings.d_model)
        self.dropout = nn.Dropout(settings.activation_dropout)
        init_blocks(self.up_proj, parts)
        init_blocks(self.down_proj)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token of x, (windows, length, width); the output has the same shape."""
        if self.training and self.activation == "relu" and not self.dropout.p and has_fused_layers(x):
            hidden = linear_relu(x, self.up_proj)
        else:
            hidden = self._activate(self.up_proj(x))
        output: Tensor = self.down_proj(self.dropout(hidden))
        return output

    def _activate(self, hidden: Tensor) -> Tensor:
        """(windows, length, d_ff); for swiglu, the input is twice as wide."""
        if self.activation == "swiglu":
            gate, up = hidden.chunk(2, -1)
            return F.silu(gate) * up
        return _ACTIVATIONS[self.activation](hidden)


class EncoderLayer(nn.Module):
    """Self-attention, feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.self_attention_residual = Residual(settings)
        self.feedforward = FeedForward(settings)
        self.feedforward_residual = Residual(settings)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | PackedMask,
        rope: RotaryAngles | None = None,
        weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Encode x, (windows, source length, width); the output has the same shape."""
        attention = self.self_attention_residual
        attended = self.self_attention(attention.pre(x), mask, rope, weights_out=weights_out)
        x, block_input = attention.post(x, attended, self.feedforward_residual)
        return self.feedforward_residual.post(x, self.feedforward(block_input))[0]


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.self_attention_residual = Residual(settings)
        self.cross_attention = CrossAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.cross_attention_residual = Residual(settings)
        self.feedforward = FeedForward(settings)
        self.feedforward_residual = Residual(settings)

    def forward(
        self,
        x: Tensor,
        encoded: Tensor,
        mask: Tensor | PackedMask | None,
        cross_mask: Tensor | PackedMask,
        rope: RotaryAngles | None = None,
        weights_out: WeightsOut | None = None,
        cross_weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Decode x, (windows, target length, width), all positions at once, as in teacher forcing.

        `encoded` is the encoded source, (windows, source length, width). The output has the shape of x.
        """
        residual = self.self_attention_residual
        attended = self.self_attention(residual.pre(x), mask, rope, weights_out=weights_out)
        if isinstance(cross_mask, PackedMask):
            x, block_input = residual.post(x, attended, self.cross_attention_residual)
            return self._after_cross_attention(x, self.cross_attention.packed(block_input, encoded, cross_mask))
        keys, values = self.cross_attention.project_kv(encoded)
        return self._after_self_attention(x, attended, keys, values, cross_mask, cross_weights_out)

    def decode_step(
        self,
        x: Tensor,
        cache: LayerKV,
        cross_keys: Tensor,
        cross_values: Tensor,
        mask: Tensor,
        cross_mask: Tensor,
        rope: RotaryAngles | None,
        last_only: bool = False,
    ) -> Tensor:
        """Decode the next tokens x, (windows, new, width), after those in the cache, which they are added to.

        With `last_only`, the output is that of the last of them, (windows, 1, width).
        """
        residual = self.self_attention_residual
        attended = self.self_attention(residual.pre(x), mask, rope, cache=cache, last_only=last_only)
        if last_only:
            x, cross_mask = x[:, -1:], cross_mask[..., -1:, :]
        return self._after_self_attention(x, attended, cross_keys, cross_values, cross_mask)

    def _after_self_attention(
        self,
        x: Tensor,
        attended: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        weights_out: WeightsOut | None = None,
    ) -> Tensor:
        x, block_input = self.self_attention_residual.post(x, attended, self.cross_attention_residual)
        return self._after_cross_attention(
            x, self.cross_attention(block_input, keys, values, mask, weights_out=weights_out)
        )

    def _after_cross_attention(self, x: Tensor, attended: Tensor) -> Tensor:
        x, block_input = self.cross_attention_residual.post(x, attended, self.feedforward_residual)
        return self.feedforward_residual.post(x, self.feedforward(block_input))[0]

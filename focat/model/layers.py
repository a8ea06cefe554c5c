"""The layers of encoder and decoder (Vaswani et al., 2017; sizes in appendix A of the paper).

What a window adds (masks, rotations) comes in as tensors made once for a batch, so a layer compiles on its own.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, LayerKV, SelfAttention, WeightsOut, init_blocks
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

    def post(self, x: Tensor, output: Tensor) -> Tensor:
        """The sum of the block's input x and its output, normalised if normalisation comes last."""
        total: Tensor = x + self.dropout(output)
        return total if self.norm_first else self._normalise(total)

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
        hidden = self.up_proj(x)  # (windows, length, d_ff), twice as wide for swiglu
        if self.activation == "swiglu":
            gate, up = hidden.chunk(2, -1)
            hidden = F.silu(gate) * up
        else:
            hidden = _ACTIVATIONS[self.activation](hidden)
        output: Tensor = self.down_proj(self.dropout(hidden))
        return output


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
        residual = self.self_attention_residual
        x = residual.post(x, self.self_attention(residual.pre(x), mask, rope, weights_out=weights_out))
        residual = self.feedforward_residual
        return residual.post(x, self.feedforward(residual.pre(x)))


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
        x = residual.post(x, self.self_attention(residual.pre(x), mask, rope, weights_out=weights_out))
        if isinstance(cross_mask, PackedMask):
            residual = self.cross_attention_residual
            x = residual.post(x, self.cross_attention.packed(residual.pre(x), encoded, cross_mask))
            return self._feedforward(x)
        keys, values = self.cross_attention.project_kv(encoded)
        return self._after_self_attention(x, keys, values, cross_mask, cross_weights_out)

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
        return self._after_self_attention(residual.post(x, attended), cross_keys, cross_values, cross_mask)

    def _after_self_attention(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, weights_out: WeightsOut | None = None
    ) -> Tensor:
        residual = self.cross_attention_residual
        x = residual.post(x, self.cross_attention(residual.pre(x), keys, values, mask, weights_out=weights_out))
        return self._feedforward(x)

    def _feedforward(self, x: Tensor) -> Tensor:
        residual = self.feedforward_residual
        return residual.post(x, self.feedforward(residual.pre(x)))

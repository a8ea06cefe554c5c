"""The layers of encoder and decoder (Vaswani et al., 2017; sizes in appendix A of the paper).

What a window adds (masks, rotations) comes in as tensors made once for a batch, so a layer compiles on its own.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, Past, Record, SelfAttention, init_blocks
from focat.model.positions import Rotary


class Residual(nn.Module):
    """The way around a block: normalisation after the sum (the paper) or before the block, and dropout."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.d_model)
        self.dropout = nn.Dropout(settings.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the block is given."""
        return self._normalised(x) if self.pre else x

    def leave(self, x: Tensor, added: Tensor) -> Tensor:
        """What comes out, for what the block adds to x."""
        left: Tensor = x + self.dropout(added)
        return left if self.pre else self._normalised(left)

    def _normalised(self, x: Tensor) -> Tensor:
        """Computed in float32 and kept as it came: under autocast, half the bytes between blocks."""
        normalised: Tensor = self.norm(x)
        return normalised.to(x.dtype)


class FeedForward(nn.Module):
    """Each token on its own: wider, non-linear, and back. swiglu's gate comes first in the matrix it shares."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.activation = settings.activation
        parts = 2 if settings.activation == "swiglu" else 1
        self.wider = nn.Linear(settings.d_model, parts * settings.d_ff)
        self.back = nn.Linear(settings.d_ff, settings.d_model)
        self.dropout = nn.Dropout(settings.activation_dropout)
        init_blocks(self.wider, parts)
        init_blocks(self.back)

    def forward(self, x: Tensor) -> Tensor:
        """(windows, length, width) from the same."""
        wide = self.wider(x)  # (windows, length, feedforward), twice as wide for swiglu
        if self.activation == "swiglu":
            gate, up = wide.chunk(2, -1)
            wide = F.silu(gate) * up
        else:
            wide = F.relu(wide) if self.activation == "relu" else F.gelu(wide)
        added: Tensor = self.back(self.dropout(wide))
        return added


class EncoderLayer(nn.Module):
    """Self-attention, feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.around_attention = Residual(settings)
        self.feedforward = FeedForward(settings)
        self.around_feedforward = Residual(settings)

    def forward(self, x: Tensor, mask: Tensor, turn: Rotary | None = None, record: Record | None = None) -> Tensor:
        """(windows, source length, width) from the same."""
        around = self.around_attention
        x = around.leave(x, self.attention(around.enter(x), mask, turn, record=record))
        around = self.around_feedforward
        return around.leave(x, self.feedforward(around.enter(x)))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.around_attention = Residual(settings)
        self.cross_attention = CrossAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.around_cross_attention = Residual(settings)
        self.feedforward = FeedForward(settings)
        self.around_feedforward = Residual(settings)

    def forward(
        self,
        x: Tensor,
        encoded: Tensor,
        mask: Tensor | None,
        cross_mask: Tensor,
        turn: Rotary | None = None,
        record: Record | None = None,
        cross_record: Record | None = None,
    ) -> Tensor:
        """(windows, target length, width) from the same and the encoded source (windows, source length, width)."""
        around = self.around_attention
        x = around.leave(x, self.attention(around.enter(x), mask, turn, record=record))
        keys, values = self.cross_attention.remember(encoded)
        return self._after_self_attention(x, keys, values, cross_mask, cross_record)

    def step(
        self,
        x: Tensor,
        past: Past,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        cross_mask: Tensor,
        turn: Rotary | None,
        last: bool = False,
    ) -> Tensor:
        """The same for the next tokens of each window's hypotheses, given what the layer has read and remembers.

        With `last`, only for the last of them, though all are remembered.
        """
        around = self.around_attention
        added = self.attention(around.enter(x), mask, turn, past=past, last=last)
        if last:
            x, cross_mask = x[:, -1:], cross_mask[..., -1:, :]
        return self._after_self_attention(around.leave(x, added), keys, values, cross_mask)

    def _after_self_attention(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, record: Record | None = None
    ) -> Tensor:
        around = self.around_cross_attention
        x = around.leave(x, self.cross_attention(around.enter(x), keys, values, mask, record=record))
        around = self.around_feedforward
        return around.leave(x, self.feedforward(around.enter(x)))

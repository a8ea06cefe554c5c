"""One more layer after the encoder, over all sentences of a window, and a gate (Zheng et al., 2020).

Below it, each sentence is encoded alone. A vector for each distance between the sentences of query and key is added to
keys and values, so that the layer knows which sentence a word comes from; positions start again in each.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings
from focat.model.attention import SelfAttention, WeightsOut, join_heads, split_heads
from focat.model.context import Gate
from focat.model.layers import FeedForward, Residual


class SentenceRelativeAttention(SelfAttention):
    """Self-attention whose keys and values depend on how far a key's sentence is from the query's.

    Args:
        sentences: in a window; those further apart count as the furthest.
    """

    def __init__(self, settings: ModelSettings, sentences: int) -> None:
        super().__init__(settings.d_model, settings.heads, settings.attention_dropout)
        self.furthest = sentences - 1
        head_width = settings.d_model // settings.heads
        self.key_distance = nn.Embedding(2 * sentences - 1, head_width)
        self.value_distance = nn.Embedding(2 * sentences - 1, head_width)
        for table in (self.key_distance, self.value_distance):
            nn.init.normal_(table.weight, std=head_width**-0.5)

    def attend_to_sentences(self, x: Tensor, segments: Tensor, weights_out: WeightsOut | None = None) -> Tensor:
        """Attend from and to x, (windows, length, width); segments are (windows, length), -1 on padding."""
        queries, keys, values = split_heads(self.qkv_proj(x), self.heads, 3)
        distance = (segments[:, None] - segments[:, :, None]).clamp(-self.furthest, self.furthest)
        index = (distance + self.furthest)[:, None].expand(-1, self.heads, -1, -1)  # (windows, heads, length, length)
        of_distance = queries @ self.key_distance.weight.T  # (windows, heads, length, distances)
        scores = (queries @ keys.transpose(-1, -2) + of_distance.gather(-1, index)) / math.sqrt(queries.shape[-1])
        weights = scores.masked_fill((segments < 0)[:, None, None], -math.inf).softmax(-1)
        if weights_out is not None:
            weights_out.append(weights)
        weights = F.dropout(weights, self.dropout, self.training)
        by_distance = torch.zeros_like(of_distance).scatter_add(-1, index, weights)
        return join_heads(weights @ values + by_distance @ self.value_distance.weight, self.out_proj)


class GlobalLayer(nn.Module):
    """A layer of the encoder with attention to all sentences; a gate mixes its input with its output."""

    def __init__(self, settings: ModelSettings, sentences: int) -> None:
        super().__init__()
        self.self_attention = SentenceRelativeAttention(settings, sentences)
        self.self_attention_residual = Residual(settings)
        self.feedforward = FeedForward(settings)
        self.feedforward_residual = Residual(settings)
        self.gate = Gate.of_context(settings)
        self.norm = nn.LayerNorm(settings.d_model)

    def forward(self, hidden: Tensor, segments: Tensor, weights_out: WeightsOut | None = None) -> Tensor:
        """Mix what the window says into the encoded sentences, (windows, length, width); the same shape."""
        residual = self.self_attention_residual
        attended = self.self_attention.attend_to_sentences(residual.pre(hidden), segments, weights_out)
        x, block_input = residual.post(hidden, attended, self.feedforward_residual)
        x, _ = self.feedforward_residual.post(x, self.feedforward(block_input))
        share = self.gate.share(hidden, x)
        mixed: Tensor = self.norm(x + share * (hidden - x))
        return mixed

"""Multi-head attention: one fused kernel for speed, and the same with its weights in hand for the analyses.

Sections 4.5 and 4.6 of the paper look at the weights; training and translation never need them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.model.positions import Rotary, rotate

# cuDNN's kernels are planned anew for every shape, which takes longer than they save where windows differ in length.
torch.backends.cuda.enable_cudnn_sdp(False)

Record = list[Tensor]  # weights of the layers that ran, (windows, heads, queries, keys) each


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool = False,
    dropout: float = 0.0,
    record: Record | None = None,
) -> Tensor:
    """Attention over (windows, heads, length, head width); with a record, its weights are kept there."""
    if record is None:
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
    weights = attention_weights(queries, keys, mask, causal)
    record.append(weights)
    return F.dropout(weights, dropout).to(values.dtype) @ values


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """How much each query looks at each key: (windows, heads, queries, keys), rows summing to one."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1)


class Past:
    """Keys and values of the tokens one layer has already read; views of a cache, filled in place."""

    def __init__(self, keys: Tensor, values: Tensor, at: Tensor, columns: int) -> None:
        self.keys, self.values = keys, values  # (windows, capacity, heads, head width)
        self.at, self.columns = at, columns  # where new ones go; how many are looked at

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all tokens, the new ones included, (windows, heads, length, head width)."""
        self.keys.index_copy_(1, self.at, keys.transpose(1, 2))
        self.values.index_copy_(1, self.at, values.transpose(1, 2))
        return self.keys[:, : self.columns].transpose(1, 2), self.values[:, : self.columns].transpose(1, 2)


class SelfAttention(nn.Module):
    """Tokens of one side look at each other. Without a mask, each looks at itself and what came before."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        # fairseq's gain: each of the three is drawn as a part of the one matrix that holds them all
        init_blocks(self.queries_keys_values, 3, gain=2**-0.5)
        init_blocks(self.output)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        turn: Rotary | None,
        past: Past | None = None,
        record: Record | None = None,
        last: bool = False,
    ) -> Tensor:
        """(windows, length, width) from the same; `turn` rotates queries and keys, `past` goes before them.

        With `last`, only the last token asks: (windows, 1, width).
        """
        queries, keys, values = split_heads(self.queries_keys_values(x), self.heads, 3)
        if turn is not None:
            queries, keys = rotate(queries, turn), rotate(keys, turn)
        if past is not None:
            keys, values = past.append(keys, values)
        if last:
            queries, mask = queries[:, :, -1:], None if mask is None else mask[..., -1:, :]
        dropout = self.dropout if self.training else 0.0
        attended = attend(queries, keys, values, mask, causal=mask is None, dropout=dropout, record=record)
        return join_heads(attended, self.output)


class CrossAttention(nn.Module):
    """Target tokens look at the encoded source."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.queries = nn.Linear(width, width)
        self.keys_values = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        init_blocks(self.queries, gain=2**-0.5)
        init_blocks(self.keys_values, 2, gain=2**-0.5)
        init_blocks(self.output)

    def remember(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoded source, (windows, heads, length, head width): the same for all queries."""
        keys, values = split_heads(self.keys_values(encoded), self.heads, 2)
        return keys, values

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, record: Record | None = None) -> Tensor:
        """(windows, length, width) from the same."""
        (queries,) = split_heads(self.queries(x), self.heads, 1)
        dropout = self.dropout if self.training else 0.0
        attended = attend(queries, keys, values, mask, dropout=dropout, record=record)
        return join_heads(attended, self.output)


def split_heads(x: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
    """(windows, length, parts · width) → as many tensors (windows, heads, length, head width)."""
    windows, length, width = x.shape
    return x.view(windows, length, parts, heads, width // (parts * heads)).permute(2, 0, 3, 1, 4).unbind(0)


def join_heads(x: Tensor, output: nn.Linear) -> Tensor:
    """(windows, heads, length, head width) → (windows, length, width), through the output layer."""
    joined: Tensor = output(x.transpose(1, 2).flatten(2))
    return joined


def init_blocks(layer: nn.Linear, blocks: int = 1, gain: float = 1.0) -> None:
    """Xavier's uniform for each of the matrices stacked in one layer, as if they stood alone; no bias."""
    for block in layer.weight.chunk(blocks):
        nn.init.xavier_uniform_(block, gain=gain)
    nn.init.zeros_(layer.bias)

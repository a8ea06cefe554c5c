"""Multi-head attention: one fused kernel for speed, and the same with its weights in hand for the analyses.

Sections 4.5 and 4.6 of the paper look at the weights; training and translation never need them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.model.decode_attention import WindowMask, can_decode, decode_attention, window_attention
from focat.model.fused_layers import linear
from focat.model.packed_attention import PackedMask, packed_attention
from focat.model.positions import RotaryAngles, apply_rope
from focat.model.tree_attention import TreeMask, append_nodes, can_append, can_attend, tree_attention

# cuDNN's kernels are planned anew for every shape, which takes longer than they save where windows differ in length.
torch.backends.cuda.enable_cudnn_sdp(False)

WeightsOut = list[Tensor]
"""A list that layers append their attention weights to, (windows, heads, queries, keys) each."""


@dataclass(frozen=True)
class AttentionWeights:
    """Weights of every layer, (windows, heads, queries, keys) each. The decoder's query t is what predicts label t."""

    encoder: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | TreeMask | WindowMask | None,
    causal: bool = False,
    dropout: float = 0.0,
    weights_out: WeightsOut | None = None,
) -> Tensor:
    """Scaled dot-product attention.

    Args:
        queries, keys, values: (windows, heads, length, head width).
        mask: True where a query sees a key; broadcast to (windows, heads, queries, keys). Or the columns it sees, or
            the windows of tokens in one row.
        causal: without a mask, each query sees itself and what came before.
        dropout: probability of dropping an attention weight.
        weights_out: if given, the weights are computed explicitly and appended to it.

    Returns:
        (windows, heads, queries, head width).
    """
    if isinstance(mask, WindowMask):
        assert weights_out is None
        assert not dropout
        return window_attention(queries, keys, values, mask)
    if isinstance(mask, TreeMask):
        if weights_out is None and not dropout and can_attend(queries, keys, values):
            return tree_attention(queries, keys, values, mask)
        mask = mask.mask
    if weights_out is None and not dropout and mask is not None and can_decode(queries, keys, values, mask):
        return decode_attention(queries, keys, values, mask)
    if weights_out is None:
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
    weights = attention_weights(queries, keys, mask, causal)
    weights_out.append(weights)
    return F.dropout(weights, dropout).to(values.dtype) @ values


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """How much each query looks at each key: (windows, heads, queries, keys), rows summing to one."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1)


class LayerKV:
    """The KV cache of one layer's self-attention: views of a `TreeKVCache`, updated in place."""

    def __init__(self, keys: Tensor, values: Tensor, write_columns: Tensor | slice, columns: int) -> None:
        self.keys, self.values = keys, values  # (windows, capacity, heads, head width)
        self.write_columns = write_columns  # (new,) where the next keys and values go; a slice if the host knows
        self.columns = columns  # how many columns attention spans

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values, (windows, heads, new, head width); return all, (windows, heads, columns, …)."""
        if not isinstance(self.write_columns, slice) and can_append(self.keys, keys, values):
            append_nodes(self.keys, self.values, self.write_columns, keys, values)
        else:
            for cached, new in ((self.keys, keys), (self.values, values)):
                if isinstance(self.write_columns, slice):
                    cached[:, self.write_columns] = new.transpose(1, 2)
                else:
                    cached.index_copy_(1, self.write_columns, new.transpose(1, 2))
        return self.keys[:, : self.columns].transpose(1, 2), self.values[:, : self.columns].transpose(1, 2)


class SelfAttention(nn.Module):
    """Multi-head self-attention; causal where no mask is given."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        # fairseq's gain: each of the three is drawn as a part of the one matrix that holds them all
        init_blocks(self.qkv_proj, 3, gain=2**-0.5)
        init_blocks(self.out_proj)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | TreeMask | WindowMask | None,
        rope: RotaryAngles | None,
        cache: LayerKV | None = None,
        weights_out: WeightsOut | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Attend to the tokens of x, and to those in the cache.

        Args:
            x: (windows, length, width).
            mask: True where a query sees a key; None for causal attention. Or the mask of a tree, or of windows.
            rope: angles by which queries and keys are rotated.
            cache: keys and values of earlier tokens; those of x are added to it.
            weights_out: if given, the attention weights are appended to it.
            last_only: compute the output of the last token alone, or of the last of each window.

        Returns:
            (windows, length, width); with `last_only` (windows, 1, width), or (1, windows, width) of windows in a row.
        """
        qkv = self.qkv_proj(x)
        queries, keys, values = split_heads(qkv, self.heads, 3)
        if rope is not None:
            queries, keys = apply_rope(queries, rope), apply_rope(keys, rope)
        if cache is not None:
            keys, values = cache.append(keys, values)
        if last_only:
            assert not isinstance(mask, TreeMask)
            if isinstance(mask, WindowMask):
                queries, mask = queries[:, :, mask.last_queries], mask.of_last()
            else:
                queries, mask = queries[:, :, -1:], None if mask is None else mask[..., -1:, :]
        dropout = self.dropout if self.training else 0.0
        attended = attend(queries, keys, values, mask, causal=mask is None, dropout=dropout, weights_out=weights_out)
        return join_heads(attended, self.out_proj)

    def packed(self, x: Tensor, mask: PackedMask, rope: RotaryAngles | None) -> Tensor:
        """Attend inside packed windows x, (1, length, width), without the bias of the output, for its caller to add."""
        qkv = linear(x, self.qkv_proj.weight, self.qkv_proj.bias)
        if rope is not None:
            queries, keys, values = split_heads(qkv, self.heads, 3)
            queries, keys = apply_rope(queries, rope), apply_rope(keys, rope)
            parts = [each.transpose(1, 2) for each in (queries, keys, values)]  # (1, tokens, heads, head width)
            qkv = torch.stack(parts, 2)  # (1, tokens, 3, heads, head width)
        attended = packed_attention(_packed_heads(qkv, self.heads, 3), mask)
        return linear(attended.view(x.shape), self.out_proj.weight)


class CrossAttention(nn.Module):
    """Multi-head attention of target tokens to the encoded source."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q_proj = nn.Linear(width, width)
        self.kv_proj = nn.Linear(width, 2 * width)
        self.out_proj = nn.Linear(width, width)
        init_blocks(self.q_proj, gain=2**-0.5)
        init_blocks(self.kv_proj, 2, gain=2**-0.5)
        init_blocks(self.out_proj)

    def project_kv(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoded source, (windows, heads, length, head width) each; the same for all steps."""
        keys, values = split_heads(self.kv_proj(encoded), self.heads, 2)
        return keys, values

    def packed(self, x: Tensor, kv: Tensor, mask: PackedMask) -> Tensor:
        """Attend from packed windows x, (1, length, width), to the source, without the bias of the output.

        `kv` are keys and values from `project_source`.
        """
        queries = linear(x, self.q_proj.weight, self.q_proj.bias)
        attended = packed_attention(_packed_heads(queries, self.heads, 1), mask, kv, overwrites=True)
        return linear(attended.view(x.shape), self.out_proj.weight)

    def forward(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | TreeMask | WindowMask,
        weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Attend from x, (windows, length, width), to the source; the output has the same shape."""
        (queries,) = split_heads(self.q_proj(x), self.heads, 1)
        dropout = self.dropout if self.training else 0.0
        attended = attend(queries, keys, values, mask, dropout=dropout, weights_out=weights_out)
        return join_heads(attended, self.out_proj)


def split_heads(x: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
    """(windows, length, parts · width) → as many tensors (windows, heads, length, head width)."""
    windows, length, width = x.shape
    return x.view(windows, length, parts, heads, width // (parts * heads)).permute(2, 0, 3, 1, 4).unbind(0)


def _packed_heads(x: Tensor, heads: int, parts: int) -> Tensor:
    """(1, tokens, parts · width) → (tokens, parts, heads, head width)."""
    return x.reshape(x.shape[1], parts, heads, -1)


def join_heads(x: Tensor, output: nn.Linear) -> Tensor:
    """(windows, heads, length, head width) → (windows, length, width), through the output layer."""
    joined: Tensor = output(x.transpose(1, 2).flatten(2))
    return joined


def init_blocks(layer: nn.Linear, blocks: int = 1, gain: float = 1.0) -> None:
    """Xavier's uniform for each of the matrices stacked in one layer, as if they stood alone; no bias."""
    for block in layer.weight.chunk(blocks):
        nn.init.xavier_uniform_(block, gain=gain)
    nn.init.zeros_(layer.bias)

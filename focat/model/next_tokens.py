"""The next tokens of all hypotheses: where they stand in their windows, and their nodes in the KV cache.

On GPUs, a step of one token for each hypothesis in static buffers is one kernel, where plain torch needs some 40. Plain
torch is the reference, and serves everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from focat.hardware import runs_kernels
from focat.model.attention import LayerKV
from focat.model.kv_cache import AttentionInputs, TreeKVCache
from focat.model.positions import shifted_positions
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of, tree_segments


@dataclass(frozen=True)
class NextTokens:
    """The next tokens, (windows, queries); `queries` is beam · new, hypothesis by hypothesis."""

    target_input: PaddedSequences
    positions: Tensor  # (windows, queries)
    inputs: AttentionInputs


def read_next(
    cache: TreeKVCache, tokens: Tensor, columns: int | None = None, branches: Tensor | None = None
) -> NextTokens:
    """Add the next tokens to a cache; the arguments are those of `TreeKVCache.append`.

    In static buffers, PAD as the only new token must be the last of its hypothesis: it sees itself, and so may later
    ones on a GPU.
    """
    rows, new = tokens.shape
    windows = cache.current.shape[0]
    if new == 1 and columns is not None and branches is None and runs_kernels(tokens.device):
        return _read_one(cache, tokens, columns)
    if branches is None:
        segments = segments_of(tokens)  # (rows, new), counted from the first of the new tokens, as positions are
        shift = cache.shift.repeat_interleave(cache.beam, output_size=rows)
        lengths, separators = cache.lengths.view(-1), cache.num_separators.view(-1)
        positions = shifted_positions(segments, shift) + (lengths + separators * shift)[:, None]
        segments = torch.where(segments < 0, segments, segments + separators[:, None])
    else:
        segments = tree_segments(tokens, branches)
        positions = branches.sum(-1) - 1 + segments.clamp(min=0) * cache.shift[:, None]
    target_input = PaddedSequences(tokens.reshape(windows, -1), segments.reshape(windows, -1), cache.current)
    return NextTokens(target_input, positions.reshape(windows, -1), cache.append(tokens, columns, branches))


def _read_one(cache: TreeKVCache, tokens: Tensor, columns: int) -> NextTokens:
    """By the kernel. A new node is on the branch of its own hypothesis alone, so the branches are the mask."""
    windows, beam, _ = cache.ancestor_mask.shape
    tokens = tokens.view(windows, beam)
    segments, positions, opened, write_columns = _append_one(
        tokens.contiguous(), cache.shift, cache.write_pos,
        cache.ancestor_mask, cache.opened_segments, cache.lengths, cache.num_separators,
    )  # fmt: skip
    cache.write_pos += beam  # afterwards: all programs have read it
    cache.length += beam
    layers = [LayerKV(keys, values, write_columns, columns) for keys, values in cache.self_kv]
    mask = cache.ancestor_mask[:, None, :, :columns]
    inputs = AttentionInputs(mask, cache.opened_segments[:, :columns], opened, layers)
    return NextTokens(PaddedSequences(tokens, segments, cache.current), positions, inputs)


def _append_one(
    tokens: Tensor, shift: Tensor, write_pos: Tensor, ancestor_mask: Tensor, opened_segments: Tensor,
    lengths: Tensor, num_separators: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Segments, positions and opened segments of the tokens, in their shape, and the columns of one row each."""
    from focat.model import decoding_kernels  # imports Triton, some 80 MB

    windows, beam, capacity = ancestor_mask.shape
    segments, positions, opened = (torch.empty_like(tokens) for _ in range(3))
    outputs = segments, positions, opened, tokens.new_empty(beam)
    decoding_kernels.append_one[(windows,)](
        tokens, shift, write_pos, ancestor_mask, opened_segments, lengths, num_separators, *outputs, capacity,
        BEAM=beam, SLOTS=max(2, 1 << (beam - 1).bit_length()), num_warps=1,
    )  # fmt: skip
    return outputs

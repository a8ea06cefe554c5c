"""Plain beam search on GPUs: a step of all windows in one kernel, where plain torch needs some 150.

They do what `BeamSearch.advance` with `beam_topk` does, and `TreeKVCache.reorder`; these are the reference, and serve
all other devices and searches. Among candidates of equal probability the kernel takes those of lower index. Windows
that are finished are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import torch
from torch import Tensor

from focat.decoding.beam import BeamSearch
from focat.decoding.selection import TopTokens
from focat.decoding.tensor_struct import TensorStruct
from focat.hardware import runs_kernels
from focat.model import TreeKVCache

_MOST_HYPOTHESES = 16  # of a window, whose candidates fit into the registers of a warp
_CHUNK = 256  # tokens of the hypotheses of a window that are copied at a time,
_MASK_CHUNK = 2048  # and entries of their masks
_LAUNCH = {"num_warps": 1, "num_stages": 1}  # more stages would load a chunk before the last one is written
_ROWS = 128  # of a program that only looks up tokens


def has_fused_beam(search: BeamSearch) -> bool:
    """Whether the kernels can advance a search without samples."""
    return runs_kernels(search.live.rank.device) and not search.phrases and _fits(search)


def newest_tokens(search: BeamSearch) -> Tensor:
    """`search.last_tokens`, (rows, 1)."""
    if not runs_kernels(search.live.rank.device):
        return search.last_tokens
    newest: Tensor = _newest_tokens(search.live.tokens, search.state.step, search.state.finished)
    return newest


def advance(search: BeamSearch, top: TopTokens, caches: Sequence[TreeKVCache]) -> None:
    """Extend all hypotheses by one token, and continue the rows of the caches as the hypotheses do.

    Args:
        search: has no phrases, and does not sample.
        top: the most probable tokens after each hypothesis, or after the only one of each window.
        caches: of all models.
    """
    state = search.state
    _advance(
        [each.contiguous() for each in (top.closing, top.words, top.ids)],
        _tensors(search.live),
        _tensors(search.ended),
        [state.step, state.closed, state.empty, state.lengths, state.finished],
        [state.max_length, state.sentences],
        [tensor for cache in caches for tensor in (cache.ancestor_mask, cache.lengths, cache.num_separators)],
        [cache.write_pos for cache in caches],
        search.nbest,
        search.length_penalty,
    )


def _advance(
    top: list[Tensor], live: list[Tensor], ended: list[Tensor], state: list[Tensor], limits: list[Tensor],
    caches: list[Tensor], write_pos: list[Tensor], nbest: int, length_penalty: float,
) -> None:  # fmt: skip
    from focat.decoding import beam_kernels  # imports Triton, some 80 MB

    step, closed, empty, lengths, finished = state
    hypotheses, words = top[1].shape[1:]
    windows, beam, size = live[0].shape
    slots = max(2, 1 << (beam - 1).bit_length())
    chunk = {"MASK_CHUNK": _MASK_CHUNK // slots}
    parents = torch.empty_like(lengths)
    rows = [tensor.view(torch.uint8) if tensor.ndim == 3 else tensor for tensor in caches]
    no_cache = [empty.view(torch.uint8), lengths, lengths, lengths.new_zeros(())] if not caches else []
    beam_kernels.advance[(windows,)](
        *top, *live, *ended, step, *limits, closed, empty, lengths, finished, *(no_cache or (*rows[:3], write_pos[0])),
        parents, hypotheses, nbest, size, rows[0].shape[2] if rows else 16, length_penalty,
        BEAM=beam, WORDS=words, SLOTS=slots, OPTIONS=1 << (words + 1).bit_length(), CHUNK=_CHUNK // slots,
        **chunk, **_LAUNCH,
    )  # fmt: skip
    for number, used in list(enumerate(write_pos))[1:]:
        of_cache = rows[3 * number : 3 * number + 3]
        beam_kernels.reorder[(windows,)](
            *of_cache, used, parents, of_cache[0].shape[2], BEAM=beam, SLOTS=slots, **chunk, **_LAUNCH
        )


def _newest_tokens(tokens: Tensor, step: Tensor, finished: Tensor) -> Tensor:
    from focat.decoding import beam_kernels

    windows, beam, size = tokens.shape
    newest = tokens.new_empty(windows * beam, 1)
    beam_kernels.newest_tokens[(-(-len(newest) // _ROWS),)](
        tokens, step, finished, newest, len(newest), size, BEAM=beam, ROWS=_ROWS, num_warps=4
    )
    return newest


def _fits(search: BeamSearch) -> bool:
    return search.live.rank.shape[1] <= _MOST_HYPOTHESES


def _tensors(struct: TensorStruct) -> list[Tensor]:
    return [getattr(struct, field.name) for field in fields(struct)]  # type: ignore[arg-type]

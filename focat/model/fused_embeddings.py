"""The sum of token, position and segment embeddings in one kernel, on GPUs in half precision, where nothing is trained.

`embeddings.sum_embeddings` is the same in plain torch, for everything else. The kernel rounds as often as it does.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from focat.choices import Sinusoids
from focat.config.schema import ModelSettings
from focat.hardware import runs_kernels
from focat.model.positions import sinusoid_frequencies
from focat.windows.batch import PaddedSequences

_WARPS = 2  # of a token


def has_fused_embeddings(settings: ModelSettings, table: Tensor) -> bool:
    """Whether the kernel computes the input of padded sequences from this table, if there is no dropout."""
    added_once = settings.segment_embeddings == "none" or settings.segment_embeddings_at == "input"
    return (
        runs_kernels(table.device)
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled(table.device.type)
        and table.dtype in (torch.bfloat16, torch.float16)
        and settings.positions == "sinusoidal"
        and settings.d_model % 2 == 0
        and added_once
    )


def fused_embeddings(
    settings: ModelSettings,
    sequences: PaddedSequences,
    positions: Tensor,
    table: Tensor,
    segment_table: Tensor | None,
    before: int,
    after: int,
) -> Tensor:
    """The sum, (windows, length, width).

    Args:
        settings: of the model.
        sequences: one side of a batch.
        positions: in the shape of its tokens.
        table: (vocabulary, width).
        segment_table: (sentences + 1, width), if there are segment embeddings.
        before, after: sentences that a window has around the current one.
    """
    from focat.model import decoding_kernels  # imports Triton, some 80 MB

    width, tokens = table.shape[1], sequences.tokens.contiguous()
    output = table.new_empty(*tokens.shape, width)
    decoding_kernels.embed[(tokens.numel(),)](
        tokens, positions.contiguous(), sequences.segments.contiguous(), sequences.current.contiguous(), table,
        _frequencies(width, settings.sinusoids, table.device), table if segment_table is None else segment_table,
        output, tokens.shape[1], before, after, settings.position_offset, math.sqrt(width), HALF=width // 2,
        BLOCK=1 << (width // 2 - 1).bit_length(), ZERO_START=settings.start_embedding == "zero",
        SEGMENTS=segment_table is not None, num_warps=_WARPS,
    )  # fmt: skip
    return output


@lru_cache(maxsize=8)  # made before any capture, whose first run is eager
def _frequencies(width: int, kind: Sinusoids, device: torch.device) -> Tensor:
    return sinusoid_frequencies(width, kind, device)

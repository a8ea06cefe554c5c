"""The most probable words of rows of logits on a CPU, by a kernel in C; `selection.TopTokens` has the same in torch."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from focat.c_library import load_library
from focat.corpus.vocabulary import SPECIALS

_SOURCE = Path(__file__).with_suffix(".c")
_MAX_THREADS = 3  # of torch; with more, its own kernels, which share their work among them, are faster


def can_find_top_tokens(logits: Tensor, count: int) -> bool:
    """Whether `top_tokens` finds so many words of these logits, (windows, beam, vocabulary), and is the fastest way."""
    return (
        logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and logits.is_contiguous()
        and 0 < count <= logits.shape[-1] - SPECIALS
        and not torch.is_grad_enabled()
        and torch.get_num_threads() <= _MAX_THREADS
        and load_library(_SOURCE) is not None
    )


def top_tokens(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best words.

    Args:
        logits: (windows, beam, vocabulary), contiguous.
        count: of words.

    Returns:
        Their logits and their tokens, (windows, beam, count) each, and the log-sum of all logits, (windows, beam, 1).
    """
    library = load_library(_SOURCE)
    assert library is not None
    *rows, vocabulary = logits.shape
    words, log_sums = logits.new_empty(*rows, count), logits.new_empty(*rows, 1)
    ids = torch.empty(*rows, count, dtype=torch.long)
    sizes = map(ctypes.c_int64, (log_sums.numel(), vocabulary, SPECIALS, count))
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (logits, words, ids, log_sums)]
    library.focat_top_tokens(pointers[0], *sizes, *pointers[1:])
    return words, ids, log_sums

"""Greedy decoding of whole windows, to watch a model learn; documents are translated by `focat.translation`."""

from __future__ import annotations

import torch
from torch import Tensor

from focat.corpus.vocabulary import END, PAD, SEPARATOR, START
from focat.model.transformer import Transformer
from focat.windows.batch import PaddedSequences


@torch.no_grad()
def greedy_decode(
    model: Transformer, source: PaddedSequences, max_length_ratio: float = 2.0, max_length_offset: int = 20
) -> Tensor:
    """Decode with the likeliest token at every step, up to ratio · source length + offset tokens.

    Returns:
        (windows, length) target tokens; PAD after `<E>`.
    """
    cache = model.init_cache(model.encode(source))
    max_length = int(max_length_ratio * source.tokens.shape[1]) + max_length_offset
    token = torch.full_like(source.tokens[:, :1], START)
    finished = torch.zeros_like(token, dtype=torch.bool)
    tokens: list[Tensor] = []
    while len(tokens) < max_length and not bool(finished.all()):
        logits = model.project(model.decode_step(cache, token)[:, -1:])
        logits[..., [PAD, START]] = -torch.inf
        token = logits.argmax(-1).masked_fill(finished, PAD)
        finished = finished | (token == END)
        tokens.append(token)
    return torch.cat(tokens, 1)


def after_last_separator(tokens: Tensor) -> list[int]:
    """The current sentence of a decoded window, (length,): what follows its last separator (the paper's rule)."""
    kept: list[int] = []
    for token in tokens.tolist():
        if token == SEPARATOR:
            kept = []
        elif token not in (END, PAD):
            kept.append(token)
    return kept

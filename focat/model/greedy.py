"""Greedy decoding of whole windows: enough to watch a model learn. Documents are translated in the decoding room."""

from __future__ import annotations

import torch
from torch import Tensor

from focat.corpus.vocabulary import END, PAD, SEPARATOR, START
from focat.model.transformer import Transformer
from focat.windows.batch import PaddedSequences


@torch.no_grad()
def greedy(
    model: Transformer, source: PaddedSequences, max_length_ratio: float = 2.0, max_length_offset: int = 20
) -> Tensor:
    """The likeliest next token, again and again: (windows, length), PAD after `<E>`."""
    cache = model.start(model.encode(source))
    most = int(max_length_ratio * source.tokens.shape[1]) + max_length_offset
    token = torch.full_like(source.tokens[:, :1], START)
    done = torch.zeros_like(token, dtype=torch.bool)
    tokens: list[Tensor] = []
    while len(tokens) < most and not bool(done.all()):
        logits = model.project(model.step(cache, token)[:, -1:])
        logits[..., [PAD, START]] = -torch.inf
        token = logits.argmax(-1).masked_fill(done, PAD)
        done = done | (token == END)
        tokens.append(token)
    return torch.cat(tokens, 1)


def current_sentence(tokens: Tensor) -> list[int]:
    """What follows the last separator of a decoded window, (length,): the paper's rule."""
    kept: list[int] = []
    for token in tokens.tolist():
        if token == SEPARATOR:
            kept = []
        elif token not in (END, PAD):
            kept.append(token)
    return kept

"""Drafts that the second decoder of CADec is trained on: references or samples, with some words replaced at random."""

from __future__ import annotations

import torch
from torch import Tensor

from focat.corpus.vocabulary import SPECIALS

REFERENCE_NOISE, SAMPLE_NOISE = 0.2, 0.1  # share of words that are replaced
TEMPERATURE = 0.5  # of samples


def with_noise(tokens: Tensor, rate: float, vocabulary: int) -> Tensor:
    """Replace words, (windows, length), by random ones of the vocabulary."""
    replaced = (tokens >= SPECIALS) & (torch.rand(tokens.shape, device=tokens.device) < rate)
    return torch.where(replaced, torch.randint_like(tokens, SPECIALS, vocabulary), tokens)


def sample_tokens(logits: Tensor) -> Tensor:
    """A word for each row of logits, (rows, vocabulary), at the temperature of drafts."""
    logits = logits.float().clone()
    logits[:, :SPECIALS] = -torch.inf
    return (logits / TEMPERATURE).softmax(-1).multinomial(1)[:, 0]

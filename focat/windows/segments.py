"""Segments: the index of the sentence of its window that a token belongs to. All the paper adds is derived from them.

A separator belongs to the sentence it closes, so a token's segment is the number of separators before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from focat.corpus.vocabulary import PAD, SEPARATOR, START
from focat.windows.batch import PackedSequences, Sequences

Tokens = TypeVar("Tokens", bound=Any)
Side = TypeVar("Side", bound=Sequences)


def segments_of(tokens: Tokens) -> Tokens:
    """The segment of every token of padded windows, (windows, length); -1 on padding. For NumPy and torch."""
    closes = tokens == SEPARATOR
    before = closes.cumsum(-1) - 1 * closes
    segments: Tokens = (before + 1) * (tokens != PAD) - 1
    return segments


def decoder_input(target: Side) -> Side:
    """The decoder's input in teacher forcing: `target` shifted right by one, after a start symbol.

    The start symbol is in segment 0, wherever the current sentence is; its segment embedding alone is that of the
    current sentence (`Transformer`).
    """
    tokens, segments = target.tokens.roll(1, -1), target.segments.roll(1, -1)
    if isinstance(target, PackedSequences):
        first = target.index == 0
        tokens, segments = tokens.masked_fill(first, START), segments.masked_fill(first, 0)
    else:
        tokens[:, 0], segments[:, 0] = START, 0
    return replace(target, tokens=tokens, segments=segments)

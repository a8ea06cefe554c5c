"""Segments: the index of the sentence of its window that a token belongs to. All the paper adds is derived from them.

A separator belongs to the sentence it closes, so a token's segment is the number of separators before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor

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


def tree_segments(tokens: Tensor, branches: Tensor) -> Tensor:
    """The segment of every token of trees, (windows, nodes): the separators before it on its branch; -1 on padding.

    Args:
        tokens: (windows, nodes).
        branches: (windows, nodes, nodes) True where a node, the second, is on the branch of another, or that node.
    """
    closes = tokens == SEPARATOR
    before = (branches & closes[:, None]).sum(-1) - 1 * closes
    return before.masked_fill(tokens == PAD, -1)


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

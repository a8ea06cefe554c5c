"""Constraints on the number of sentences of a translation.

Separators and `<E>` are allowed where they lead to the required number, and forced where the maximum length leaves no
other way. The state of a hypothesis is how many sentences it has closed, and whether its open sentence is still empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

Limits = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""The arguments of `next_token_mask`."""


@dataclass(frozen=True)
class NextTokenMask:
    """Which kinds of token may come next, (windows, beam) each; PAD and the start symbol never may."""

    word: Tensor
    separator: Tensor
    end: Tensor
    forced: Tensor  # the maximum length leaves no choice but to close what is open


def min_length(sentences: int | None, closed: int, empty: bool) -> int:
    """Length of the shortest legal translation, END included.

    With `sentences` required, `closed` of them closed and the open one `empty` or not, that is one word to a sentence;
    with any number of sentences, one token and END.
    """
    return 2 if sentences is None else max(2 * (sentences - closed) - 1, 1) + empty


def next_token_mask(
    closed: Tensor, empty: Tensor, decoded: Tensor, max_length: Tensor, sentences: Tensor
) -> NextTokenMask:
    """Which kinds of token may continue each hypothesis.

    Args:
        closed: sentences each hypothesis has closed, (windows, beam).
        empty: whether its open sentence has no word yet, (windows, beam).
        decoded: tokens decoded so far, (windows, 1).
        max_length: most tokens to decode, (windows, 1); at least `min_length`.
        sentences: sentences the target must have, (windows, 1). None of them may be empty, and all are closed within
            the maximum length. 0 for any number, where sentences may be empty (the paper's rule), but END may not be
            the first token, as in the authors' search.
    """
    free = sentences == 0
    last = closed >= sentences - 1
    needed = (2 * (sentences - closed) - 1).clamp(min=1) + empty
    forced = max_length - decoded <= needed.masked_fill(free, 1)
    return NextTokenMask(
        word=~forced | (empty & ~free),
        separator=(free & ~forced) | ~(free | last | empty),
        end=(free & (decoded > 0)) | (last & ~empty & ~free),
        forced=forced,
    )

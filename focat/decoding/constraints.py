"""How many sentences a translation has: separators and `<E>` are allowed where they lead to that number, or are forced.

All that counts of a hypothesis is how many sentences it has closed and whether the one in the making has a word yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Allowed:
    """What may come next, (windows, beam) each; PAD and the start symbol never may."""

    word: Tensor
    separator: Tensor
    end: Tensor
    forced: Tensor  # the limit leaves no other way to close what is open


def fewest_tokens(sentences: int | None, closed: int, empty: bool) -> int:
    """The shortest way to the end, one word to a sentence."""
    return 1 if sentences is None else max(2 * (sentences - closed) - 1, 1) + empty


def allowed_next(closed: Tensor, empty: Tensor, left: Tensor, sentences: Tensor) -> Allowed:
    """What hypotheses, (windows, beam), may go on with when `left` more tokens can be decoded, (windows, 1).

    `sentences` is how many the whole target must have, (windows, 1), or 0 for any number, even of empty ones (the
    paper's rule). Otherwise none may be empty, and the limit never comes before all are closed.
    """
    free = sentences == 0
    last = closed >= sentences - 1
    needed = (2 * (sentences - closed) - 1).clamp(min=1) + empty
    forced = left <= needed.masked_fill(free, 1)
    return Allowed(
        word=~forced | (empty & ~free),
        separator=(free & ~forced) | ~(free | last | empty),
        end=free | (last & ~empty),
        forced=forced,
    )

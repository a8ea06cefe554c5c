"""The window builder: which sentences a window has, how they are joined, and how windows are padded to a batch.

Training, translation, scoring and test suites all cut their windows by these rules (section 2.2 of the paper).
`corpus_windows` applies the same rules to all sentences of a corpus at once.

To translate sentence `i` of a document, after the translations of its context:

    span = cut_window(source_lengths, target_lengths, i, settings)
    source = join_window(source[j] for j in span.source)  # x1 <S> x2 <S> … xn <E>
    prefix = close_sentences(target[j] for j in span.target if j < i)  # y1 <S> y2 <S> …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of

TokenIds = Sequence[int] | NDArray[np.int64]
Count = TypeVar("Count", int, NDArray[np.int64])


@dataclass(frozen=True)
class WindowSpan:
    """The sentences of one window, as indices into its document."""

    current: int
    source: range
    target: range
    dropped: int = 0  # source context sentences that were left out because the window was too long

    @property
    def source_current(self) -> int:
        """Segment of the current sentence on the source."""
        return self.current - self.source.start

    @property
    def target_current(self) -> int:
        """Segment of the current sentence on the target."""
        return self.current - self.target.start


def drop_farthest(before: Count, after: Count) -> tuple[Count, Count]:
    """Shorten a window by its farthest sentence; of two at the same distance, by the one after the current sentence.

    Args:
        before: how many sentences the window has in front of the current one; a number or an array.
        after: how many it has behind the current one.
    """
    behind = after >= before
    return before - 1 + behind, after - behind


def cut_window(
    source_lengths: Sequence[int], target_lengths: Sequence[int], current: int, settings: WindowSettings
) -> WindowSpan:
    """Choose the sentences around the current one; if the window is too long, the farthest are dropped first.

    Args:
        source_lengths: tokens of each source sentence of the document, without separators.
        target_lengths: the same of the target. It may end early: what is not there takes no tokens.
        current: index of the current sentence.
        settings: how many sentences a window may have before and after, and its most tokens on either side.

    Returns:
        The span of the window. A current sentence that is too long by itself stands alone, and is still too long.
    """
    before, after = min(settings.before, current), min(settings.after, len(source_lengths) - 1 - current)
    wanted = before + after
    while True:
        target_before, target_after = (min(pair) for pair in zip((before, after), settings.target, strict=True))
        source = range(current - before, current + after + 1)
        target = range(current - target_before, current + target_after + 1)
        length = max(_closed_length(source_lengths, source), _closed_length(target_lengths, target))
        if length <= settings.max_tokens or not (before or after):
            return WindowSpan(current, source, target, wanted - before - after)
        before, after = drop_farthest(before, after)


def _closed_length(lengths: Sequence[int], span: range) -> int:
    """Tokens of these sentences, with a separator or end symbol after each."""
    inside = lengths[span.start : span.stop]
    return sum(inside) + len(inside)


def close_sentences(sentences: Iterable[Iterable[int]]) -> list[int]:
    """Sentences in a row, each closed by `<S>`: the beginning of a window."""
    return [token for sentence in sentences for token in (*sentence, SEPARATOR)]


def join_window(sentences: Iterable[Iterable[int]]) -> list[int]:
    """A whole window: sentences with `<S>` between them and `<E>` after the last."""
    return [*close_sentences(sentences)[:-1], END]


def pad_rows(rows: Sequence[TokenIds], length: int = 0, left: bool = False) -> Tensor:
    """Rows of ids side by side.

    Args:
        rows: at least one row; rows may be empty.
        length: the result is at least this long.
        left: put the padding in front of the rows instead of behind them.

    Returns:
        (rows, length) int64, on the CPU; PAD where a row has no token.
    """
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), max(length, int(lengths.max()))), PAD, np.int64)
    column = np.arange(table.shape[1])
    real = column >= table.shape[1] - lengths[:, None] if left else column < lengths[:, None]
    arrays = isinstance(rows[0], np.ndarray)
    table[real] = np.concatenate(rows) if arrays else np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return torch.from_numpy(table)


def pad_windows(windows: Sequence[TokenIds], current: Sequence[int]) -> PaddedSequences:
    """One side of a batch, from joined windows and the segments of their current sentences."""
    tokens = pad_rows(windows)
    return PaddedSequences(tokens, segments_of(tokens), torch.tensor(current))

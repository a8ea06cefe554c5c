"""All windows of a corpus at once, as arrays, by the rules of `builder` (section 2.2 of the paper).

Sentence j comes with up to `before` sentences in front of it and `after` behind it, never across the edge of a
document; the target has the same sentences or fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from focat.config.schema import WindowSettings
from focat.corpus.store import Sentences, Split
from focat.corpus.vocabulary import END, PAD
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.builder import drop_farthest
from focat.windows.segments import segments_of
from focat.windows.splitmix64 import splitmix64

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """One side of all windows: sentences `first` to `last`, both included, as indices into the corpus."""

    first: Indices  # (windows,)
    last: Indices  # (windows,)
    lengths: Indices  # (windows,) in tokens: every sentence and what closes it
    foreign: tuple[Indices, Indices] | None = None  # (windows,) each: first and end of context that is from elsewhere

    def before(self, rows: Indices, current: Indices) -> Indices:
        """Sentences in front of the current ones of these windows."""
        own = current - self.first[rows]
        return own if self.foreign is None else own + self.foreign[1][rows] - self.foreign[0][rows]

    def addresses(self, sentences: Sentences, rows: Indices, index: Indices) -> Indices:
        """Where the tokens of windows `rows` lie in the store; `index` counts in each window, and may be 2-D."""
        own = sentences.offsets[self.first[rows]]
        if self.foreign is None:
            return own + index
        first, end = (sentences.offsets[each[rows]] for each in self.foreign)
        return np.where(index < end - first, first + index, own + index - (end - first))


@dataclass(frozen=True)
class CorpusWindows:
    """All windows of a corpus, one for each sentence that fits."""

    current: Indices  # (windows,) the current sentence of each window
    source: Span
    target: Span
    shortened: int  # how many windows lost context because they were too long
    too_long: Indices  # sentences longer than a window may be: current in no window

    def __len__(self) -> int:
        return len(self.current)


def cut_windows(split: Split, settings: WindowSettings, seed: int = 0, epoch: int = 0) -> CorpusWindows:
    """Cut the windows of a corpus; seed and epoch only matter to windows of random size."""
    current = np.arange(len(split))
    before, after = _window_sizes(len(split), settings, seed, epoch)
    document = split.document_of
    before = np.minimum(before, current - split.documents[document])
    after = np.minimum(after, split.documents[document + 1] - 1 - current)

    shortened = np.zeros(len(split), bool)
    while True:
        source, target = _spans(split, settings, current, before, after)
        too_long = (source.lengths > settings.max_tokens) | (target.lengths > settings.max_tokens)
        can_shrink = too_long & (before + after > 0)
        if not can_shrink.any():
            break
        fewer_before, fewer_after = drop_farthest(before, after)
        before, after = np.where(can_shrink, fewer_before, before), np.where(can_shrink, fewer_after, after)
        shortened |= can_shrink
    fits = ~too_long
    windows = CorpusWindows(
        current[fits], _select(source, fits), _select(target, fits), int((shortened & fits).sum()), current[too_long]
    )
    return windows if settings.context == "real" else _with_foreign_context(split, settings, windows, seed, epoch)


def _with_foreign_context(
    split: Split, settings: WindowSettings, windows: CorpusWindows, seed: int, epoch: int
) -> CorpusWindows:
    """Give each window the context of another one; none where the two together would be too long."""
    current, before = windows.current, windows.current - windows.source.first
    if settings.context == "random":
        donors = np.argsort(splitmix64(len(windows), seed, epoch, 7), kind="stable")
    else:
        donors = np.full(len(windows), before.argmax() if len(windows) else 0)
    spans = []
    for sentences, real in ((split.source, windows.source), (split.target, windows.target)):
        own = _span(sentences, current, current)
        foreign = real.first[donors], current[donors]
        tokens = sentences.offsets[foreign[1]] - sentences.offsets[foreign[0]]
        spans.append(Span(own.first, own.last, own.lengths + tokens, foreign))
    too_long = (spans[0].lengths > settings.max_tokens) | (spans[1].lengths > settings.max_tokens)
    source, target = (
        _without_foreign(split_side, span, too_long)
        for split_side, span in zip((split.source, split.target), spans, strict=True)
    )
    return CorpusWindows(current, source, target, int(too_long.sum()), windows.too_long)


def _without_foreign(sentences: Sentences, span: Span, rows: NDArray[np.bool_]) -> Span:
    """Take the context away from some windows."""
    assert span.foreign is not None
    first, end = span.foreign
    removed = np.where(rows, sentences.offsets[end] - sentences.offsets[first], 0)
    return Span(span.first, span.last, span.lengths - removed, (np.where(rows, end, first), end))


def gather_batch(split: Split, windows: CorpusWindows, rows: Indices, source_length: int, target_length: int) -> Batch:
    """Collate the windows `rows` into a batch, padded to these lengths."""
    current = windows.current[rows]
    return Batch(
        _pad_side(split.source, windows.source, rows, current, source_length),
        _pad_side(split.target, windows.target, rows, current, target_length),
        torch.from_numpy(current),
    )


def _pad_side(sentences: Sentences, span: Span, rows: Indices, current: Indices, length: int) -> PaddedSequences:
    lengths = span.lengths[rows]
    column = np.arange(length)
    # A window is one slice of the store, so one gather cuts out the whole batch.
    tokens = sentences.tokens.take(span.addresses(sentences, rows[:, None], column), mode="clip")
    tokens = np.where(column < lengths[:, None], tokens, PAD).astype(np.int64)  # (windows, length)
    tokens[np.arange(len(rows)), lengths - 1] = END  # in place of the last sentence's separator
    return PaddedSequences(*map(torch.from_numpy, (tokens, segments_of(tokens), span.before(rows, current))))


def _window_sizes(count: int, settings: WindowSettings, seed: int, epoch: int) -> tuple[Indices, Indices]:
    """Context sentences before and after, (windows,) each, were it not for documents' edges and `max_tokens`."""
    if settings.sampling == "fixed":
        return np.full(count, settings.before), np.full(count, settings.after)
    before = splitmix64(count, seed, epoch, 1) % np.uint64(settings.before + 1)
    after = splitmix64(count, seed, epoch, 2) % np.uint64(settings.after + 1)
    return before.astype(np.int64), after.astype(np.int64)


def _spans(
    split: Split, settings: WindowSettings, current: Indices, before: Indices, after: Indices
) -> tuple[Span, Span]:
    target_before, target_after = settings.target
    return (
        _span(split.source, current - before, current + after),
        _span(split.target, current - np.minimum(before, target_before), current + np.minimum(after, target_after)),
    )


def _span(sentences: Sentences, first: Indices, last: Indices) -> Span:
    return Span(first, last, sentences.offsets[last + 1] - sentences.offsets[first])


def _select(span: Span, rows: NDArray[np.bool_]) -> Span:
    return Span(span.first[rows], span.last[rows], span.lengths[rows])

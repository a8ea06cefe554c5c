"""All windows of a corpus at once, as arrays, by the rules of `builder` (section 2.2 of the paper).

Sentence j comes with up to `before` sentences in front of it and `after` behind it, never across the edge of a
document; the target has the same sentences or fewer. Only the numbers of these sentences are kept, in a byte or two
each, because a corpus may have a billion windows; where windows lie in the store is looked up when they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from focat.config.schema import WindowSettings
from focat.corpus.store import Sentences, Split
from focat.corpus.vocabulary import END, PAD
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.builder import drop_farthest
from focat.windows.segments import segments_of
from focat.windows.shuffling import Unsigned, chunks, shuffle
from focat.windows.splitmix64 import splitmix64_at

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """One side of some windows: sentences `first` to `last`, both included, as indices into the corpus."""

    first: Indices  # (windows,)
    last: Indices  # (windows,)
    lengths: Indices  # (windows,) in tokens: every sentence and what closes it
    foreign: tuple[Indices, Indices] | None = None  # (windows,) each: first and end of context that is from elsewhere

    def before(self, current: Indices) -> Indices:
        """Sentences in front of the current ones."""
        own = current - self.first
        return own if self.foreign is None else own + self.foreign[1] - self.foreign[0]

    def addresses(self, sentences: Sentences, window: Indices, index: Indices) -> Indices:
        """Where tokens lie in the store: those at `index` of each `window`; the two are broadcast."""
        own = sentences.offsets[self.first][window]
        if self.foreign is None:
            return own + index
        first, end = (sentences.offsets[each][window] for each in self.foreign)
        return np.where(index < end - first, first + index, own + index - (end - first))


@dataclass(frozen=True)
class Windows:
    """Some windows of a corpus."""

    current: Indices  # (windows,) the current sentence of each
    source: Span
    target: Span


@dataclass(frozen=True)
class CorpusWindows:
    """All windows of a corpus, one for each sentence that fits; `windows[rows]` are those with these numbers."""

    split: Split
    settings: WindowSettings
    before: Unsigned  # (windows,) source sentences in front of the current one
    after: Unsigned  # (windows,) and behind it
    shortened: int  # how many windows lost context because they were too long
    too_long: Indices  # sentences longer than a window may be: current in no window
    donors: Unsigned | None = None  # (windows,) sentences in front of which the context lies, if it is from elsewhere

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, rows: Indices | slice) -> Windows:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        before, after = self.before[rows].astype(np.int64), self.after[rows].astype(np.int64)
        donors = None if self.donors is None else self.donors[rows].astype(np.int64)
        return _windows(self.split, self.settings, self.current_of(rows), before, after, donors)

    def current_of(self, rows: Indices) -> Indices:
        """The current sentences of these windows."""
        return rows + np.searchsorted(self._fitting_before, rows, "right")

    @cached_property
    def _fitting_before(self) -> Indices:
        """(too long,) how many sentences that fit come before each one that is too long."""
        return self.too_long - np.arange(len(self.too_long))

    def lengths(self) -> tuple[Unsigned, Unsigned]:
        """Tokens of all windows, (windows,) on the source and on the target."""
        source, target = (np.empty(len(self), np.min_scalar_type(self.settings.max_tokens)) for _ in range(2))
        for rows in chunks(len(self)):
            windows = self[rows]
            source[rows], target[rows] = windows.source.lengths, windows.target.lengths
        return source, target


def cut_windows(split: Split, settings: WindowSettings, seed: int = 0, epoch: int = 0) -> CorpusWindows:
    """Cut the windows of a corpus; seed and epoch only matter to windows of random size, or with random context."""
    all_before, all_after = (np.empty(len(split), np.min_scalar_type(n)) for n in (settings.before, settings.after))
    count, shortened, all_too_long = 0, 0, [np.zeros(0, np.int64)]
    for part in chunks(len(split)):
        current = np.arange(part.start, part.stop)
        before, after, lost, too_long = _cut(split, settings, current, seed, epoch)
        fits = slice(count, count := count + int((~too_long).sum()))
        all_before[fits], all_after[fits] = before[~too_long], after[~too_long]
        shortened += int((lost & ~too_long).sum())
        all_too_long.append(current[too_long])
    windows = CorpusWindows(
        split, settings, all_before[:count], all_after[:count], shortened, np.concatenate(all_too_long)
    )
    return windows if settings.context == "real" else _with_foreign_context(windows, seed, epoch)


def _cut(
    split: Split, settings: WindowSettings, current: Indices, seed: int, epoch: int
) -> tuple[Indices, Indices, NDArray[np.bool_], NDArray[np.bool_]]:
    """Context sentences of these sentences, before and after; which of them lost some, and which do not fit alone."""
    before, after = _window_sizes(current, settings, seed, epoch)
    document = np.searchsorted(split.documents, current, "right")
    before = np.minimum(before, current - split.documents[document - 1])
    after = np.minimum(after, split.documents[document] - 1 - current)
    shortened = np.zeros(len(current), bool)
    while True:
        too_long = _too_long(_windows(split, settings, current, before, after), settings)
        can_shrink = too_long & (before + after > 0)
        if not can_shrink.any():
            return before, after, shortened, too_long
        fewer_before, fewer_after = drop_farthest(before, after)
        before, after = np.where(can_shrink, fewer_before, before), np.where(can_shrink, fewer_after, after)
        shortened |= can_shrink


def _with_foreign_context(windows: CorpusWindows, seed: int, epoch: int) -> CorpusWindows:
    """Give each window the context of another one; none where the two together would be too long."""
    count, settings = len(windows), windows.settings
    if settings.context == "random":
        donors = shuffle(count, seed, epoch, 7)
    else:
        donors = np.broadcast_to(windows.before.argmax() if count else np.int64(0), count)
    sentences = np.empty(count, np.min_scalar_type(len(windows.split)))
    foreign = replace(windows, before=np.empty_like(windows.before), donors=sentences)
    dropped = 0
    for rows in chunks(count):
        those = donors[rows].astype(np.int64)
        sentences[rows], foreign.before[rows] = windows.current_of(those), windows.before[those]
        too_long = _too_long(foreign[rows], settings)
        foreign.before[rows][too_long] = 0
        dropped += int(too_long.sum())
    return replace(foreign, shortened=dropped)


def gather_batch(
    windows: CorpusWindows, rows: Indices, source_length: int | None = None, target_length: int | None = None
) -> Batch:
    """Collate the windows `rows` into a batch, padded to these lengths, or to the longest of them."""
    some, split = windows[rows], windows.split
    return Batch(
        _pad_side(split.source, some.source, some.current, source_length),
        _pad_side(split.target, some.target, some.current, target_length),
        torch.from_numpy(some.current),
    )


def _pad_side(sentences: Sentences, span: Span, current: Indices, length: int | None) -> PaddedSequences:
    window, column = np.arange(len(current)), np.arange(int(span.lengths.max()) if length is None else length)
    # A window is one slice of the store, so one gather cuts out the whole batch.
    tokens = sentences.tokens.take(span.addresses(sentences, window[:, None], column), mode="clip")
    tokens = np.where(column < span.lengths[:, None], tokens, PAD).astype(np.int64)  # (windows, length)
    tokens[window, span.lengths - 1] = END  # in place of the last sentence's separator
    return PaddedSequences(*map(torch.from_numpy, (tokens, segments_of(tokens), span.before(current))))


def _window_sizes(current: Indices, settings: WindowSettings, seed: int, epoch: int) -> tuple[Indices, Indices]:
    """Context sentences before and after, (windows,) each, were it not for documents' edges and `max_tokens`."""
    if settings.sampling == "fixed":
        return np.full(len(current), settings.before), np.full(len(current), settings.after)
    before = splitmix64_at(current, seed, epoch, 1) % np.uint64(settings.before + 1)
    after = splitmix64_at(current, seed, epoch, 2) % np.uint64(settings.after + 1)
    return before.astype(np.int64), after.astype(np.int64)


def _windows(
    split: Split,
    settings: WindowSettings,
    current: Indices,
    before: Indices,
    after: Indices,
    donors: Indices | None = None,
) -> Windows:
    """Windows of these sentences with so many others before and after them; context lies before `donors`, if given."""
    target_before, target_after = (
        np.minimum(reach, most) for reach, most in zip((before, after), settings.target, strict=True)
    )
    return Windows(
        current,
        _span(split.source, current, before, after, donors),
        _span(split.target, current, target_before, target_after, donors),
    )


def _span(sentences: Sentences, current: Indices, before: Indices, after: Indices, donors: Indices | None) -> Span:
    offsets = sentences.offsets
    if donors is None:
        first, last = current - before, current + after
        return Span(first, last, offsets[last + 1] - offsets[first])
    first = donors - before
    lengths = offsets[current + 1] - offsets[current] + offsets[donors] - offsets[first]
    return Span(current, current, lengths, (first, donors))


def _too_long(windows: Windows, settings: WindowSettings) -> NDArray[np.bool_]:
    return np.maximum(windows.source.lengths, windows.target.lengths) > settings.max_tokens

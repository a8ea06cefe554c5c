"""The builder's windows are training's, and padding and joining put every token in its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.builder import close_sentences, cut_window, join_window, pad_rows, pad_windows
from focat.windows.corpus_windows import cut_windows, gather_batch
from tests.windows.corpora import many, splits, window_settings


@many
@given(split=splits, settings=window_settings())
def test_one_window_at_a_time_gives_the_windows_of_training(split: Split, settings: WindowSettings) -> None:
    settings = settings.model_copy(update={"sampling": "fixed"})
    windows = cut_windows(split, settings)
    if not len(windows):
        return
    batch = gather_batch(windows, np.arange(len(windows)), settings.max_tokens, settings.max_tokens)
    spans, rows, dropped = [], [], 0
    for d in range(len(split.documents) - 1):
        members = range(split.documents[d], split.documents[d + 1])
        source, target = ([side[i].tolist() for i in members] for side in (split.source, split.target))
        for i in range(len(members)):
            span = cut_window([len(ids) for ids in source], [len(ids) for ids in target], i, settings)
            row = join_window(source[j] for j in span.source), join_window(target[j] for j in span.target)
            if max(map(len, row)) <= settings.max_tokens:
                spans.append(span)
                rows.append(row)
                dropped += span.dropped > 0
    assert dropped == windows.shortened
    for side, current, expected in (
        (0, [span.source_current for span in spans], batch.source),
        (1, [span.target_current for span in spans], batch.target),
    ):
        found = pad_windows([row[side] for row in rows], current)
        length = found.tokens.shape[1]
        assert found.tokens.tolist() == expected.tokens[:, :length].tolist()
        assert found.segments.tolist() == expected.segments[:, :length].tolist()
        assert (expected.tokens[:, length:] == PAD).all()
        assert found.current.tolist() == expected.current.tolist()


@pytest.mark.parametrize(
    ("max_tokens", "source", "target", "dropped"),
    [
        (12, range(0, 5), range(1, 3), 0),
        (11, range(0, 4), range(1, 3), 1),  # of two at the same distance, the later one
        (8, range(1, 4), range(1, 3), 2),
    ],
)
def test_the_farthest_sentence_is_dropped_first(max_tokens: int, source: range, target: range, dropped: int) -> None:
    settings = WindowSettings(before=2, after=2, target_before=1, target_after=0, max_tokens=max_tokens)
    span = cut_window([1, 1, 3, 1, 1], [1, 4, 1], 2, settings)
    assert (span.source, span.target, span.dropped) == (source, target, dropped)
    assert span.source_current == 2 - source.start
    assert span.target_current == 1


def test_a_target_that_is_not_known_yet_takes_no_tokens() -> None:
    # Translating sentence 1: the target has sentence 0, and what follows is still to be decoded.
    span = cut_window([2, 2, 2], [2], 1, WindowSettings(before=1, after=1, max_tokens=9))
    assert (span.source, span.target) == (range(0, 3), range(0, 3))


def test_a_sentence_that_is_too_long_stands_alone() -> None:
    span = cut_window([1, 20, 1], [1, 1, 1], 1, WindowSettings(before=1, after=1, max_tokens=8))
    assert (span.source, span.target, span.dropped) == (range(1, 2), range(1, 2), 2)


def test_sentences_are_joined_by_separators() -> None:
    assert join_window([[5, 6], [], [7]]) == [5, 6, SEPARATOR, SEPARATOR, 7, END]
    assert join_window([[]]) == [END]
    assert close_sentences([[5, 6], [7]]) == [5, 6, SEPARATOR, 7, SEPARATOR]
    assert close_sentences([]) == []


@pytest.mark.parametrize("rows", [[[5, 6], [], [7]], [np.array([5, 6]), np.array([], np.int64), np.array([7])]])
def test_rows_are_padded_on_either_side(rows: list[list[int]]) -> None:
    assert pad_rows(rows).tolist() == [[5, 6], [PAD, PAD], [7, PAD]]
    assert pad_rows(rows, 3).tolist() == [[5, 6, PAD], [PAD] * 3, [7, PAD, PAD]]
    assert pad_rows(rows, left=True).tolist() == [[5, 6], [PAD, PAD], [PAD, 7]]


@many
@given(st.lists(st.lists(st.integers(4, 60), max_size=9), min_size=1, max_size=6), st.integers(0, 12))
def test_padding_equals_its_definition(rows: list[list[int]], length: int) -> None:
    width = max(length, *map(len, rows))
    assert pad_rows(rows, length).tolist() == [row + [PAD] * (width - len(row)) for row in rows]
    assert pad_rows(rows, length, left=True).tolist() == [[PAD] * (width - len(row)) + row for row in rows]

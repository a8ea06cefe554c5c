"""Windows against a slow, obvious second version: one sentence at a time, one context sentence dropped at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.corpus.store import Sentences, Split
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.corpus_windows import cut_windows, gather_batch
from focat.windows.splitmix64 import splitmix64, splitmix64_at
from tests.windows.corpora import build_split, many, split_of_lengths, splits, window_settings

pytestmark = pytest.mark.usefixtures("small_chunks")


@dataclass
class SlowWindow:
    """The sentences around one current sentence, as lists of sentence numbers."""

    current: int
    source: list[int]
    target: list[int]
    lost_context: bool


def tokens_of(sentences: Sentences, chosen: list[int]) -> tuple[list[int], list[int]]:
    """The tokens of these sentences joined into a window, and the segment of each."""
    tokens, segments = [], []
    for index, sentence in enumerate(chosen):
        for token in [*sentences[sentence].tolist(), SEPARATOR if sentence != chosen[-1] else END]:
            tokens.append(token)
            segments.append(index)
    return tokens, segments


def joined(sentences: Sentences, chosen: list[int]) -> list[int]:
    """The tokens of a window of these sentences, of which one may be there twice."""
    tokens = [token for sentence in chosen for token in (*sentences[sentence].tolist(), SEPARATOR)]
    return [*tokens[:-1], END]


def slow_windows(split: Split, settings: WindowSettings, seed: int, epoch: int) -> tuple[list[SlowWindow], list[int]]:
    """All windows, and the sentences that are longer than a window may be."""
    windows, too_long = [], []
    for document in range(len(split.documents) - 1):
        members = range(split.documents[document], split.documents[document + 1])
        for current in members:
            before, after = settings.before, settings.after
            if settings.sampling == "random":
                before = int(splitmix64(current + 1, seed, epoch, 1)[current]) % (before + 1)
                after = int(splitmix64(current + 1, seed, epoch, 2)[current]) % (after + 1)
            around = [sentence for sentence in members if -before <= sentence - current <= after]
            lost_context = False
            while True:
                target_before, target_after = settings.target
                target = [sentence for sentence in around if -target_before <= sentence - current <= target_after]
                longest = max(len(tokens_of(split.source, around)[0]), len(tokens_of(split.target, target)[0]))
                if longest <= settings.max_tokens:
                    windows.append(SlowWindow(current, around, target, lost_context))
                    break
                if around == [current]:
                    too_long.append(current)
                    break
                # The farthest goes; of two at the same distance, the one behind (which has the higher number).
                around.remove(max(around, key=lambda sentence: (abs(sentence - current), sentence)))
                lost_context = True
    return windows, too_long


@many
@given(split=splits, settings=window_settings(), seed=st.integers(0, 5), epoch=st.integers(0, 5))
def test_windows_equal_their_definition(split: Split, settings: WindowSettings, seed: int, epoch: int) -> None:
    cut = cut_windows(split, settings, seed, epoch)
    windows = cut[:]
    expected, too_long = slow_windows(split, settings, seed, epoch)

    assert len(cut) == len(expected)
    assert windows.current.tolist() == [window.current for window in expected]
    for side, lengths in zip(("source", "target"), cut.lengths(), strict=True):
        span = getattr(windows, side)
        assert span.first.tolist() == [getattr(window, side)[0] for window in expected]
        assert span.last.tolist() == [getattr(window, side)[-1] for window in expected]
        sentences = getattr(split, side)
        assert (
            span.lengths.tolist()
            == lengths.tolist()
            == [len(tokens_of(sentences, getattr(window, side))[0]) for window in expected]
        )
    assert cut.too_long.tolist() == too_long
    assert cut.shortened == sum(window.lost_context for window in expected)


@many
@given(split=splits, settings=window_settings(), more=st.integers(0, 5), data=st.data())
def test_batches_equal_their_definition(split: Split, settings: WindowSettings, more: int, data: st.DataObject) -> None:
    windows = cut_windows(split, settings, 1, 2)
    expected, _ = slow_windows(split, settings, 1, 2)
    if not expected:
        return
    # Any rows in any order, repeated or not, padded to any length that holds them.
    rows = data.draw(st.lists(st.integers(0, len(expected) - 1), min_size=1, max_size=6))
    length = settings.max_tokens + more
    batch = gather_batch(windows, np.array(rows), length, length + 1)

    assert batch.sentences.tolist() == [expected[row].current for row in rows]
    for name, width in (("source", length), ("target", length + 1)):
        side = getattr(batch, name)
        assert side.tokens.shape == side.segments.shape == (len(rows), width)
        for i, row in enumerate(rows):
            chosen = getattr(expected[row], name)
            tokens, segments = tokens_of(getattr(split, name), chosen)
            assert side.tokens[i].tolist() == tokens + [PAD] * (width - len(tokens))
            assert side.segments[i].tolist() == segments + [-1] * (width - len(tokens))
            assert side.current[i].item() == chosen.index(expected[row].current)


def test_a_document_by_hand() -> None:
    # Two documents, of three sentences and of one; s3to3.
    split = build_split([[([10], [20]), ([11, 12], [21]), ([], [22])], [([13], [23, 24])]])
    windows = cut_windows(split, WindowSettings(before=2))
    batch = gather_batch(windows, np.arange(4), 6, 6)
    assert batch.source.tokens.tolist() == [
        [10, END, PAD, PAD, PAD, PAD],
        [10, SEPARATOR, 11, 12, END, PAD],
        [10, SEPARATOR, 11, 12, SEPARATOR, END],  # the current sentence is empty: it is its end
        [13, END, PAD, PAD, PAD, PAD],  # never across documents
    ]
    assert batch.source.segments.tolist() == [
        [0, 0, -1, -1, -1, -1],
        [0, 0, 1, 1, 1, -1],
        [0, 0, 1, 1, 1, 2],
        [0, 0, -1, -1, -1, -1],
    ]
    assert batch.source.current.tolist() == batch.target.current.tolist() == [0, 1, 2, 0]
    assert batch.target.tokens[2].tolist() == [20, SEPARATOR, 21, SEPARATOR, 22, END]


def test_s4to1_has_the_current_sentence_alone_on_the_target() -> None:
    split = split_of_lengths([1, 1, 1, 1])
    batch = gather_batch(cut_windows(split, WindowSettings(before=3, target_before=0)), np.array([3]), 8, 2)
    assert batch.source.tokens.tolist() == [[4, SEPARATOR, 5, SEPARATOR, 6, SEPARATOR, 7, END]]
    assert batch.target.tokens.tolist() == [[1007, END]]
    assert (batch.source.current.item(), batch.target.current.item()) == (3, 0)


@pytest.mark.parametrize(
    ("max_tokens", "first", "last"),
    [(12, 0, 4), (11, 0, 3), (10, 0, 3), (9, 1, 3), (8, 1, 3)],
)
def test_the_farthest_context_goes_first_and_of_two_the_one_behind(max_tokens: int, first: int, last: int) -> None:
    # Sentence 2 is current, with two on either side; together they have 1 + 1 + 3 + 1 + 1 words and 5 closings.
    split = split_of_lengths([1, 1, 3, 1, 1])
    windows = cut_windows(split, WindowSettings(before=2, after=2, max_tokens=max_tokens))
    assert (windows[:].source.first[2], windows[:].source.last[2]) == (first, last)


def test_a_sentence_over_the_limit_is_named_and_only_it_is_left_out() -> None:
    # The limit is 8 with the closing: 7 words fit, 8 do not. Neighbours lose it as context, and that is counted.
    windows = cut_windows(split_of_lengths([2, 8, 2, 7]), WindowSettings(before=1, max_tokens=8))
    assert windows[:].current.tolist() == [0, 2, 3]
    assert windows.too_long.tolist() == [1]
    assert windows[:].source.first.tolist() == [0, 2, 3]
    assert windows.shortened == 2  # sentence 1 lost its context too, but it has no window


def test_a_long_target_shortens_both_sides() -> None:
    split = build_split([[([5], [5]), ([6], [6] * 7)]])
    windows = cut_windows(split, WindowSettings(before=1, max_tokens=8))
    assert windows[:].source.first.tolist() == windows[:].target.first.tolist() == [0, 1]
    assert windows.shortened == 1


def test_random_sizes_are_a_function_of_seed_and_epoch() -> None:
    split = split_of_lengths([1] * 50)
    settings = WindowSettings(before=3, after=2, sampling="random")
    drawn = {
        (seed, epoch): (windows.source.first.tolist(), windows.source.last.tolist())
        for seed in range(3)
        for epoch in range(3)
        for windows in [cut_windows(split, settings, seed, epoch)[:]]
    }
    again = cut_windows(split, settings, 2, 1)[:]
    assert drawn[2, 1] == (again.source.first.tolist(), again.source.last.tolist())
    firsts, lasts = zip(*drawn.values(), strict=True)
    assert len(set(map(tuple, firsts))) == len(set(map(tuple, lasts))) == 9  # no two alike


def test_fixed_sizes_are_the_same_in_every_epoch() -> None:
    split = split_of_lengths([1] * 9)
    first, second = (cut_windows(split, WindowSettings(before=3), seed, epoch)[:] for seed, epoch in ((1, 1), (2, 5)))
    assert first.source.first.tolist() == second.source.first.tolist() == [0, 0, 0, 0, 1, 2, 3, 4, 5]


def test_random_sizes_are_evenly_spread() -> None:
    # 4 × 3 combinations of what is before and after, 500 windows expected for each: 60 is over 2.7 deviations, and
    # the draw is the same for ever, so this can fail only if the drawing changes.
    split = split_of_lengths([0] * 6005)
    windows = cut_windows(split, WindowSettings(before=3, after=2, sampling="random"), 7, 0)[:]
    inner = slice(3, -2)  # away from the edges of the document
    reach = zip(
        (windows.current - windows.source.first)[inner].tolist(),
        (windows.source.last - windows.current)[inner].tolist(),
        strict=True,
    )
    counted = Counter(reach)
    assert set(counted) == {(before, after) for before in range(4) for after in range(3)}
    assert all(abs(count - 500) < 60 for count in counted.values()), counted


# ------------------------------------------------------------------------------------------------------- splitmix64


def reference_splitmix64(state: int, count: int) -> list[int]:
    """SplitMix64 as published, on Python's integers."""
    numbers = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        numbers.append(z ^ (z >> 31))
    return numbers


def test_the_reference_gives_the_published_numbers() -> None:
    assert reference_splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(3).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@many
@given(count=st.integers(0, 40), keys=st.lists(st.integers(-(2**70), 2**70), max_size=4))
def test_scramble_equals_the_reference(count: int, keys: list[int]) -> None:
    state = 0
    for key in keys:
        (state,) = reference_splitmix64(state + key, 1)
    expected = reference_splitmix64(state, count)
    assert splitmix64(count, *keys).tolist() == expected
    assert splitmix64_at(np.arange(count, dtype=np.uint8)[::-2], *keys).tolist() == expected[::-2]


@many
@given(
    split=splits,
    settings=window_settings(),
    context=st.sampled_from(["random", "fixed"]),
    seed=st.integers(0, 5),
)
def test_foreign_context_is_that_of_another_window(
    split: Split, settings: WindowSettings, context: str, seed: int
) -> None:
    """Each window keeps its current sentence; its context is that of a window drawn at random, or of the largest."""
    real = settings.model_copy(update={"after": 0, "target_after": None})
    controlled = cut_windows(split, real.model_copy(update={"context": context}), seed, 3)
    windows, too_long = slow_windows(split, real, seed, 3)
    draws = splitmix64(len(windows), seed, 3, 7).tolist()
    donors = sorted(windows, key=lambda window: draws[windows.index(window)])
    if context == "fixed" and windows:
        donors = [max(windows, key=lambda window: len(window.source))] * len(windows)
    lost = 0
    for row, (window, donor) in enumerate(zip(windows, donors, strict=True)):
        contexts = [donor.source[:-1], donor.target[:-1]]
        own = [
            joined(split.source, [*contexts[0], window.current]),
            joined(split.target, [*contexts[1], window.current]),
        ]
        if max(map(len, own)) > real.max_tokens:
            contexts, lost = [[], []], lost + 1
        batch = gather_batch(controlled, np.array([row]))
        assert batch.sentences.tolist() == [window.current]
        sides = (split.source, batch.source, contexts[0]), (split.target, batch.target, contexts[1])
        for sentences, side, chosen in sides:
            assert side.tokens[0].tolist() == joined(sentences, [*chosen, window.current])
            assert side.current.tolist() == [len(chosen)]
    assert len(controlled) == len(windows)
    assert controlled.too_long.tolist() == too_long
    assert controlled.shortened == lost


def test_foreign_context_passes_over_sentences_that_have_no_window() -> None:
    # Sentence 0 does not fit. Sentence 2 is the first with context: sentence 1, whose only token is 24.
    settings = WindowSettings(before=1, max_tokens=12, context="fixed")
    batch = gather_batch(cut_windows(split_of_lengths([20, 1, 2, 1]), settings), np.arange(3))
    assert batch.sentences.tolist() == [1, 2, 3]
    assert batch.source.tokens.tolist() == [
        [24, SEPARATOR, 24, END, PAD],
        [24, SEPARATOR, 25, 26, END],
        [24, SEPARATOR, 27, END, PAD],
    ]

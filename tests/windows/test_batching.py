"""Batches: every window once, within the budget, in an order that seed and epoch alone decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.windows.batching import EpochOrder, order_epoch, padded_lengths
from focat.windows.corpus_windows import CorpusWindows, cut_windows
from focat.windows.splitmix64 import splitmix64
from tests.windows.corpora import build_split, many, split_of_lengths, splits, window_settings

pytestmark = pytest.mark.usefixtures("small_chunks")

# 40 sentences of 0 to 12 tokens on either side, in an order without pattern: enough for batches to differ.
VARIED = build_split([[([9] * (7 * i % 13), [9] * (5 * i % 11)) for i in range(40)]])


def batches_of(order: EpochOrder) -> list[list[int]]:
    return [order.batch(i)[0].tolist() for i in range(len(order))]


def slow_batches(windows: CorpusWindows, batch_tokens: int, seed: int, epoch: int) -> list[tuple[list[int], int, int]]:
    """Sort all windows by Python's own sort, fill batches window by window, shuffle them."""
    allowed = padded_lengths(windows.settings.max_tokens).tolist()
    lengths = zip(windows[:].source.lengths.tolist(), windows[:].target.lengths.tolist(), strict=True)
    padded = [tuple(min(fits for fits in allowed if fits >= length) for length in pair) for pair in lengths]
    sources = sorted({source for source, _ in padded})
    draws = splitmix64(len(padded), seed, epoch, 3).tolist()

    def key(row: int) -> tuple[int, int, int]:
        source, target = padded[row]
        return source, target if sources.index(source) % 2 == 0 else -target, draws[row]

    rows, batches = sorted(range(len(padded)), key=key), []
    while rows:
        count = 1
        while count < len(rows) and (count + 1) * max(max(padded[row]) for row in rows[: count + 1]) <= batch_tokens:
            count += 1
        if 8 < count < len(rows):
            count -= count % 8
        of_batch, rows = rows[:count], rows[count:]
        batches.append((of_batch, max(padded[row][0] for row in of_batch), max(padded[row][1] for row in of_batch)))
    draws = splitmix64(len(batches), seed, epoch, 4).tolist()
    return [batches[i] for i in sorted(range(len(batches)), key=lambda i: draws[i])]


@many
@given(
    split=splits,
    settings=window_settings(),
    batch_tokens=st.integers(1, 300),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
)
def test_batches_equal_their_definition(
    split: Split, settings: WindowSettings, batch_tokens: int, seed: int, epoch: int
) -> None:
    windows = cut_windows(split, settings, seed, epoch)
    order = order_epoch(windows, batch_tokens, seed, epoch)
    found = [(rows.tolist(), *lengths) for rows, *lengths in map(order.batch, range(len(order)))]
    assert found == slow_batches(windows, batch_tokens, seed, epoch)


@pytest.mark.parametrize("before", [0, 3])
def test_batches_of_many_windows_equal_their_definition(before: int) -> None:
    """Enough windows for groups of several chunks, which are shuffled in parts."""
    documents = [[([9] * (7 * i % 13), [9] * (i * i % 11)) for i in range(n)] for n in (300, 1, 99)]
    windows = cut_windows(build_split(documents), WindowSettings(before=before, max_tokens=30))
    order = order_epoch(windows, 200, 1, 2)
    found = [(rows.tolist(), *lengths) for rows, *lengths in map(order.batch, range(len(order)))]
    assert found == slow_batches(windows, 200, 1, 2)


@many
@given(
    split=splits,
    settings=window_settings(),
    batch_tokens=st.integers(1, 300),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
)
def test_every_window_is_in_one_batch_that_holds_it_and_keeps_the_budget(
    split: Split, settings: WindowSettings, batch_tokens: int, seed: int, epoch: int
) -> None:
    windows = cut_windows(split, settings, seed, epoch)
    order = order_epoch(windows, batch_tokens, seed, epoch)
    allowed = padded_lengths(settings.max_tokens).tolist()

    seen = []
    for i in range(len(order)):
        rows, source_length, target_length = order.batch(i)
        seen += rows.tolist()
        assert len(rows) == 1 or len(rows) * max(source_length, target_length) <= batch_tokens
        for span, length in ((windows[rows].source, source_length), (windows[rows].target, target_length)):
            # The least padding that the allowed lengths permit.
            assert length == min(fits for fits in allowed if fits >= max(span.lengths))
    assert sorted(seen) == list(range(len(windows)))


def test_a_batch_takes_what_the_budget_allows() -> None:
    # 18 windows of exactly 8 tokens: 128 tokens hold 16 of them, and the last 2 are left for a second batch.
    windows = cut_windows(split_of_lengths([7] * 18), WindowSettings(before=0))
    assert sorted(map(len, batches_of(order_epoch(windows, 128, 0, 0)))) == [2, 16]
    # 100 tokens hold 12, but multiples of 8 suit the hardware; the 10 that are left fit into the last batch.
    assert sorted(map(len, batches_of(order_epoch(windows, 100, 0, 0)))) == [8, 10]


def test_windows_of_a_batch_are_of_similar_length() -> None:
    # Two lengths, mixed in the corpus, never in a batch: 32 windows of 4 tokens and 8 of 16 fill batches of 128.
    windows = cut_windows(split_of_lengths([3, 3, 15, 3, 3] * 8), WindowSettings(before=0))
    order = order_epoch(windows, 128, 0, 0)
    for i in range(len(order)):
        assert len(set(windows[order.rows_of(i)].source.lengths.tolist())) == 1


@pytest.mark.parametrize("settings", [WindowSettings(before=2), WindowSettings(before=2, sampling="random")])
def test_the_order_is_a_function_of_seed_and_epoch(settings: WindowSettings) -> None:
    def batches(seed: int, epoch: int) -> list[list[int]]:
        return batches_of(order_epoch(cut_windows(VARIED, settings, seed, epoch), 120, seed, epoch))

    assert batches(1, 1) == batches(1, 1)
    drawn = [batches(seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(one != other for i, one in enumerate(drawn) for other in drawn[:i])


def test_both_batches_and_their_windows_are_mixed_anew() -> None:
    # Equal windows: the order of batches is visible in the rows' numbers only if the windows are mixed as well.
    windows = cut_windows(split_of_lengths([3] * 64), WindowSettings(before=0))
    first, second = (batches_of(order_epoch(windows, 32, 0, epoch)) for epoch in (0, 1))
    assert [len(rows) for rows in first] == [8] * 8
    assert not {frozenset(rows) for rows in first} & {frozenset(rows) for rows in second}
    # Long and short windows take turns: were batches not mixed, they would come sorted by length.
    windows = cut_windows(split_of_lengths(list(range(64))), WindowSettings(before=0))
    order = order_epoch(windows, 64, 0, 0)
    assert order.source_lengths.tolist() != sorted(order.source_lengths.tolist())


def test_padded_lengths_by_hand() -> None:
    assert padded_lengths(20).tolist() == [4, 8, 12, 16, 20]
    lengths = padded_lengths(1024).tolist()
    assert lengths[:32] == list(range(4, 129, 4))
    assert lengths[32:48] == list(range(136, 257, 8))  # 16 steps for every doubling
    assert lengths[48:64] == list(range(272, 513, 16))
    assert lengths[64:] == list(range(544, 1025, 32))


@many
@given(st.integers(1, 100_000))
def test_padding_costs_little_and_shapes_are_few(longest: int) -> None:
    lengths = padded_lengths(longest)
    assert lengths[-1] >= longest
    assert len(lengths) <= 32 + 16 * np.ceil(np.log2(max(128, longest) / 128))
    steps = np.diff(lengths)
    assert (steps <= np.maximum(4, lengths[:-1] / 16)).all()


def test_a_corpus_without_windows_has_no_batches() -> None:
    assert len(order_epoch(cut_windows(build_split([]), WindowSettings()), 100, 0, 0)) == 0

"""Packed batches: every window once, whole, in batches of one shape."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.batch import BLOCK, PackedBatch, PackedSequences
from focat.windows.corpus_windows import cut_windows, gather_batch
from focat.windows.loader import Loader, Position
from focat.windows.packing import PackedOrder, cut_blocks, gather_packed, order_packed, packed_shape
from focat.windows.splitmix64 import splitmix64
from tests.windows.corpora import build_split, full_splits, many, split_of_lengths, window_settings

pytestmark = pytest.mark.usefixtures("small_chunks")


def windows_of(side: PackedSequences) -> list[tuple[list[int], list[int], int]]:
    """Tokens, segments and current segment of each window that has any; what lies behind them is padding."""
    bounds, tokens, segments = side.bounds.tolist(), side.tokens[0].tolist(), side.segments[0].tolist()
    found = []
    for i, (start, end) in enumerate(pairwise(bounds)):
        assert side.window[0, start:end].tolist() == [i] * (end - start)
        assert side.index[0, start:end].tolist() == list(range(end - start))
        if start < end and tokens[start] != PAD:
            assert not found or found[-1] is not None
            found.append((tokens[start:end], segments[start:end], int(side.current[i])))
        else:
            assert set(tokens[start:]) <= {PAD}
            assert set(segments[start:]) <= {-1}
    assert bounds[-1] == len(tokens)
    return found


@given(full_splits, st.integers(0, 3), st.integers(1, 200), st.integers(0, 3))
@many
def test_an_epoch_has_every_window_once(split: Split, before: int, batch_tokens: int, epoch: int) -> None:
    settings = WindowSettings(before=before, max_tokens=30)
    cut = cut_windows(split, settings)
    padded = gather_batch(cut, np.arange(len(cut)), 30, 30)
    expected = []
    for i in range(len(cut)):
        sides = []
        for side in (padded.source, padded.target):
            real = side.segments[i] >= 0
            sides.append((side.tokens[i][real].tolist(), side.segments[i][real].tolist(), int(side.current[i])))
        expected.append(tuple(sides))
    loader = Loader(split, settings, batch_tokens, seed=2, packed=True)
    found, shapes = [], set()
    for update in loader.updates(Position(epoch)):
        batch = update.batches[0]
        assert isinstance(batch, PackedBatch)
        found += list(zip(windows_of(batch.source), windows_of(batch.target), strict=True))
        shapes.add(
            tuple(tuple(tensor.shape) for side in (batch.source, batch.target) for tensor in vars(side).values())
        )
        assert update.target_tokens == sum(len(tokens) for tokens, *_ in windows_of(batch.target))
        if update.next.epoch > epoch:
            break
    assert sorted(found) == sorted(expected)  # type: ignore[type-var]
    assert len(shapes) == 1


@pytest.mark.parametrize("context", ["random", "fixed"])
def test_windows_with_the_context_of_others(context: Literal["random", "fixed"]) -> None:
    split = split_of_lengths([3, 5, 2], [4], [2, 2, 6, 1])
    cut = cut_windows(split, WindowSettings(before=2, max_tokens=30, context=context), seed=1)
    padded = gather_batch(cut, np.arange(len(cut)))
    packed = gather_packed(cut, np.arange(len(cut)), packed_shape(cut, 200, 30))
    for one, other in ((padded.source, packed.source), (padded.target, packed.target)):
        real = one.segments >= 0
        rows = [one.tokens[i][real[i]].tolist() for i in range(len(cut))]
        segments = [one.segments[i][real[i]].tolist() for i in range(len(cut))]
        assert windows_of(other) == list(zip(rows, segments, one.current.tolist(), strict=True))


def test_a_batch_holds_the_longest_window_on_either_side() -> None:
    """However few tokens are asked for, and however short the windows of that side are otherwise."""
    long = split_of_lengths([199])
    assert packed_shape(cut_windows(long, WindowSettings(before=0, max_tokens=200)), 10, 200).source >= 200
    words = list(range(6, 205))
    split = build_split([[([7], words)] * 10, [(words, [7])]])
    shape = packed_shape(cut_windows(split, WindowSettings(before=0, max_tokens=200)), 400, 200)
    assert shape.target >= 400
    assert shape.source >= 200


def test_all_epochs_have_the_shape_of_the_first() -> None:
    """Also where training is resumed in a later one."""
    settings = WindowSettings(before=9, max_tokens=200, sampling="random")
    split = split_of_lengths([5] * 90, [4] * 30)
    shapes = []
    for first in (0, 1, 2):
        loader = Loader(split, settings, 3000, seed=1, packed=True)
        orders = [loader.epoch(epoch)[1] for epoch in (first, 3)]
        assert all(isinstance(order, PackedOrder) for order in orders)
        shapes += [order.shape for order in orders if isinstance(order, PackedOrder)]
    assert len(set(shapes)) == 1
    others = {packed_shape(cut_windows(split, settings, 1, epoch), 3000, 200) for epoch in range(4)}
    assert len(others) > 1  # of its own, an epoch would have another


@given(full_splits, window_settings(), st.integers(1, 200), st.integers(0, 3), st.integers(0, 3))
@many
def test_order_equals_its_definition(
    split: Split, settings: WindowSettings, batch_tokens: int, seed: int, epoch: int
) -> None:
    """Windows by their random numbers, one after the other, each into the batch before it if there is room."""
    cut = cut_windows(split, settings, seed, epoch)
    shape = packed_shape(cut, batch_tokens, settings.max_tokens)
    draws = splitmix64(len(cut), seed, epoch, 3).tolist()
    expected: list[list[int]] = []
    for row in sorted(range(len(cut)), key=lambda row: draws[row]):
        together = cut[np.array([*(expected[-1] if expected else []), row])]
        fits = len(together.current) <= shape.windows
        fits &= together.source.lengths.sum() <= shape.source and together.target.lengths.sum() <= shape.target
        if expected and fits:
            expected[-1].append(row)
        else:
            expected.append([row])
    order = order_packed(cut, shape, seed, epoch)
    assert [order.rows_of(i).tolist() for i in range(len(order))] == expected


def test_a_batch_may_be_full_to_the_last_token() -> None:
    # 40 windows of exactly 8 tokens: 16 of them fill 128.
    cut = cut_windows(split_of_lengths([7] * 40), WindowSettings(before=0, max_tokens=16))
    order = order_packed(cut, packed_shape(cut, 128, 16), 1, 0)
    assert np.diff(order.bounds).tolist() == [16, 16, 8]


def test_order_is_random_and_seeded() -> None:
    cut = cut_windows(split_of_lengths([3] * 40), WindowSettings(before=1))
    shape = packed_shape(cut, 60, 20)
    rows = [order_packed(cut, shape, seed, epoch).rows.tolist() for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert rows[0] == rows[1]
    assert len({tuple(each) for each in rows}) == 3


def test_batches_are_full() -> None:
    cut = cut_windows(split_of_lengths(*[[5, 9, 2, 7, 4] for _ in range(60)]), WindowSettings(before=3, max_tokens=64))
    order = order_packed(cut, packed_shape(cut, 1024, 64), 1, 0)
    full = [int(cut[order.rows_of(i)].target.lengths.sum()) for i in range(len(order) - 1)]
    assert min(full) > 0.9 * 1024


def test_both_sides_of_a_batch_are_full_where_one_is_shorter() -> None:
    rng = np.random.default_rng(0)
    sides = [(n, round(n * rng.uniform(0.7, 1.1))) for n in rng.integers(4, 20, 6000)]
    documents = [[([9] * n, [9] * m) for n, m in sides[i : i + 20]] for i in range(0, len(sides), 20)]
    cut = cut_windows(build_split(documents), WindowSettings(before=3, max_tokens=128))
    order = order_packed(cut, packed_shape(cut, 16384, 128), 1, 0)
    batches = [cut[order.rows_of(i)] for i in range(len(order) - 1)]
    for capacity, side in ((order.shape.source, "source"), (order.shape.target, "target")):
        assert np.mean([getattr(each, side).lengths.sum() for each in batches]) > 0.99 * capacity


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=20))
def test_blocks_cover_every_window(lengths: list[tuple[int, int]]) -> None:
    own, other = (np.concatenate([[0], np.cumsum(side)]) for side in zip(*lengths, strict=True))
    blocks = cut_blocks(own, other, int(own[-1]) // BLOCK + len(lengths) + 1)
    expected = [
        (first, *own[i : i + 2].tolist(), *other[i : i + 2].tolist())
        for i in range(len(lengths))
        for first in range(own[i], own[i + 1], BLOCK)
    ]
    assert list(map(tuple, blocks[: len(expected)].tolist())) == expected
    assert not blocks[len(expected) :].any()


def test_windows_end_with_the_end_symbol() -> None:
    split = split_of_lengths([2, 3])
    batch = next(Loader(split, WindowSettings(before=1, max_tokens=16), 32, packed=True).updates()).batches[0]
    assert isinstance(batch, PackedBatch)
    for tokens, *_ in windows_of(batch.source):
        assert tokens[-1] == END
        assert tokens.count(SEPARATOR) == (1 if len(tokens) > 3 else 0)

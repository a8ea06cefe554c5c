"""The loader: nothing twice, nothing lost, and the same stream from wherever and on however many processes."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.corpus.store import Sentences, Split
from focat.corpus.vocabulary import PAD
from focat.windows.batch import Batch
from focat.windows.corpus_windows import cut_windows
from focat.windows.loader import Loader, Position, Prefetcher, Update
from tests.windows.corpora import build_split, few, full_splits, split_of_lengths, window_settings

batch_tokens = st.integers(1, 120)


def one_epoch(loader: Loader, start: Position) -> list[Update]:
    """The updates from a position to the end of its epoch."""
    updates = []
    for update in loader.updates(start):
        updates.append(update)
        if update.next.epoch > start.epoch:
            break
    return updates


def counting(update: Update) -> list[Batch]:
    """The batches that are trained on: a process that got none has another's, only to keep it company."""
    return [] if update.idle else update.batches


def contents(batch: Batch) -> list[object]:
    """All of a batch, as something that can be compared."""
    sides = [
        [side.tokens.tolist(), side.segments.tolist(), side.current.tolist()] for side in (batch.source, batch.target)
    ]
    return [*sides, batch.sentences.tolist()]


@few
@given(
    split=full_splits,
    settings=window_settings(),
    batch_tokens=batch_tokens,
    processes=st.integers(1, 4),
    gradient_accumulation=st.integers(1, 5),
    epoch=st.integers(0, 2),
    data=st.data(),
)
def test_every_sentence_is_current_once_an_epoch_whatever_stops_in_between(
    split: Split,
    settings: WindowSettings,
    batch_tokens: int,
    processes: int,
    gradient_accumulation: int,
    epoch: int,
    data: st.DataObject,
) -> None:
    fits = [i for i in range(len(split)) if i not in cut_windows(split, settings).too_long]
    if not fits:
        return

    def loaders(number: int) -> list[Loader]:
        return [Loader(split, settings, batch_tokens, 3, gradient_accumulation, rank, number) for rank in range(number)]

    def current(updates: list[Update]) -> list[int]:
        return [sentence for update in updates for batch in counting(update) for sentence in batch.sentences.tolist()]

    # Some updates on these processes; then training stops, and goes on with another number of them.
    start = Position(epoch)
    total = loaders(1)[0].count_updates(loaders(1)[0].epoch(epoch)[1])
    stop_after = data.draw(st.integers(0, total - 1))
    seen, positions = [], set()
    for loader in loaders(processes):
        done = list(islice(loader.updates(start), stop_after))
        seen += current(done)
        positions.add(done[-1].next if done else start)
    assert len(positions) == 1  # all processes stand at the same place
    (resumed,) = positions
    for loader in loaders(data.draw(st.integers(1, 4))):
        rest = one_epoch(loader, resumed)
        assert len(rest) == total - stop_after
        assert rest[-1].next == Position(epoch + 1)
        seen += current(rest)
    assert sorted(seen) == fits


@few
@given(
    split=full_splits, settings=window_settings(), batch_tokens=batch_tokens, gradient_accumulation=st.integers(1, 3)
)
def test_a_resumed_stream_is_the_uninterrupted_one(
    split: Split, settings: WindowSettings, batch_tokens: int, gradient_accumulation: int
) -> None:
    def stream(position: Position) -> Iterator[Update]:
        return Loader(split, settings, batch_tokens, 5, gradient_accumulation).updates(position)

    whole = list(islice(stream(Position()), 6))
    for i, update in enumerate(whole[:-1]):
        rest = list(islice(stream(update.next), len(whole) - i - 1))
        for resumed, uninterrupted in zip(rest, whole[i + 1 :], strict=True):
            assert resumed.next == uninterrupted.next
            assert list(map(contents, resumed.batches)) == list(map(contents, uninterrupted.batches))


@few
@given(
    split=full_splits,
    settings=window_settings(),
    batch_tokens=batch_tokens,
    gradient_accumulation=st.integers(1, 5),
    processes=st.integers(2, 4),
)
def test_an_update_is_the_same_on_any_number_of_processes(
    split: Split, settings: WindowSettings, batch_tokens: int, gradient_accumulation: int, processes: int
) -> None:
    def first_updates(rank: int, of: int) -> list[Update]:
        return list(islice(Loader(split, settings, batch_tokens, 5, gradient_accumulation, rank, of).updates(), 4))

    ranks = [first_updates(rank, processes) for rank in range(processes)]
    for alone, *parts in zip(first_updates(0, 1), *ranks, strict=True):
        assert {(part.next, part.updates_in_epoch, part.target_tokens) for part in parts} == {
            (alone.next, alone.updates_in_epoch, alone.target_tokens)
        }
        dealt = {
            number: contents(batch)
            for part in parts
            for number, batch in zip(part.batch_numbers, counting(part), strict=not part.idle)
        }
        assert sum(len(counting(part)) for part in parts) == len(dealt)  # no batch on two processes
        assert dealt == dict(zip(alone.batch_numbers, map(contents, alone.batches), strict=True))
        # The normaliser of the gradient: every target token of the update, padding apart.
        assert alone.target_tokens == sum(int((batch.target.tokens != PAD).sum()) for batch in alone.batches)
        # A process without work still has a batch to go through the motions with: processes wait for each other.
        assert all(part.batches for part in parts)


def test_epochs_and_updates_by_hand() -> None:
    # Five batches of one sentence: with two per update, three updates an epoch, the last with one batch.
    loader = Loader(split_of_lengths([1] * 5), WindowSettings(before=0), 1, gradient_accumulation=2)
    updates = list(islice(loader.updates(), 4))
    assert [len(update.batches) for update in updates] == [2, 2, 1, 2]
    assert [update.next for update in updates] == [Position(0, 1), Position(0, 2), Position(1, 0), Position(1, 1)]
    assert [update.batch_numbers for update in updates] == [[0, 1], [2, 3], [4], [0, 1]]
    assert {update.updates_in_epoch for update in updates} == {3}
    assert [update.target_tokens for update in updates] == [4, 4, 2, 4]  # a word and its end for each sentence
    # Of two processes, the second has nothing to do in the last update, but it takes part in it.
    other = Loader(split_of_lengths([1] * 5), WindowSettings(before=0), 1, gradient_accumulation=2, rank=1, processes=2)
    updates = list(islice(other.updates(), 4))
    assert [update.idle for update in updates] == [False, False, True, False]
    assert [update.batch_numbers for update in updates] == [[1], [3], [4], [1]]
    assert [update.target_tokens for update in updates] == [4, 4, 2, 4]  # of both processes


def test_another_seed_is_another_stream() -> None:
    split = build_split([[([9] * (i % 7), [9] * (i % 5)) for i in range(30)]])
    one, other = (next(Loader(split, WindowSettings(), 60, seed).updates()).batches[0] for seed in (0, 1))
    assert contents(one) != contents(other)


def test_random_windows_are_drawn_anew_in_each_epoch() -> None:
    loader = Loader(split_of_lengths([1] * 20), WindowSettings(before=3, sampling="random"), 1000)
    batches = [update.batches[0] for update in islice(loader.updates(), 3)]  # one batch is the whole epoch
    sizes = [dict(zip(batch.sentences.tolist(), batch.source.current.tolist(), strict=True)) for batch in batches]
    assert sizes[0].keys() == sizes[1].keys() == sizes[2].keys() == set(range(20))
    assert sizes[0] != sizes[1] != sizes[2] != sizes[0]


@few
@given(split=full_splits, batch_tokens=batch_tokens, processes=st.integers(1, 4))
def test_once_is_every_sentence_once_and_then_over(split: Split, batch_tokens: int, processes: int) -> None:
    settings = WindowSettings(before=2)
    seen = [
        sentence
        for rank in range(processes)
        for batch in Loader(split, settings, batch_tokens, rank=rank, processes=processes).one_pass()
        for sentence in batch.sentences.tolist()
    ]
    assert sorted(seen) == list(range(len(split)))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("context", ["real", "random"])
def test_an_epoch_takes_few_bytes_a_window(packed: bool, context: str) -> None:
    """Six stay, of the windows and their order, and four more if each has the context of another window."""
    count = 1 << 20
    sentences = Sentences(np.full(5 * count, 9, np.uint16), np.arange(0, 5 * count + 1, 5))
    split = Split(sentences, sentences, np.arange(0, count + 1, 8))
    loader = Loader(split, WindowSettings(before=3, context=context), 4096, packed=packed)
    updates = loader.updates(Position(0, loader.count_updates(loader.epoch(0)[1]) - 1))
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(2):  # the last update of an epoch, and the first of the next one
            tracemalloc.reset_peak()
            next(updates)
            stays, peak = tracemalloc.get_traced_memory()
            assert stays < (7 if context == "real" else 11) * count
            peaks.append(peak)
    finally:
        tracemalloc.stop()
    assert peaks[0] < 28 * count  # about 10 MiB of these are those of a chunk, whatever the size of the corpus
    assert peaks[1] < peaks[0] + 2 * count  # the windows of one epoch are gone before those of the next are cut


def test_a_corpus_without_windows_ends_instead_of_looping() -> None:
    assert list(Loader(split_of_lengths([20]), WindowSettings(max_tokens=8), 100).updates()) == []


def test_a_position_is_a_few_bytes_of_json() -> None:
    position = Position(3, 1234)
    written = json.dumps(asdict(position))
    assert written == '{"epoch": 3, "update": 1234}'
    assert Position(**json.loads(written)) == position


# ---------------------------------------------------------------------------------------------------------- prefetching


def workers() -> int:
    return threading.active_count()


def test_prefetching_keeps_the_order_and_closes_its_thread() -> None:
    before = workers()
    prefetcher = Prefetcher(range(100), depth=3)
    assert list(prefetcher) == list(range(100))
    assert workers() == before
    assert list(prefetcher) == []  # over is over; it does not wait for more


def test_prefetching_gives_what_the_loader_gives() -> None:
    def stream() -> Iterator[Update]:
        return Loader(split_of_lengths([3, 1, 4, 1, 5]), WindowSettings(before=1), 20).updates()

    plain = list(islice(stream(), 10))
    prefetcher = Prefetcher(stream())
    through = list(islice(prefetcher, 10))
    prefetcher.close()
    assert [update.next for update in through] == [update.next for update in plain]
    for one, other in zip(through, plain, strict=True):
        assert all(
            torch.equal(a.source.tokens, b.source.tokens) for a, b in zip(one.batches, other.batches, strict=True)
        )


def test_prefetching_works_ahead_but_not_without_end() -> None:
    made = []

    def items() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i

    prefetcher = Prefetcher(items(), depth=4)
    deadline = time.monotonic() + 5
    while len(made) < 5 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    assert len(made) == 5  # four wait in the queue, the fifth in the thread's hand
    prefetcher.close()


def test_prefetching_raises_where_the_items_are_consumed() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise RuntimeError("the disk is gone")

    before = workers()
    with pytest.raises(RuntimeError, match="the disk is gone"):
        list(Prefetcher(items()))
    assert workers() == before


def test_prefetching_gives_what_came_before_the_error() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise RuntimeError

    stream = iter(Prefetcher(items()))
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(RuntimeError):
        next(stream)


def test_prefetching_lets_go_when_its_consumer_stops_early() -> None:
    before = workers()
    for item in Prefetcher(iter(int, 1), depth=2):  # an endless source, and a full queue
        assert item == 0
        break
    assert workers() == before


def test_prefetching_can_be_closed_unused_and_twice() -> None:
    before = workers()
    prefetcher = Prefetcher(iter(int, 1))
    prefetcher.close()
    prefetcher.close()
    assert workers() == before
    assert list(prefetcher) == []

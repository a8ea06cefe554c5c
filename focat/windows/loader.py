"""The data loader of training: an endless stream of updates, each of one or several batches, for one process of many.

Its state is two integers, epoch and update. With the seed and the store they determine all that follows, so training
resumes exactly in the middle of an epoch, also on another number of processes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.windows.batch import Batch, PackedBatch
from focat.windows.batching import EpochOrder, order_epoch
from focat.windows.corpus_windows import CorpusWindows, cut_windows, gather_batch
from focat.windows.packing import PackedOrder, PackedShape, gather_packed, order_packed, packed_shape

T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """The next update of training."""

    epoch: int = 0
    update: int = 0  # within the epoch


@dataclass(frozen=True)
class Update:
    """The batches of one update that this process computes."""

    batches: Sequence[Batch | PackedBatch]
    batch_numbers: list[int]  # of these batches in their epoch, whatever the number of processes
    target_tokens: int  # of the whole update, on all processes
    updates_in_epoch: int
    idle: bool  # no batch was left for this process: it has one of another's, which must not count
    next: Position


class Loader:
    """Cuts, orders and deals out the batches of a split.

    Args:
        split: sentences to make windows of.
        settings: which sentences a window has.
        batch_tokens: the most tokens of a batch on either side, padding included.
        seed: of the order of batches, and of window sizes that are drawn at random.
        gradient_accumulation: batches of an update, over all processes.
        rank, processes: which of how many processes this is.
        packed: put windows one behind the other instead of padding them to one length.
    """

    def __init__(
        self,
        split: Split,
        settings: WindowSettings,
        batch_tokens: int,
        seed: int = 0,
        gradient_accumulation: int = 1,
        rank: int = 0,
        processes: int = 1,
        packed: bool = False,
    ) -> None:
        self.split, self.settings, self.packed = split, settings, packed
        self.batch_tokens, self.gradient_accumulation, self.seed = batch_tokens, gradient_accumulation, seed
        self.rank, self.processes = rank, processes
        self._packed_shape: PackedShape | None = None

    def epoch(self, epoch: int) -> tuple[CorpusWindows, EpochOrder | PackedOrder]:
        """Cut and order the windows of an epoch."""
        windows = cut_windows(self.split, self.settings, self.seed, epoch)
        if not self.packed:
            return windows, order_epoch(windows, self.batch_tokens, self.seed, epoch)
        if self._packed_shape is None:  # that of the first epoch for all of them
            first = windows if epoch == 0 else cut_windows(self.split, self.settings, self.seed, 0)
            self._packed_shape = packed_shape(first, self.batch_tokens, self.settings.max_tokens)
        return windows, order_packed(windows, self._packed_shape, self.seed, epoch)

    def _gather(self, windows: CorpusWindows, order: EpochOrder | PackedOrder, i: int) -> Batch | PackedBatch:
        if isinstance(order, PackedOrder):
            return gather_packed(windows, order.rows_of(i), order.shape)
        return gather_batch(windows, *order.batch(i))

    def count_updates(self, order: EpochOrder | PackedOrder) -> int:
        """Number of updates of an epoch; the last one may have fewer batches."""
        return -(-len(order) // self.gradient_accumulation)

    def updates(self, position: Position = Position()) -> Iterator[Update]:  # noqa: B008 (frozen)
        """Yield updates from a position on, without end."""
        while True:
            windows, order = self.epoch(position.epoch)
            if not len(order):
                return
            count = self.count_updates(order)
            for update in range(position.update, count):
                first = update * self.gradient_accumulation
                end = min(first + self.gradient_accumulation, len(order))
                numbers = list(range(first + self.rank, end, self.processes))
                tokens = sum(windows[order.rows_of(i)].target.lengths.sum() for i in range(first, end))
                batches = [self._gather(windows, order, i) for i in numbers or [first]]
                following = Position(position.epoch, update + 1) if update + 1 < count else Position(position.epoch + 1)
                yield Update(batches, numbers or [first], int(tokens), count, not numbers, following)
            position = Position(position.epoch + 1)
            del windows, order  # makes room for those of the next epoch

    def one_pass(self) -> Iterator[Batch]:
        """Yield the batches of epoch 0 that this process computes, padded."""
        windows = cut_windows(self.split, self.settings, self.seed)
        order = order_epoch(windows, self.batch_tokens, self.seed, 0)
        for i in range(self.rank, len(order), self.processes):
            yield gather_batch(windows, *order.batch(i))


def pin_memory(update: Update) -> Update:
    """Copy an update to page-locked memory, which a GPU can read from while it computes."""
    return replace(update, batches=[batch.map(torch.Tensor.pin_memory) for batch in update.batches])


class Prefetcher(Generic[T]):
    """Runs an iterator in a thread, up to `depth` items ahead of its consumer."""

    _END = object()

    def __init__(self, items: Iterable[T], depth: int = 4) -> None:
        self._items, self._stopped = items, threading.Event()
        self._queue: queue.Queue[object] = queue.Queue(depth)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(self._END)
        except BaseException as error:  # raised again in the consumer
            self._put(error)

    def _put(self, item: object) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[T]:
        try:
            while not self._stopped.is_set() and (item := self._queue.get()) is not self._END:
                if isinstance(item, BaseException):
                    raise item
                yield item  # type: ignore[misc]
        finally:
            self.close()

    def close(self) -> None:
        """Stop the thread, and drop the items it has produced."""
        self._stopped.set()
        self._thread.join()

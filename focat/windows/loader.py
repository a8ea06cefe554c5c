"""The loader: an endless stream of updates, each a few batches, for one of several processes.

Where it stands is two integers. From them, the seed and the store, any process rebuilds what comes next, so training
resumes in the middle of an epoch exactly, and on another number of processes too.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.windows.batch import Batch
from focat.windows.batching import EpochOrder, order_epoch
from focat.windows.corpus_windows import Windows, cut_windows, gather

T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """How far training has come: the update that is next."""

    epoch: int = 0
    update: int = 0  # within the epoch


@dataclass(frozen=True)
class Update:
    """The batches of one update that fall to this process."""

    batches: list[Batch]
    numbers: list[int]  # of these batches in their epoch, whatever the number of processes
    target_tokens: int  # of the whole update, on all processes
    of: int  # updates in this epoch
    idle: bool  # there was no batch left for this process, so it has one of another's, which must not count
    next: Position


class Loader:
    """The batches of a split, epoch after epoch."""

    def __init__(
        self,
        split: Split,
        settings: WindowSettings,
        batch_tokens: int,
        seed: int = 0,
        gradient_accumulation: int = 1,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.split, self.settings = split, settings
        self.batch_tokens, self.gradient_accumulation, self.seed = batch_tokens, gradient_accumulation, seed
        self.rank, self.processes = rank, processes

    def epoch(self, epoch: int) -> tuple[Windows, EpochOrder]:
        """The windows of an epoch and their order."""
        windows = cut_windows(self.split, self.settings, self.seed, epoch)
        return windows, order_epoch(windows, self.batch_tokens, self.seed, epoch)

    def updates_in(self, order: EpochOrder) -> int:
        """How many updates an epoch has; the last one may have fewer batches."""
        return -(-len(order) // self.gradient_accumulation)

    def updates(self, position: Position = Position()) -> Iterator[Update]:  # noqa: B008 (frozen)
        """The updates from a position on, without end."""
        while True:
            windows, order = self.epoch(position.epoch)
            if not len(order):
                return
            count = self.updates_in(order)
            for update in range(position.update, count):
                first = update * self.gradient_accumulation
                beyond = min(first + self.gradient_accumulation, len(order))
                numbers = list(range(first + self.rank, beyond, self.processes))
                tokens = windows.target.lengths[order.rows[order.bounds[first] : order.bounds[beyond]]].sum()
                batches = [gather(self.split, windows, *order.batch(i)) for i in numbers or [first]]
                following = Position(position.epoch, update + 1) if update + 1 < count else Position(position.epoch + 1)
                yield Update(batches, numbers or [first], int(tokens), count, not numbers, following)
            position = Position(position.epoch + 1)

    def once(self) -> Iterator[Batch]:
        """The batches of epoch 0 that fall to this process, once."""
        windows, order = self.epoch(0)
        for i in range(self.rank, len(order), self.processes):
            yield gather(self.split, windows, *order.batch(i))


def pinned(update: Update) -> Update:
    """The same update in memory that a GPU can copy from while it computes."""
    return replace(update, batches=[batch.map(torch.Tensor.pin_memory) for batch in update.batches])


class Ahead(Generic[T]):
    """Runs an iterator in a thread of its own, a few items ahead of whoever consumes it."""

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
        except BaseException as error:  # it is raised again where the items are consumed
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
        """Stop the thread; what it had made is dropped."""
        self._stopped.set()
        self._thread.join()

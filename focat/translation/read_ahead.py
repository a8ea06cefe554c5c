"""Read what comes through a pipe in a thread, so that what has arrived is translated while more is awaited."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")

_MAX_ITEMS = 1 << 14  # read and not taken yet, so that memory is bounded
_PATIENCE_SECONDS = 0.02  # a program that writes line by line has time to write more


class _End:
    """Follows the last item: the input has ended, or cannot be read."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class ReadAhead(Generic[Item]):
    """The items of an iterable, in order; `ready` tells whether taking the next one would mean to wait."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._queue: queue.Queue[Item | _End] = queue.Queue(_MAX_ITEMS)
        self._next: Item | _End | None = None  # taken from the queue, to know that it is there
        self._patience = _PATIENCE_SECONDS
        # A daemon: a thread that waits for a pipe does not keep the process alive.
        threading.Thread(target=self._read, args=(items,), daemon=True).start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if not self._arrived(0):
            self._next = self._queue.get()
            self._patience = _PATIENCE_SECONDS
        item = self._next
        if isinstance(item, _End):
            raise item.error or StopIteration
        self._next = None
        assert item is not None
        return item

    def ready(self) -> bool:
        """Whether the next item has arrived; after a wait for an item, others have a moment to follow it.

        False before an error, so that what was read before it can be finished first.
        """
        start = time.monotonic()
        arrived = self._arrived(self._patience)
        self._patience = max(0.0, self._patience - (time.monotonic() - start))
        return arrived and not (isinstance(self._next, _End) and self._next.error)

    def _arrived(self, seconds: float) -> bool:
        """Whether there is a next item, or will be in so many seconds."""
        if self._next is None:
            try:
                self._next = self._queue.get(block=seconds > 0, timeout=seconds)
            except queue.Empty:
                return False
        return True

    def _read(self, items: Iterable[Item]) -> None:
        error = None
        try:
            for item in items:
                self._queue.put(item)
        except BaseException as raised:
            error = raised
        self._queue.put(_End(error))

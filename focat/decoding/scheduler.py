"""Which requests are decoded together: sorted batches on a CPU, a queue and slots on a GPU.

Nothing here touches a model. `remaining_source` stands for the work that a request is, so that windows of a batch
finish at about the same time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np
from numpy.typing import NDArray

from focat.decoding.buffers import round_to_bucket
from focat.decoding.requests import ScheduledRequest

_WORKER_WINDOWS = 24  # windows for each of several workers, at least: every one reads all weights in each step
_PREFILL_TOKENS_CPU = 320  # source and prefix tokens that are read together on a CPU
_PREFILL_TOKENS_PACKED = 960  # the same without padding
_PREFILL_TOKENS = 16_384  # the same on a GPU,
_PREFILL_WINDOWS = 16, 128  # where the number of windows is a power of two between these
_PREFILL_MULTIPLE = 32  # lengths of sources and prefixes are multiples of it


def sorted_batches(requests: Sequence[ScheduledRequest], batch_tokens: int) -> Iterator[list[ScheduledRequest]]:
    """Batches of requests with about the same remaining source, the longest first.

    A batch has at most `batch_tokens` source tokens, padding included, and is sorted by what has to be read.
    """
    order = sorted(requests, key=lambda scheduled: scheduled.remaining_source, reverse=True)
    sources = [len(scheduled.request.source) for scheduled in order]
    longest = list(accumulate(reversed(sources), max))[::-1]  # from each request on
    start = 0
    while start < len(order):
        end = start + max(batch_tokens // longest[start], 1)
        yield sorted(order[start:end], key=lambda scheduled: scheduled.read_length, reverse=True)
        start = end


def workers_for(windows: int, most: int) -> int:
    """How many of at most `most` workers so many windows are enough for; at least one."""
    return max(min(most, windows // _WORKER_WINDOWS), 1)


def worker_batches(
    requests: Sequence[ScheduledRequest], batch_tokens: int, workers: int
) -> list[list[ScheduledRequest]]:
    """Sorted batches of at most `batch_tokens`, each dealt out to the workers: as many windows for all, and as long."""
    batches = sorted_batches(requests, batch_tokens)
    return [batch[i::workers] for batch in batches for i in range(min(workers, len(batch)))]


def micro_batches(requests: Sequence[ScheduledRequest]) -> Iterator[tuple[slice, int, int]]:
    """Parts of a batch to prefill together on a CPU: which requests, their source length and their prefix length.

    Prefilling reads more than the following steps, so little padding matters more than large products.
    """
    start = 0
    while start < len(requests):
        rows = slice(start, start + max(_PREFILL_TOKENS_CPU // requests[start].read_length, 1))
        part = [scheduled.request for scheduled in requests[rows]]
        yield rows, max(len(request.source) for request in part), 1 + max(len(request.prefix) for request in part)
        start = rows.stop


def window_parts(requests: Sequence[ScheduledRequest]) -> Iterator[slice]:
    """The same where windows need no padding: parts that have about as many tokens."""
    ends = list(accumulate(scheduled.read_length for scheduled in requests))
    start = 0
    for _, part in groupby(ends, lambda end: (end - 1) // _PREFILL_TOKENS_PACKED):
        stop = start + len(list(part))
        yield slice(start, stop)
        start = stop


class RequestQueue:
    """Requests that wait for a slot; the one with the longest remaining source is the next."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ScheduledRequest]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, scheduled: ScheduledRequest) -> None:
        """Add a request."""
        heapq.heappush(self._heap, (-scheduled.remaining_source, self._count, scheduled))
        self._count += 1

    def pop_batch(self, tokens: int) -> list[ScheduledRequest]:
        """Remove the next requests, as many as have so many source tokens, padding included, but at least one."""
        batch: list[ScheduledRequest] = []
        longest = 0
        while self._heap:
            longest = max(longest, len(self._heap[0][2].request.source))
            if batch and (len(batch) + 1) * longest > tokens:
                break
            batch.append(heapq.heappop(self._heap)[2])
        return batch

    def pop_fitting(self, count: int, fits: Callable[[ScheduledRequest], bool]) -> list[ScheduledRequest]:
        """Remove the next requests that fit, at most `count`."""
        fitting: list[ScheduledRequest] = []
        skipped = []
        while self._heap and len(fitting) < count:
            item = heapq.heappop(self._heap)
            if fits(item[2]):
                fitting.append(item[2])
            else:
                skipped.append(item)
        for item in skipped:
            heapq.heappush(self._heap, item)
        return fitting


def prefill_batches(requests: list[ScheduledRequest]) -> Iterator[list[ScheduledRequest]]:
    """Groups of requests of similar length to prefill together on a GPU, the longest first."""
    order = sorted(requests, key=lambda scheduled: scheduled.read_length, reverse=True)
    start = 0
    while start < len(order):
        fewest, most = _PREFILL_WINDOWS
        together = min(max(_PREFILL_TOKENS // order[start].read_length, fewest), most)
        count = 1 << together.bit_length() - 1
        yield order[start : start + count]
        start += count


def prefill_shape(requests: Sequence[ScheduledRequest]) -> tuple[int, int, int]:
    """Windows, source length and prefix length of a prefill on a GPU, rounded up: few shapes, each with a graph."""
    windows = max(1 << (len(requests) - 1).bit_length(), _PREFILL_WINDOWS[0])
    source = max(len(scheduled.request.source) for scheduled in requests)
    prefix = 1 + max(len(scheduled.request.prefix) for scheduled in requests)
    return windows, _rounded_length(source), _rounded_length(prefix)


def _rounded_length(length: int) -> int:
    return length if length == 1 else round_to_bucket(length, _PREFILL_MULTIPLE)  # 1: a start symbol alone


@dataclass
class SlotTable:
    """What the host knows about the rows of static buffers."""

    deadline: NDArray[np.int64]  # the step by which each window must be finished; 0 if the slot was never used
    first_column: NDArray[np.int64]  # the first column of the KV cache that it needs

    @classmethod
    def empty(cls, count: int) -> SlotTable:
        """A table of unused slots."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64))

    def record(self, slots: NDArray[np.int64], requests: Sequence[ScheduledRequest], step: int, columns: int) -> None:
        """Assign slots to requests after prefill and first token, with `columns` columns of the cache in use."""
        self.deadline[slots] = step + np.array([scheduled.max_length for scheduled in requests]) - 1
        self.first_column[slots] = columns - 1 - np.array([len(scheduled.request.prefix) for scheduled in requests])

    def select(self, rows: NDArray[np.int64], count: int) -> SlotTable:
        """A table of `count` slots that begins with these rows."""
        table = SlotTable.empty(count)
        table.deadline[: len(rows)], table.first_column[: len(rows)] = self.deadline[rows], self.first_column[rows]
        return table


def compaction_order(live: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The live rows, ordered so that as many as possible stay in place: those at the end fill the gaps."""
    count = int(live.sum())
    kept = np.arange(count)
    kept[~live[:count]] = live[count:].nonzero()[0] + count
    return kept

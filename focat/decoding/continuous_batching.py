"""Decoding on a GPU: static buffers with captured steps, whose free slots are refilled from a queue.

A step costs nearly the same however few of its rows are in use. So finished windows leave, and waiting requests take
their slots; when none wait, what is left moves to smaller buffers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from focat.decoding.buffers import BucketShape, BufferPool, DecodeBuffers, round_to_bucket, share_kv_memory
from focat.decoding.cuda_graphs import CudaGraphRunner
from focat.decoding.model_runner import NAN_SCORES, Finished, ModelRunner
from focat.decoding.requests import ScheduledRequest
from focat.decoding.scheduler import RequestQueue, SlotTable, compaction_order, prefill_batches, prefill_shape
from focat.errors import FocatError
from focat.hardware import to_device_async

_COLUMNS_MULTIPLE = (
    128  # without lists of columns, steps attend to a multiple of so many, or to all; one graph for each
)
_DOWNSIZE_TO = 1 / 4  # of the windows: when no more are live, they move to smaller buffers,
_DOWNSIZE_MIN_ROWS = 256  # unless a step has so few rows that it takes no less time with fewer,
_DOWNSIZE_MIN_STEPS = 16  # or so few steps are left that capturing may take longer
_REFILL_SHARE = 1 / 4  # of the rows in use that are finished: then their slots are refilled
_POOL_AREA = 8  # times the tokens of a batch: two or three batches of the greatest length


class ContinuousBatching:
    """Decodes requests in static buffers, a stride of steps at a time."""

    def __init__(self, runner: ModelRunner, batch_tokens: int, stride: int) -> None:
        self._runner, self._batch_tokens, self._stride = runner, batch_tokens, stride
        self.pool = BufferPool(runner.allocate_buffers, _POOL_AREA * batch_tokens * runner.beam)
        self.prefill_pool = BufferPool(share_kv_memory(runner.allocate_buffers))
        self.graphs = CudaGraphRunner(runner.device, (self.pool.evict_unused, self.prefill_pool.evict_unused))
        self._queue = RequestQueue()
        self._buffers: DecodeBuffers | None = None  # None while nothing is being decoded
        self._slots = SlotTable.empty(0)
        self._free: NDArray[np.bool_] | None = None  # slots that may be refilled: some windows have just finished
        self._downsize_next = False
        self._steps = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or being decoded."""
        return not self._queue and self._buffers is None

    def add(self, scheduled: ScheduledRequest) -> None:
        """Queue a request."""
        self._queue.push(scheduled)

    def reset(self) -> None:
        """Drop everything that is queued or being decoded."""
        self._queue, self._buffers = RequestQueue(), None

    def step(self, refill: bool) -> list[Finished]:
        """Refill or shrink the batch if windows have just finished, decode a stride, and return what has finished.

        Results are held back until enough windows are finished for a refill. Without `refill`, a batch is decoded to
        its end before the next one starts: for requests that are all queued beforehand, whose lengths are similar.
        """
        buffers = self._prepare(refill)
        if buffers is None:
            return []
        self._decode_stride(buffers)
        state = buffers.search.state
        request_id, finished = torch.stack((state.request_id, state.finished.long())).cpu().numpy()
        busy = request_id >= 0
        live, done = busy & (finished == 0), busy & (finished == 1)
        if (live & (self._slots.deadline <= self._steps)).any():
            raise FocatError(NAN_SCORES)
        num_live = int(live.sum())
        can_refill = refill and done.sum() >= _REFILL_SHARE * busy.sum()
        downsize = not (refill and self._queue) and self._should_downsize(buffers, num_live, self._slots.deadline[live])
        if num_live and not can_refill and not downsize:
            return []
        rows = to_device_async(torch.from_numpy(done.nonzero()[0]), self._runner.device)
        results = self._runner.collect(buffers.search, rows)
        buffers.search.release(rows)
        self._free, self._downsize_next = ~live, downsize
        if not num_live:
            self._buffers = None
        return results

    def _prepare(self, refill: bool) -> DecodeBuffers | None:
        """The buffers of the next stride: those of a new batch, refilled, or smaller ones."""
        if self._buffers is None:
            if self._queue:
                self._start_batch(self._queue.pop_batch(self._batch_tokens))
        elif self._free is not None and refill and self._queue:
            self._fill_free_slots(self._buffers, self._free)
        elif self._free is not None and self._downsize_next:
            self._downsize(self._buffers, ~self._free)
        self._free = None
        return self._buffers

    # ------------------------------------------------------------------------------------------------ steps

    def _decode_stride(self, buffers: DecodeBuffers) -> None:
        """Decode a stride of tokens without waiting for the device; compact the caches first if they are full."""
        added = self._runner.beam * self._stride
        if buffers.caches[0].length + added > buffers.shape.columns:
            self._compact_cache(buffers)
        lengths = [cache.length for cache in buffers.caches]
        runner = self._runner
        columns = [
            cache.capacity
            if runner.lists_columns
            else min(round_to_bucket(cache.length + added, _COLUMNS_MULTIPLE), cache.capacity)
            for cache in buffers.caches
        ]
        self.graphs(lambda: runner.step(buffers, columns), self._stride, buffers.graphs, ("step", *columns))
        for cache, length in zip(buffers.caches, lengths, strict=True):
            cache.length = length + added  # a replay does not count
        self._steps += self._stride

    def _compact_cache(self, buffers: DecodeBuffers, length: int = 0) -> None:
        """Drop columns that no live window needs; the others end at `length`, if that is enough for them."""
        columns = buffers.caches[0].length
        needed = self._slots.first_column[self._slots.deadline > self._steps]
        kept = columns - int(needed.min(initial=columns))
        length = max(kept, length)
        for cache in buffers.caches:
            cache.compact(kept, length)
        self._slots.first_column += length - columns

    # ------------------------------------------------------------------------------------------------ slots

    def _start_batch(self, requests: list[ScheduledRequest]) -> None:
        """Start a batch in buffers of about its size."""
        prefix = 1 + max(len(scheduled.request.prefix) for scheduled in requests)
        source = max(len(scheduled.request.source) for scheduled in requests)
        max_length = max(scheduled.max_length for scheduled in requests) + self._stride  # the last stride may overshoot
        phrases = max(scheduled.phrases_size for scheduled in requests)
        shape = BucketShape.for_batch(len(requests), source, prefix, max_length, self._runner.beam, phrases)
        buffers = self.pool.smallest_fitting(shape)
        buffers.clear()
        self._slots = SlotTable.empty(buffers.shape.windows)
        self._admit(buffers, np.arange(len(requests)), requests)
        self._buffers = buffers

    def _fill_free_slots(self, buffers: DecodeBuffers, free: NDArray[np.bool_]) -> None:
        """Give free slots to waiting requests that fit into the buffers."""
        self._slots.deadline[free] = 0
        if self._slots.first_column[~free].min() >= _COLUMNS_MULTIPLE:
            self._compact_cache(buffers)
        slots = free.nonzero()[0]
        fitting = self._queue.pop_fitting(len(slots), lambda scheduled: self._fits(scheduled, buffers.shape))
        self._admit(buffers, slots, fitting)

    def _fits(self, scheduled: ScheduledRequest, shape: BucketShape) -> bool:
        request = scheduled.request
        columns = 1 + len(request.prefix) + self._runner.beam * (scheduled.max_length + self._stride)
        return (
            len(request.source) <= shape.source
            and columns <= shape.columns
            and scheduled.max_length <= shape.max_length
            and scheduled.phrases_size <= shape.phrases
        )

    def _admit(self, buffers: DecodeBuffers, slots: NDArray[np.int64], requests: list[ScheduledRequest]) -> None:
        """Prefill requests in buffers of their own, and insert them into slots."""
        start = 0
        for batch in prefill_batches(requests):
            prefilled = self._prefill(batch, buffers.shape)
            length = prefilled.caches[0].length
            if buffers.caches[0].length < length:
                self._compact_cache(buffers, length)
            rows = slots[start : start + len(batch)]
            buffers.insert_rows(to_device_async(torch.from_numpy(rows), self._runner.device), prefilled)
            self._slots.record(rows, batch, self._steps, buffers.caches[0].length)
            start += len(batch)

    def _prefill(self, requests: list[ScheduledRequest], shape: BucketShape) -> DecodeBuffers:
        """Read sources and prefixes and decode the first token, in prefill buffers, of which there are few shapes."""
        windows, source, prefix = prefill_shape(requests)
        prefix = min(prefix, shape.columns)
        # sampling needs all random numbers of a window, beam search only space for the first token
        max_length = shape.max_length if self._runner.settings.sample else 1
        bucket = BucketShape(windows, min(source, shape.source), prefix, max_length, shape.phrases)
        buffers = self.prefill_pool.get_or_create(bucket)
        self._runner.prefill_into(buffers, requests, prefix, self.graphs)
        return buffers

    def _should_downsize(self, buffers: DecodeBuffers, num_live: int, deadlines: NDArray[np.int64]) -> bool:
        """Whether smaller buffers pay: otherwise idle rows cost less than capturing steps again."""
        if not num_live:
            return False
        windows = buffers.shape.windows
        worth = (
            windows * self._runner.beam > _DOWNSIZE_MIN_ROWS and deadlines.max() - self._steps >= _DOWNSIZE_MIN_STEPS
        )
        return worth and num_live <= _DOWNSIZE_TO * windows

    def _downsize(self, buffers: DecodeBuffers, live: NDArray[np.bool_]) -> None:
        """Move the live windows to smaller buffers."""
        shape = replace(buffers.shape, windows=math.ceil(_DOWNSIZE_TO * buffers.shape.windows))
        kept = compaction_order(live)
        smaller = self.pool.get_or_create(shape)
        smaller.copy_(buffers.keep(to_device_async(torch.from_numpy(kept), self._runner.device)))
        self._slots = self._slots.select(kept, shape.windows)
        self._buffers = smaller

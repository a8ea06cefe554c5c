"""Static buffers: memory in which one batch after the other is decoded, so that captured graphs serve them all."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field

import torch
from torch import Tensor

from focat.corpus.vocabulary import START
from focat.decoding.beam import BeamSearch
from focat.decoding.cuda_graphs import CapturedGraphs
from focat.decoding.requests import Request
from focat.hardware import to_device_async
from focat.model import TreeKVCache
from focat.windows.builder import pad_rows
from focat.windows.segments import segments_of

_MAX_BUFFERS = 64  # in a pool
_MAX_EXCESS = 1.5  # area of buffers that a batch may use instead of its own, relative to what it needs
_LENGTH_MULTIPLE = 16  # lengths are rounded up to a multiple of it


@dataclass
class SearchState:
    """A search in progress: hypotheses, and the KV cache of each model."""

    search: BeamSearch
    caches: list[TreeKVCache]

    def keep(self, windows: Tensor) -> SearchState:
        """The state of these windows alone; it takes over the memory, so this state must not be used any more."""
        kept = SearchState(copy.copy(self.search), [copy.copy(cache) for cache in self.caches])
        kept.search.keep(windows)
        for cache in kept.caches:
            cache.keep_windows(windows)
        return kept


@dataclass(frozen=True)
class PrefillBatch:
    """Requests padded side by side: what the models read before the first token is decoded."""

    tokens: Tensor  # (windows, source length) PAD after the end
    current: Tensor  # (windows,) segment of the current sentence on the source
    prefixes: Tensor  # (windows, prefix length) start symbol first, PAD in front

    @classmethod
    def collate(cls, requests: Sequence[Request], source: int = 0, prefix: int = 0) -> PrefillBatch:
        """Pad requests to a common length, at least `source` and `prefix` tokens."""
        tokens = pad_rows([request.source for request in requests], source)
        last = segments_of(tokens).amax(1)
        current = [i if r.current is None else r.current for i, r in zip(last.tolist(), requests, strict=True)]
        prefixes = pad_rows([[START, *request.prefix] for request in requests], prefix, left=True)
        return cls(tokens, torch.tensor(current), prefixes)

    def copy_(self, other: PrefillBatch) -> None:
        """Copy the values of another, in place; its prefixes may be shorter."""
        self.tokens.copy_(other.tokens)
        self.current.copy_(other.current)
        self.prefixes[:, -other.prefixes.shape[1] :].copy_(other.prefixes)

    def to(self, device: torch.device) -> PrefillBatch:
        """The same batch on another device."""
        return PrefillBatch(*(to_device_async(tensor, device) for tensor in (self.tokens, self.current, self.prefixes)))

    def view(self, windows: slice, source: int, prefix: int) -> PrefillBatch:
        """A view of some windows, with lengths that leave out nothing but padding."""
        return PrefillBatch(self.tokens[windows, :source], self.current[windows], self.prefixes[windows, -prefix:])


@dataclass(frozen=True)
class BucketShape:
    """Shape of static buffers."""

    windows: int
    source: int  # source tokens of a window
    columns: int  # KV cache entries of a window
    max_length: int  # tokens of a hypothesis
    phrases: int = 0  # size of the automata of required phrases; 0 without any

    @classmethod
    def for_batch(
        cls, windows: int, source: int, prefix: int, max_length: int, beam: int, phrases: int = 0
    ) -> BucketShape:
        """The bucket of a batch: sizes rounded up, so that similar batches share it."""
        max_length = round_to_bucket(max_length, _LENGTH_MULTIPLE)
        columns = round_to_bucket(prefix + beam * max_length, _LENGTH_MULTIPLE)
        phrases = round_to_bucket(phrases, _LENGTH_MULTIPLE) if phrases else 0
        return cls(round_to_bucket(windows), round_to_bucket(source, _LENGTH_MULTIPLE), columns, max_length, phrases)

    @property
    def area(self) -> int:
        """A measure of the memory and time it takes."""
        return self.windows * (self.source + self.columns)

    def union(self, other: BucketShape) -> BucketShape:
        """The smallest shape that holds both."""
        return BucketShape(*map(max, astuple(self), astuple(other)))

    def fits(self, other: BucketShape) -> bool:
        """Whether it holds another shape without being much larger; searches without phrases are kept apart."""
        if bool(self.phrases) != bool(other.phrases):
            return False
        return self == self.union(other) and self.area <= _MAX_EXCESS * other.area


@dataclass
class DecodeBuffers(SearchState):
    """A search state whose tensors stay where they are, and the graphs captured over them."""

    shape: BucketShape
    inputs: PrefillBatch
    graphs: CapturedGraphs = field(default_factory=dict)

    def copy_(self, other: SearchState) -> None:
        """Copy a state with fewer windows and the same lengths; the remaining rows are idle."""
        self.search.copy_(other.search)
        for mine, theirs in zip(self.caches, other.caches, strict=True):
            mine.copy_from(theirs)

    def clear(self) -> None:
        """Mark all rows as idle and empty the caches."""
        self.search.mark_idle_from(0)
        for cache in self.caches:
            cache.clear()

    def insert_rows(self, rows: Tensor, other: DecodeBuffers) -> None:
        """Replace these rows, (count,), by the first `count` windows of other buffers."""
        self.search.insert_rows(rows, other.search)
        for mine, theirs in zip(self.caches, other.caches, strict=True):
            mine.insert_windows(rows, theirs)


class BufferPool:
    """Buffers by shape, of limited number and total area; the least recently used ones are evicted first."""

    def __init__(self, allocate: Callable[[BucketShape], DecodeBuffers], max_area: float = math.inf) -> None:
        self._allocate, self._max_area = allocate, max_area
        self._buffers: dict[BucketShape, DecodeBuffers] = {}  # the most recently used last

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[DecodeBuffers]:
        return iter(self._buffers.values())

    def smallest_fitting(self, shape: BucketShape) -> DecodeBuffers:
        """The smallest buffers that fit a shape, allocated if there are none.

        New ones are as large as existing ones in every dimension where that is not much larger than needed, so that
        batches of randomly varying shapes soon find one that fits all.
        """
        fitting = [known for known in self._buffers if known.fits(shape)]
        if fitting:
            return self.get_or_create(min(fitting, key=lambda known: known.area))
        larger = shape
        for known in self._buffers:
            both = larger.union(known)
            larger = both if both.fits(shape) else larger
        return self.get_or_create(larger)

    def get_or_create(self, shape: BucketShape) -> DecodeBuffers:
        """The buffers of exactly this shape; if memory is short, all others are evicted for them."""
        buffers = self._buffers.pop(shape, None)
        if buffers is None:
            self._evict_for(shape.area)
            try:
                buffers = self._allocate(shape)
            except torch.OutOfMemoryError:  # other processes use the device, too
                self.evict(len(self))
                buffers = self._allocate(shape)
        self._buffers[shape] = buffers
        return buffers

    def evict_unused(self) -> None:
        """Evict all buffers but the most recently used."""
        self.evict(len(self) - 1)

    def evict(self, count: int) -> None:
        """Evict the least recently used buffers, and give their memory back to the device."""
        for shape in list(self._buffers)[: max(count, 0)]:
            del self._buffers[shape]
        if count > 0:
            torch.cuda.empty_cache()

    def _evict_for(self, area: int) -> None:
        """Evict as many as needed to allocate this area."""
        areas = [shape.area for shape in self._buffers]
        count = 0
        while count < len(areas) and (len(areas) - count >= _MAX_BUFFERS or area + sum(areas[count:]) > self._max_area):
            count += 1
        self.evict(count)


def share_kv_memory(allocate: Callable[[BucketShape], DecodeBuffers]) -> Callable[[BucketShape], DecodeBuffers]:
    """Let all allocated buffers have their keys and values in the same memory: for those used one at a time."""
    storage: dict[tuple[int, str], Tensor] = {}

    def allocate_shared(shape: BucketShape) -> DecodeBuffers:
        buffers = allocate(shape)
        for i, cache in enumerate(buffers.caches):
            for name in ("self_kv", "cross_kv"):
                own = getattr(cache, name)
                memory = storage.get((i, name))
                if memory is None or memory.numel() < own.numel():
                    memory = storage[i, name] = own.flatten()
                setattr(cache, name, memory[: own.numel()].view_as(own))
        return buffers

    return allocate_shared


def round_to_bucket(number: int, multiple: int = 1) -> int:
    """Round up to a multiple of `multiple` and of an eighth of the next power of two: few values, little waste."""
    multiple = max(multiple, 1 << (number - 1).bit_length() >> 3)
    return -(-number // multiple) * multiple

"""Places in memory where batches are searched, one after the other, so that what was recorded there serves them all."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, field

import torch
from torch import Tensor

from focat.decoding.beam import Hypotheses
from focat.decoding.cuda_graphs import Recordings
from focat.model import TreeKVCache

_MOST = 64  # places
_LARGER = 1.5  # times: a place that a batch may be given instead of one of its own
_GRAIN = 16  # lengths are multiples of it


@dataclass
class State:
    """A search that is under way."""

    hypotheses: Hypotheses
    caches: list[TreeKVCache]  # of each model

    def kept(self, windows: Tensor) -> State:
        """These windows alone; this state is of no use any more, for theirs takes over its memory."""
        kept = State(copy.copy(self.hypotheses), [copy.copy(cache) for cache in self.caches])
        kept.hypotheses.keep(windows)
        for cache in kept.caches:
            cache.keep_windows(windows)
        return kept


@dataclass(frozen=True)
class Asked:
    """Requests side by side, as models read them."""

    tokens: Tensor  # (windows, source length) PAD behind
    current: Tensor  # (windows,) the current sentence of the source
    prefixes: Tensor  # (windows, prefix length) from the start symbol on, PAD in front

    def become(self, other: Asked) -> None:
        """Take over the values of another, in place, whose prefixes may be shorter."""
        self.tokens.copy_(other.tokens)
        self.current.copy_(other.current)
        self.prefixes[:, -other.prefixes.shape[1] :].copy_(other.prefixes)

    def to(self, device: torch.device) -> Asked:
        """The same on another device."""
        return Asked(*(sent(tensor, device) for tensor in (self.tokens, self.current, self.prefixes)))

    def part(self, windows: slice, source: int, prefix: int) -> Asked:
        """Some windows, in the same memory, with sources and prefixes of so many tokens: the rest is padding."""
        return Asked(self.tokens[windows, :source], self.current[windows], self.prefixes[windows, -prefix:])


@dataclass(frozen=True)
class Size:
    """Of a place."""

    windows: int
    source: int  # tokens of a window
    columns: int  # of what the decoder reads of a window
    longest: int  # tokens of a hypothesis

    @classmethod
    def of(cls, windows: int, source: int, prefix: int, longest: int, beam: int) -> Size:
        """For a batch: somewhat more than it needs, so that others like it fit in."""
        longest = rounded(longest, _GRAIN)
        columns = rounded(prefix + beam * longest, _GRAIN)
        return cls(rounded(windows), rounded(source, _GRAIN), columns, longest)

    @property
    def area(self) -> int:
        """What it takes of memory and time."""
        return self.windows * (self.source + self.columns)

    def joined(self, other: Size) -> Size:
        """With room for either."""
        return Size(*map(max, astuple(self), astuple(other)))

    def holds(self, other: Size) -> bool:
        """Whether there is room for another, and not much more."""
        return self == self.joined(other) and self.area <= _LARGER * other.area


@dataclass
class Place(State):
    """A state whose tensors never move."""

    size: Size
    asked: Asked
    recordings: Recordings = field(default_factory=dict)

    def become(self, other: State) -> None:
        """Take over a search with fewer windows and the same lengths; the rows it leaves are idle."""
        self.hypotheses.become(other.hypotheses)
        for mine, theirs in zip(self.caches, other.caches, strict=True):
            mine.copy_from(theirs)

    def clear(self) -> None:
        """Nothing is in it any more."""
        self.hypotheses.rest_from(0)
        for cache in self.caches:
            cache.clear()

    def admit(self, rows: Tensor, others: Place) -> None:
        """Give these rows, (how many,), to as many windows of another place, the first ones."""
        self.hypotheses.admit(rows, others.hypotheses)
        for mine, theirs in zip(self.caches, others.caches, strict=True):
            mine.insert_windows(rows, theirs)


class Places:
    """The places that are kept: a few, of limited area together. The one not used for longest is given up first."""

    def __init__(self, room: float = math.inf) -> None:
        self._room = room
        self._kept: dict[Size, Place] = {}  # the one used last at the end

    def __len__(self) -> int:
        return len(self._kept)

    def near(self, size: Size, make: Callable[[Size], Place]) -> Place:
        """The smallest place with room for this, and not much more; if there is none, a new one, which has room for
        what others hold too, as far as that is not much more: batches that differ by chance soon find one for all.
        """
        fitting = [kept for kept in self._kept if kept.holds(size)]
        if fitting:
            return self.at(min(fitting, key=lambda kept: kept.area), make)
        larger = size
        for kept in self._kept:
            both = larger.joined(kept)
            larger = both if both.holds(size) else larger
        return self.at(larger, make)

    def at(self, size: Size, make: Callable[[Size], Place]) -> Place:
        """The place of exactly this size."""
        place = self._kept.pop(size, None)
        if place is None:
            self._give_up(size.area)
            try:
                place = make(size)
            except torch.OutOfMemoryError:  # others use the device too: rather this place than those of before
                self._kept.clear()
                torch.cuda.empty_cache()
                place = make(size)
        self._kept[size] = place
        return place

    def _give_up(self, area: int) -> None:
        """As many as must go before there is so much more."""
        before = len(self._kept)
        while self._kept and (len(self._kept) >= _MOST or area + sum(kept.area for kept in self._kept) > self._room):
            del self._kept[next(iter(self._kept))]
        if len(self._kept) < before:
            torch.cuda.empty_cache()  # what was theirs, other programs may need


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of this machine's memory, on its way to a device: nothing waits for what the device is still at."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def rounded(number: int, grain: int = 1) -> int:
    """Up to a multiple of the grain, and of an eighth of the next power of two: few numbers, and little to spare."""
    grain = max(grain, 1 << (number - 1).bit_length() >> 3)
    return -(-number // grain) * grain

"""Search on a GPU: in places whose steps are recorded. Windows that are over leave, and others may take their rows.

Requests that wait for nothing are searched in batches of about the same length, and a batch that has become small goes
on in a smaller place. Where each answer leads to the next request, as with documents whose translations are context,
rows are given away as they become free instead: a step costs nearly the same, however few of its rows are in use.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from focat.decoding.buffers import Place, Size, rounded, sent
from focat.decoding.requests import Hypothesis, Request, Turn
from focat.errors import FocatError

if TYPE_CHECKING:
    from focat.decoding.engine import Searcher

NOT_NUMBERS = "the model's scores are not numbers (NaN): take an earlier checkpoint, or train anew"

Follow = Callable[[int, list[Hypothesis]], Request | None]

_COLUMNS = 128  # or a multiple, or all there are: how many columns steps look at, each with a recording of its own
_SHRINK_TO = 1 / 4  # of the windows, moved to a smaller place once no more are left,
_SHRINK_ROWS = 256  # unless a step has so few rows that it takes no less time with fewer,
_SHRINK_STEPS = 16  # or so few steps are left that a recording may take longer
_REFILL = 1 / 4  # of the rows in use that are over: then they are given away
_READ = 16_384  # tokens of sources and prefixes that are read together, in as many windows as a power of two,
_READ_WINDOWS = 16, 128  # within these
_GRAIN = 32  # of the lengths of what is read


@dataclass
class Waiting:
    """Turns that have not come yet; the one with most left to translate is the first."""

    _heap: list[tuple[int, int, Turn]] = field(default_factory=list)
    _count: int = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, turn: Turn) -> None:
        """One more."""
        heapq.heappush(self._heap, (-turn.left, self._count, turn))
        self._count += 1

    def take(self, tokens: int) -> list[Turn]:
        """As many of the first as have so many source tokens together, padding included, or one."""
        taken: list[Turn] = []
        longest = 0
        while self._heap:
            longest = max(longest, len(self._heap[0][2].request.source))
            if taken and (len(taken) + 1) * longest > tokens:
                break
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def take_fitting(self, most: int, fits: Callable[[Turn], bool]) -> list[Turn]:
        """The first that fit, up to a number."""
        taken: list[Turn] = []
        left_out = []
        while self._heap and len(taken) < most:
            item = heapq.heappop(self._heap)
            if fits(item[2]):
                taken.append(item[2])
            else:
                left_out.append(item)
        for item in left_out:
            heapq.heappush(self._heap, item)
        return taken


@dataclass
class Rows:
    """What is known here of the windows in a place."""

    due: NDArray[np.int64]  # the step by which each must be over
    first: NDArray[np.int64]  # the first column that it needs

    @classmethod
    def of(cls, count: int) -> Rows:
        """As many, not in use."""
        return cls(*(np.zeros(count, np.int64) for _ in range(2)))


class Stage:
    """One search in places, from the first request to the last answer."""

    def __init__(self, searcher: Searcher, turns: Sequence[Turn], follow: Follow | None) -> None:
        self.searcher, self.follow = searcher, follow
        self.beam, self.stride = searcher.settings.hypotheses, searcher.stride
        self.waiting = Waiting()
        for turn in turns:
            self.waiting.add(turn)
        self.steps = 0

    def run(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The chains of requests, as they are answered, and the hypotheses."""
        while self.waiting:
            yield from self._batch(self.waiting.take(self.searcher.batch_tokens))

    def _batch(self, turns: list[Turn]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """These turns, and those that take their rows, until nothing is left in the place."""
        place = self._place_for(turns)
        rows = Rows.of(place.size.windows)
        self._admit(place, rows, np.arange(len(turns)), turns)
        while True:
            self._advance(place, rows)
            windows = place.hypotheses.windows
            number, over = torch.stack((windows.number, windows.over.long())).cpu().numpy()
            busy = number >= 0
            live, done = busy & (over == 0), busy & (over == 1)
            if (live & (rows.due <= self.steps)).any():
                raise FocatError(NOT_NUMBERS)
            left = int(live.sum())
            refill = self.follow is not None and done.sum() >= _REFILL * busy.sum()
            shrink = not (self.follow and self.waiting) and self._can_shrink(place, left, rows.due[live])
            if left and not refill and not shrink:
                continue
            yield from self._answers(place, done)
            if not left:
                return
            if self.follow and self.waiting:
                self._refill(place, rows, live)
            elif shrink:
                place, rows = self._moved(place, rows, live)

    def _answers(self, place: Place, done: NDArray[np.bool_]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Of the windows that are done; what follows from them waits then."""
        which = sent(torch.from_numpy(done.nonzero()[0]), self.searcher.device)
        for chain, hypotheses in self.searcher.collected(place.hypotheses, which):
            yield chain, hypotheses
            request = self.follow(chain, hypotheses) if self.follow else None
            if request is not None:
                self.waiting.add(self.searcher.turn(chain, request))
        place.hypotheses.leave(which)

    def _note(self, rows: Rows, at: NDArray[np.int64], turns: Sequence[Turn], columns: int) -> None:
        """Who has these rows now, and has read up to this column and taken the first step."""
        rows.due[at] = self.steps + np.array([turn.limit for turn in turns]) - 1
        rows.first[at] = columns - 1 - np.array([len(turn.request.prefix) for turn in turns])

    # -------------------------------------------------------------------------------------------- steps

    def _advance(self, place: Place, rows: Rows) -> None:
        """A stride of steps, without a look at what they find; first to the front, if there is no room behind."""
        added = self.beam * self.stride
        if place.caches[0].length + added > place.size.columns:
            self._slide(place, rows)
        columns = [min(rounded(cache.length + added, _COLUMNS), cache.capacity) for cache in place.caches]
        lengths = [cache.length for cache in place.caches]
        searcher = self.searcher
        searcher.repeat(lambda: searcher.step(place, columns), self.stride, place.recordings, ("step", *columns))
        for cache, length in zip(place.caches, lengths, strict=True):
            cache.length = length + added  # what was replayed was not counted
        self.steps += self.stride

    def _slide(self, place: Place, rows: Rows, length: int = 0) -> None:
        """Columns that no window in use needs any more are given up; the others end at this length, or before it."""
        columns = place.caches[0].length
        kept = columns - int(rows.first[rows.due > self.steps].min(initial=columns))
        length = max(kept, length)
        for cache in place.caches:
            cache.compact(kept, length)
        rows.first += length - columns

    # -------------------------------------------------------------------------------------------- who is where

    def _place_for(self, turns: list[Turn]) -> Place:
        """A place of about the size of a batch, with nothing in it."""
        requests = [turn.request for turn in turns]
        prefix = 1 + max(len(request.prefix) for request in requests)
        source = max(len(request.source) for request in requests)
        longest = max(turn.limit for turn in turns) + self.stride  # a stride may go beyond what is needed
        place = self.searcher.places.near(Size.of(len(turns), source, prefix, longest, self.beam), self.searcher.place)
        place.clear()
        return place

    def _refill(self, place: Place, rows: Rows, live: NDArray[np.bool_]) -> None:
        """Give free rows to those who wait."""
        rows.due[~live] = 0
        if rows.first[live].min() >= _COLUMNS:
            self._slide(place, rows)
        free = (~live).nonzero()[0]
        turns = self.waiting.take_fitting(len(free), lambda turn: self._fits(turn, place.size))
        self._admit(place, rows, free, turns)

    def _fits(self, turn: Turn, size: Size) -> bool:
        request = turn.request
        columns = 1 + len(request.prefix) + self.beam * (turn.limit + self.stride)
        return len(request.source) <= size.source and columns <= size.columns and turn.limit <= size.longest

    def _admit(self, place: Place, rows: Rows, free: NDArray[np.int64], turns: list[Turn]) -> None:
        """Read what these ask for, those of about the same length together, and put it into free rows."""
        turns.sort(key=lambda turn: len(turn.request.source) + len(turn.request.prefix), reverse=True)
        start = 0
        while start < len(turns):
            first = turns[start].request
            fewest, most = _READ_WINDOWS
            together = min(max(_READ // (len(first.source) + len(first.prefix)), fewest), most)
            few = turns[start : start + (1 << together.bit_length() - 1)]
            read = self._read(few, place.size)
            length = read.caches[0].length
            if place.caches[0].length < length:
                self._slide(place, rows, length)
            at = free[start : start + len(few)]
            place.admit(sent(torch.from_numpy(at), self.searcher.device), read)
            self._note(rows, at, few, place.caches[0].length)
            start += len(few)

    def _read(self, turns: list[Turn], size: Size) -> Place:
        """Source and prefix, read in a place of their own: one of few sizes, for which there are recordings."""
        prefix = min(_grained(1 + max(len(turn.request.prefix) for turn in turns)), size.columns)
        source = min(_grained(max(len(turn.request.source) for turn in turns)), size.source)
        windows = max(1 << (len(turns) - 1).bit_length(), _READ_WINDOWS[0])
        longest = size.longest if self.searcher.settings.sample else 1  # all the luck, or room for the first token
        read = self.searcher.anterooms.at(Size(windows, source, prefix, longest), self.searcher.anteroom)
        self.searcher.begin_in(read, turns, prefix)
        return read

    def _can_shrink(self, place: Place, left: int, due: NDArray[np.int64]) -> bool:
        """Whether to go on in a smaller place pays: elsewhere, idle rows cost less than to record steps anew."""
        if not left:
            return False
        enough = place.size.windows * self.beam > _SHRINK_ROWS and due.max() - self.steps >= _SHRINK_STEPS
        return enough and left <= _SHRINK_TO * place.size.windows

    def _moved(self, place: Place, rows: Rows, live: NDArray[np.bool_]) -> tuple[Place, Rows]:
        """What is left in a place, in a smaller one."""
        size = replace(place.size, windows=math.ceil(_SHRINK_TO * place.size.windows))
        kept = kept_in_place(live)
        smaller = self.searcher.places.at(size, self.searcher.place)
        smaller.become(place.kept(sent(torch.from_numpy(kept), self.searcher.device)))
        moved = Rows.of(size.windows)
        moved.due[: len(kept)], moved.first[: len(kept)] = rows.due[kept], rows.first[kept]
        return smaller, moved


def _grained(length: int) -> int:
    """Somewhat more; a start symbol alone stays alone."""
    return length if length == 1 else rounded(length, _GRAIN)


def kept_in_place(going: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The windows that go on, those at the end in the places of those that do not: the rest stays put."""
    count = int(going.sum())
    kept = np.arange(count)
    kept[~going[:count]] = going[count:].nonzero()[0] + count
    return kept

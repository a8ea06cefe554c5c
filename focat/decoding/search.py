"""Translations of windows: batched beam search, or sampling, over one model or several (section 4 of the paper).

    Searcher([model], SearchSettings(beam=4))([Request(source)])

A hypothesis is scored by the log-probability of what was decoded, divided by its length to the power of the length
penalty. A forced prefix is read but not scored: it is the same for all hypotheses of a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, PAD, SEPARATOR, START
from focat.decoding.choice import Chooser, drawn, likeliest
from focat.decoding.constraints import fewest_tokens
from focat.decoding.hypotheses import IDLE, Hypotheses, Windows
from focat.decoding.linear import Int8Linear, PackedLinear, can_pack, copy_with
from focat.decoding.places import Asked, Place, Places, Size, State, rounded_prefix
from focat.decoding.repeat import Repeater
from focat.errors import FocatError
from focat.model import DecoderCache, Memory, Transformer
from focat.windows.batch import Side
from focat.windows.scramble import scramble
from focat.windows.segments import segments_of

_STRIDE, _STRIDE_GPU = 2, 8
_BATCH_TOKENS, _BATCH_TOKENS_GPU, _MOST_BATCH_TOKENS = 16_384, 65_536, 524_288
_BATCH_SHARE = 1 / 8  # of a GPU's memory
_BEGIN_TOKENS = 512  # of source and prefix that are read together on a CPU

# On a GPU:
_PLACES_AREA = 8  # times the tokens of a batch, which is two or three batches that may be as long as can be
_COLUMNS = 256  # that steps look at, or twice as many, and so on, or nearly as few as there are: each is a recording
_SHRINK_TO = 1 / 4  # of the windows, moved to a smaller place once no more are left,
_SHRINK_ROWS = 2048  # unless a step has so few rows that it takes no less time with fewer,
_SHRINK_STEPS = 32  # or so few steps are left that a recording may take longer


@dataclass(frozen=True)
class Request:
    """One window to translate."""

    source: Sequence[int]
    """Tokens of the source window, each sentence closed by SEPARATOR, the last by END."""
    prefix: Sequence[int] = ()
    """Target tokens that are forced, closing separators included; no start symbol."""
    sentences: int | None = None
    """Sentences the whole target must have, prefix included; any number if not given (the paper's rule)."""
    longest: int | None = None
    """Most tokens decoded after the prefix; if not given, relative to the source."""
    current: int | None = None
    """The current sentence of the source; its last one if not given."""
    number: int | None = None
    """Seeds its sampling together with the seed of the settings; its place among the requests if not given."""

    @property
    def closed(self) -> int:
        """Sentences that the prefix closes."""
        return list(self.prefix).count(SEPARATOR)

    @property
    def left(self) -> int:
        """Source tokens whose translation is not forced."""
        tokens, start = list(self.source), 0
        for _ in range(min(self.closed, tokens.count(SEPARATOR))):
            start = tokens.index(SEPARATOR, start) + 1
        return len(tokens) - start


@dataclass(frozen=True)
class Hypothesis:
    """A translation of one window."""

    tokens: list[int]
    """What was decoded after the prefix; SEPARATORs inside, END last."""
    token_scores: list[float] = field(repr=False)
    """Log-probability of each of these tokens."""
    log_probability: float
    """Their sum."""
    score: float
    """Log-probability over length to the power of the length penalty: hypotheses are ranked by it."""
    finished: bool
    """False: the limit had to close it."""


class Searcher:
    """Translates windows, best hypotheses first, whatever the batch they are in."""

    def __init__(self, models: Sequence[Transformer], settings: SearchSettings) -> None:
        self.models = [model.eval() for model in models]
        self.projections: list[Callable[[Tensor], Tensor]] = [model.project for model in models]
        self.settings = settings
        self.device = models[0].output_weight.device
        if settings.int8 and self.device.type != "cpu":
            raise FocatError("decoding.int8: only CPUs compute with eight-bit integers here; leave it out on a GPU")
        if settings.int8 or all(map(can_pack, self.models)):
            made = [copy_with(Int8Linear if settings.int8 else PackedLinear, model) for model in self.models]
            self.models, self.projections = map(list, zip(*made, strict=True))
        self.static = self.device.type == "cuda"  # batches are searched in places, where steps can be recorded
        self.stride = _STRIDE_GPU if self.static else _STRIDE  # steps between two looks at which windows are over
        tokens = settings.batch_tokens or self._usual_batch()
        self.batch_tokens = tokens // settings.hypotheses
        """Source tokens of a batch, padding included."""
        self.places = Places(_PLACES_AREA * tokens)
        self.repeat = Repeater(self.device)

    def _usual_batch(self) -> int:
        """Tokens of a batch, times hypotheses: always the same for a device, lest a job be cut otherwise next time."""
        if self.device.type != "cuda":
            return _BATCH_TOKENS
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return batch_for(memory, self.models, self.settings.max_ratio)

    @torch.inference_mode()
    def __call__(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The n best translations of each request, in the order of the requests."""
        found: list[list[Hypothesis]] = [[] for _ in requests]
        for batch in self._batches(requests):
            for place, hypotheses in self._search([requests[i] for i in batch], batch):
                found[batch[place]] = hypotheses
        return found

    def _batches(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Requests with about as much left to translate, as many as the budget allows; the longest windows first."""
        order = sorted(range(len(requests)), key=[request.left for request in requests].__getitem__, reverse=True)
        sources = [len(requests[i].source) for i in order]
        longest = list(accumulate(reversed(sources), max))[::-1]  # from each on
        start = 0
        while start < len(order):
            end = start + max(self.batch_tokens // longest[start], 1)
            yield sorted(
                order[start:end], key=lambda i: len(requests[i].source) + len(requests[i].prefix), reverse=True
            )
            start = end

    def _search(self, requests: list[Request], places: list[int]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The places of requests in this batch, as they are done, and their hypotheses."""
        numbers = [place if r.number is None else r.number for place, r in zip(places, requests, strict=True)]
        limits = self._limits(requests)
        longest = max(limits)
        begin = self._begin_in_place if self.static else self._begin
        state: State = begin(requests, numbers, limits)
        steps = 1
        while True:
            stride = min(self.stride, longest - steps)
            self._advance(state, stride)
            steps += stride
            going = ~state.hypotheses.windows.over
            left = int(going.sum())
            if left and steps == longest:
                raise FocatError("the model's scores are not numbers (NaN): take an earlier checkpoint, or train anew")
            if self.static and left and not self._can_shrink(left, len(going), longest - steps):
                continue
            yield from self._collected(state.hypotheses)
            if not left:
                return
            if left < len(going):
                kept = state.kept(_in_place(going))
                state = self._moved(state, kept) if isinstance(state, Place) else kept

    def _can_shrink(self, left: int, windows: int, steps: int) -> bool:
        """Whether to go on in a smaller place pays: elsewhere, idle rows cost less than to record steps anew."""
        enough = windows * self.settings.hypotheses > _SHRINK_ROWS and steps >= _SHRINK_STEPS
        return enough and left <= _SHRINK_TO * windows

    def _moved(self, place: Place, kept: State) -> Place:
        """What is left in a place, in the smaller one."""
        size = replace(place.size, windows=math.ceil(_SHRINK_TO * place.size.windows))
        smaller = self.places.at(size, self._place)
        smaller.become(kept)
        return smaller

    def _advance(self, state: State, stride: int) -> None:
        """So many steps, without a look at what they find."""
        if not isinstance(state, Place):
            for _ in range(stride):
                self._step(state, [None] * len(state.caches))
            return
        added = self.settings.hypotheses * stride
        lengths = [cache.length for cache in state.caches]
        columns = [_columns(cache, added) for cache in state.caches]
        self.repeat(lambda: self._step(state, columns), stride, state.recordings, ("step", *columns))
        for cache, length in zip(state.caches, lengths, strict=True):
            cache.length = length + added  # what was replayed was not counted

    def _step(self, state: State, columns: Sequence[int | None]) -> None:
        """One token more; steps look at so many columns, or at those in use."""
        hypotheses = state.hypotheses
        rows = hypotheses.advance(self._logits(state.caches, hypotheses.last, columns), self._chooser(hypotheses))
        for cache in state.caches:
            cache.reorder(rows)

    def _limits(self, requests: list[Request]) -> list[int]:
        """The most tokens of each translation."""
        limits = []
        for request in requests:
            fewest = fewest_tokens(request.sentences, request.closed, _opens(request))
            relative = int(self.settings.max_ratio * len(request.source)) + self.settings.max_extra
            limits.append(max(relative if request.longest is None else request.longest, fewest))
        return limits

    def _windows(self, requests: list[Request], numbers: list[int], limits: list[int], longest: int) -> Windows:
        beam = self.settings.hypotheses
        return Windows(
            number=torch.arange(len(requests), device=self.device),
            limit=self._column(limits),
            sentences=self._column([request.sentences or 0 for request in requests]),
            closed=self._column([request.closed for request in requests]).repeat(1, beam),
            empty=self._column([_opens(request) for request in requests]).repeat(1, beam),
            lengths=torch.zeros(len(requests), beam, dtype=torch.long, device=self.device),
            over=torch.zeros(len(requests), dtype=torch.bool, device=self.device),
            luck=self._luck(numbers, longest),
        )

    def _hypotheses(self, windows: Windows, longest: int) -> Hypotheses:
        settings = self.settings
        return Hypotheses(windows, longest, settings.nbest, settings.length_penalty, alike=not settings.sample)

    def _column(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, device=self.device)[:, None]  # (windows, 1)

    def _luck(self, numbers: list[int], longest: int) -> Tensor:
        """For sampling, numbers from [0, 1) for each token, (windows, beam, longest); whatever else is in the batch."""
        if not self.settings.sample:
            return torch.zeros(len(numbers), self.settings.hypotheses, 0, device=self.device)
        bits = [
            [scramble(longest, self.settings.seed, number, which) for which in range(self.settings.hypotheses)]
            for number in numbers
        ]
        return torch.from_numpy((np.array(bits) >> np.uint64(11)) * 2.0**-53).to(self.device)

    def _chooser(self, hypotheses: Hypotheses) -> Chooser:
        """How to go on; by chance, with the luck of the step that the hypotheses are at."""
        if not self.settings.sample:
            return likeliest
        temperature, top_p = self.settings.temperature, self.settings.top_p
        return lambda totals, logits, allowed: drawn(totals, logits, allowed, hypotheses.luck, temperature, top_p)

    def _begin(self, requests: list[Request], numbers: list[int], limits: list[int]) -> State:
        """Encode the sources, read the prefixes, and take the first step.

        A few windows at a time, so that there is little padding: what is read here is longer than what follows.
        """
        beam, longest = self.settings.hypotheses, max(limits)
        together = asked(requests).to(self.device)
        begun = [self._read(together.part(*few)) for few in _few_at_a_time(requests)]
        room = 1 + max(len(request.prefix) for request in requests) + beam * longest
        caches = [DecoderCache.joined(parts, room) for parts in zip(*(caches for caches, _ in begun), strict=True)]
        state = State(self._hypotheses(self._windows(requests, numbers, limits, longest), longest), caches)
        self._first_step(state.hypotheses, torch.cat([logits for _, logits in begun]))
        for cache in caches:
            cache.widen(beam)
        return state

    def _begin_in_place(self, requests: list[Request], numbers: list[int], limits: list[int]) -> Place:
        """The same, all at once, in a place of about their size. Idle rows are filled up with the first window."""
        prefix = rounded_prefix(1 + max(len(request.prefix) for request in requests))
        source = max(len(request.source) for request in requests)
        count = len(requests)
        place = self.places.near(Size.of(count, source, prefix, max(limits), self.settings.hypotheses), self._place)
        idle = place.size.windows - count
        requests = requests + requests[:1] * idle
        numbers, limits = (each + each[:1] * idle for each in (numbers, limits))
        hypotheses = place.hypotheses
        hypotheses.windows.become(self._windows(requests, numbers, limits, place.size.longest))
        hypotheses.restart()
        hypotheses.rest_from(count)
        place.asked.become(asked(requests, place.size.source, prefix))

        def begin() -> None:
            begun, logits = self._read(place.asked.part(slice(None), place.size.source, prefix))
            self._first_step(hypotheses, logits)
            for cache, read in zip(place.caches, begun, strict=True):
                cache.become(read)

        self.repeat(begin, 1, place.recordings, ("begin", prefix))
        for cache in place.caches:
            cache.length = prefix  # what was replayed was not counted
        return place

    def _place(self, size: Size) -> Place:
        """A new place, with nothing in it yet."""
        beam = self.settings.hypotheses
        current = torch.zeros(size.windows, dtype=torch.long, device=self.device)
        source, prefixes = (current.new_zeros(size.windows, length) for length in (size.source, size.columns))
        idle = Request([END])
        windows = self._windows([idle] * size.windows, [0] * size.windows, [1] * size.windows, size.longest)
        caches = []
        for model in self.models:
            side = Side(source.clone(), source.clone(), current.clone())
            hidden = model.output_weight.new_zeros(*source.shape, model.settings.width)
            caches.append(model.start(Memory(hidden, side, current.clone()), beam, room=size.columns))
        return Place(self._hypotheses(windows, size.longest), caches, size, Asked(source, current, prefixes))

    def _first_step(self, hypotheses: Hypotheses, logits: Tensor) -> None:
        """All hypotheses of a window begin with the same logits, (windows, 1, vocabulary)."""
        hypotheses.advance(logits.repeat(1, self.settings.hypotheses, 1), self._chooser(hypotheses))

    def _read(self, asked: Asked) -> tuple[list[DecoderCache], Tensor]:
        """Caches of one row to a window, and logits of the first token."""
        source = Side(asked.tokens, segments_of(asked.tokens), asked.current)
        caches = [model.start(model.encode(source), room=asked.prefixes.shape[1]) for model in self.models]
        return caches, self._logits(caches, asked.prefixes, [None] * len(caches))

    def _logits(self, caches: list[DecoderCache], tokens: Tensor, columns: Sequence[int | None]) -> Tensor:
        """Logits of what follows these tokens, (windows, beam, vocabulary), up to a constant; an even mix of models."""
        logits = []
        for model, project, cache, seen in zip(self.models, self.projections, caches, columns, strict=True):
            hidden = model.step(cache, tokens, seen, last=tokens.shape[1] > 1)[:, -1]  # (rows, width)
            logits.append(project(hidden).float().view(-1, cache.beam, model.output_weight.shape[0]))
        if len(logits) == 1:
            return logits[0]
        return torch.stack([each.log_softmax(-1) for each in logits]).logsumexp(0)

    def _collected(self, hypotheses: Hypotheses) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The windows that are over, and what was found for them."""
        windows, nbest = hypotheses.windows, self.settings.nbest
        over = (windows.over & (windows.number != IDLE)).nonzero()[:, 0]
        lengths = windows.lengths[over, :nbest]
        longest = int(lengths.max()) if len(over) else 0
        ended = hypotheses.ended.map(lambda each: each[over, :nbest])
        columns = (ended.tokens[..., :longest], ended.scores[..., :longest], lengths, ended.cut, ended.rank)
        for place, *ranked in zip(*(each.tolist() for each in (windows.number[over], *columns)), strict=True):
            best = []
            for tokens, scores, length, cut, score in zip(*ranked, strict=True):
                if score == -math.inf:
                    break
                scores = scores[:length]
                best.append(Hypothesis(tokens[:length], scores, sum(scores), score, not cut))
            yield place, best


def batch_for(memory: int, models: Sequence[Transformer], max_ratio: float) -> int:
    """Tokens of a batch, times hypotheses, whose keys and values take an eighth of so much memory at most."""
    of_token = sum(
        2 * model.settings.decoder_layers * model.settings.width * model.output_weight.element_size()
        for model in models
    )
    columns = 1 + max_ratio  # of a source token: its own, and what is decoded, as long as it may be
    tokens = int(_BATCH_SHARE * memory / (of_token * columns))
    return min(max(tokens - tokens % _BATCH_TOKENS_GPU, _BATCH_TOKENS_GPU), _MOST_BATCH_TOKENS)


def asked(requests: Sequence[Request], source: int = 0, prefix: int = 0) -> Asked:
    """Requests side by side, their sources and prefixes at least so wide."""
    tokens = _padded([request.source for request in requests], source)
    last = segments_of(tokens).max(1)
    current = [i if r.current is None else r.current for i, r in zip(last.tolist(), requests, strict=True)]
    prefixes = _padded([[START, *request.prefix] for request in requests], prefix, front=True)
    return Asked(torch.from_numpy(tokens), torch.tensor(current), torch.from_numpy(prefixes))


def _opens(request: Request) -> bool:
    """Whether the first token is that of a sentence."""
    return not request.prefix or request.prefix[-1] == SEPARATOR


def _columns(cache: DecoderCache, new: int) -> int:
    """What steps look at of a cache while so many columns are added: the same for many steps."""
    columns = _COLUMNS
    while columns < cache.length + new:
        columns *= 2
    return columns if 1.5 * columns < cache.capacity else cache.capacity


def _few_at_a_time(requests: list[Request]) -> Iterator[tuple[slice, int, int]]:
    """Which requests, the longest first, and the lengths of sources and prefixes: as many as their tokens allow."""
    start = 0
    while start < len(requests):
        width = len(requests[start].source) + len(requests[start].prefix)
        count = max(_BEGIN_TOKENS // width, 1)
        rows = slice(start, start + count)
        few = requests[rows]
        yield rows, max(len(request.source) for request in few), 1 + max(len(request.prefix) for request in few)
        start += count


def _in_place(going: Tensor) -> Tensor:
    """The windows that go on, (how many,), those at the end in the places of those that do not: the rest stays put."""
    count = int(going.sum())
    kept = torch.arange(count, device=going.device)
    kept[~going[:count]] = going[count:].nonzero()[:, 0] + count
    return kept


def _padded(rows: Sequence[Sequence[int]], width: int = 0, front: bool = False) -> NDArray[np.int64]:
    """Side by side, PAD behind them or in front; at least so wide."""
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), max(width, lengths.max())), PAD, np.int64)
    column = np.arange(table.shape[1])
    real = column >= table.shape[1] - lengths[:, None] if front else column < lengths[:, None]
    table[real] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return table

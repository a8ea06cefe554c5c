"""Translations of windows: batched beam search, or sampling, over one model or several (section 4 of the paper).

    Searcher([model], SearchSettings(beam=4))([Request(source)])

A hypothesis is scored by the log-probability of what was decoded, divided by its length to the power of the length
penalty. A forced prefix is read but not scored: it is the same for all hypotheses of a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import PAD, SEPARATOR, START
from focat.decoding.choice import Chooser, drawn, likeliest
from focat.decoding.constraints import fewest_tokens
from focat.decoding.hypotheses import Hypotheses, Windows
from focat.decoding.linear import Int8Linear, PackedLinear, can_pack, copy_with
from focat.decoding.repeat import Repeater
from focat.errors import FocatError
from focat.model import DecoderCache, Transformer
from focat.windows.batch import Side
from focat.windows.scramble import scramble
from focat.windows.segments import segments_of

_STRIDE, _STRIDE_GPU = 2, 8
_STEPS_RECORDED = 32  # on a GPU: as many steps look at the same columns, and need recording once
_BATCH_TOKENS, _BATCH_TOKENS_GPU = 16_384, 65_536
_BEGIN_TOKENS = 512  # of source and prefix that are read together on a CPU


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
    def left(self) -> int:
        """Source tokens whose translation is not forced."""
        closed = list(self.prefix).count(SEPARATOR)
        ends = [i + 1 for i, token in enumerate(self.source) if token == SEPARATOR]
        return len(self.source) - ([0, *ends][min(closed, len(ends))])


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
        self.static = self.device.type == "cuda"  # shapes stay as they are for many steps, so that they can be recorded
        self.stride = _STRIDE_GPU if self.static else _STRIDE  # steps between two looks at which windows are over

    @property
    def batch_tokens(self) -> int:
        """Source tokens of a batch, padding included."""
        usual = _BATCH_TOKENS if self.device.type == "cpu" else _BATCH_TOKENS_GPU
        return (self.settings.batch_tokens or usual) // self.settings.hypotheses

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
        order = sorted(range(len(requests)), key=lambda i: requests[i].left, reverse=True)
        while order:
            count = max(self.batch_tokens // max(len(requests[i].source) for i in order), 1)
            yield sorted(order[:count], key=lambda i: len(requests[i].source) + len(requests[i].prefix), reverse=True)
            order = order[count:]

    def _search(self, requests: list[Request], places: list[int]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The places of requests in this batch, as they are done, and their hypotheses."""
        settings, beam = self.settings, self.settings.hypotheses
        windows = self._windows(requests, places)
        longest = int(windows.limit.max())
        hypotheses = Hypotheses(windows, longest, settings.nbest, settings.length_penalty, alike=not settings.sample)
        choose = likeliest if not settings.sample else self._draw(hypotheses)
        caches, logits = self._begin(requests, beam * longest)
        hypotheses.advance(logits.repeat_interleave(beam, 1), choose)
        for cache in caches:
            cache.widen(beam)
        repeat, steps = Repeater(self.device), 1
        while True:
            stride = min(self.stride, longest - steps)
            self._advance(hypotheses, caches, choose, stride, repeat)
            steps += stride
            going = ~hypotheses.windows.over
            left = int(going.sum())
            if left and steps == longest:
                raise FocatError("the model's scores are not numbers (NaN): take an earlier checkpoint, or train anew")
            if self.static and left > len(going) // 2:
                continue  # idle rows cost less than to record steps anew
            yield from self._collected(hypotheses)
            if not left:
                return
            if left < len(going):
                kept = _in_place(going)
                hypotheses.keep(kept)
                for cache in caches:
                    cache.keep(kept)

    def _advance(
        self, hypotheses: Hypotheses, caches: list[DecoderCache], choose: Chooser, stride: int, repeat: Repeater
    ) -> None:
        """So many steps, without a look at what they find."""
        beam = self.settings.hypotheses
        lengths = [cache.length for cache in caches]
        columns = [self._columns(cache, beam * stride) for cache in caches]

        def step() -> None:
            rows = hypotheses.advance(self._logits(caches, hypotheses.last, columns), choose)
            for cache in caches:
                cache.reorder(rows)

        repeat(step, stride, (len(hypotheses.windows.over), *columns))
        for cache, length in zip(caches, lengths, strict=True):
            cache.length = length + beam * stride  # what was replayed was not counted

    def _columns(self, cache: DecoderCache, new: int) -> int | None:
        """What steps look at of a cache while so many columns are added: all in use, or the same for many steps."""
        if not self.static:
            return None
        block = self.settings.hypotheses * _STEPS_RECORDED
        return min(-(-(cache.length + new) // block) * block, cache.capacity)

    def _windows(self, requests: list[Request], places: list[int]) -> Windows:
        beam = self.settings.hypotheses
        closed = [list(request.prefix).count(SEPARATOR) for request in requests]
        empty = [not request.prefix or request.prefix[-1] == SEPARATOR for request in requests]
        limits = []
        for request, has_closed, is_empty in zip(requests, closed, empty, strict=True):
            fewest = fewest_tokens(request.sentences, has_closed, is_empty)
            relative = int(self.settings.max_ratio * len(request.source)) + self.settings.max_extra
            limits.append(max(relative if request.longest is None else request.longest, fewest))
        numbers = [place if r.number is None else r.number for place, r in zip(places, requests, strict=True)]
        return Windows(
            number=torch.arange(len(requests), device=self.device),
            limit=self._column(limits),
            sentences=self._column([request.sentences or 0 for request in requests]),
            closed=self._column(closed).repeat(1, beam),
            empty=self._column(empty).repeat(1, beam),
            lengths=torch.zeros(len(requests), beam, dtype=torch.long, device=self.device),
            over=torch.zeros(len(requests), dtype=torch.bool, device=self.device),
            luck=self._luck(numbers, max(limits)),
        )

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

    def _draw(self, hypotheses: Hypotheses) -> Chooser:
        """A chooser that draws with the luck of the step that the hypotheses are at."""
        temperature, top_p = self.settings.temperature, self.settings.top_p
        return lambda totals, logits, allowed: drawn(totals, logits, allowed, hypotheses.luck, temperature, top_p)

    def _begin(self, requests: list[Request], room: int) -> tuple[list[DecoderCache], Tensor]:
        """Encode the sources and read the prefixes: caches of one row to a window, and logits of the first token.

        A few windows at a time, so that there is little padding: what is read here is longer than what follows.
        """
        begun = [self._read(few) for few in ([requests] if self.static else _few_at_a_time(requests))]
        room += 1 + max(len(request.prefix) for request in requests)
        caches = [DecoderCache.joined(parts, room) for parts in zip(*(caches for caches, _ in begun), strict=True)]
        if self.static:
            for cache in caches:
                cache.past[:, :, :, cache.length :] = 0  # columns are looked at before they are written
        return caches, torch.cat([logits for _, logits in begun])

    def _read(self, requests: list[Request]) -> tuple[list[DecoderCache], Tensor]:
        tokens = _padded([list(request.source) for request in requests]).to(self.device)
        segments = segments_of(tokens)
        current = segments.amax(1)
        for i, request in enumerate(requests):
            if request.current is not None:
                current[i] = request.current
        source = Side(tokens, segments, current)
        prefixes = _padded([[START, *request.prefix] for request in requests], front=True).to(self.device)
        caches = [model.start(model.encode(source), room=prefixes.shape[1]) for model in self.models]
        return caches, self._logits(caches, prefixes, [None] * len(caches))

    def _logits(self, caches: list[DecoderCache], tokens: Tensor, columns: list[int | None]) -> Tensor:
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
        ended, windows = hypotheses.ended, hypotheses.windows
        over = windows.over.nonzero()[:, 0]
        done = ended.map(lambda each: each[over, : self.settings.nbest].cpu())
        places, lengths = windows.number[over].tolist(), windows.lengths[over].tolist()
        for i, place in enumerate(places):
            best = []
            for j in range(self.settings.nbest):
                score = float(done.rank[i, j])
                if score == -math.inf:
                    break
                tokens, scores = (each[i, j, : lengths[i][j]].tolist() for each in (done.tokens, done.scores))
                best.append(Hypothesis(tokens, scores, sum(scores), score, not done.cut[i, j]))
            yield place, best


def _few_at_a_time(requests: list[Request]) -> Iterator[list[Request]]:
    """Requests, the longest first, as many together as their tokens allow."""
    start = 0
    while start < len(requests):
        width = len(requests[start].source) + len(requests[start].prefix)
        count = max(_BEGIN_TOKENS // width, 1)
        yield requests[start : start + count]
        start += count


def _in_place(going: Tensor) -> Tensor:
    """The windows that go on, (how many,), those at the end in the places of those that do not: the rest stays put."""
    count = int(going.sum())
    kept = torch.arange(count, device=going.device)
    kept[~going[:count]] = going[count:].nonzero()[:, 0] + count
    return kept


def _padded(rows: list[list[int]], front: bool = False) -> Tensor:
    longest = max(map(len, rows))
    fill = [[PAD] * (longest - len(row)) for row in rows]
    return torch.tensor([pads + row if front else row + pads for row, pads in zip(rows, fill, strict=True)])

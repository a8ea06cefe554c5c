"""Translations of windows: batched beam search, or sampling, over one model or several (section 4 of the paper).

    Searcher([model], SearchSettings(beam=4))([Request(source)])

A hypothesis is scored by the log-probability of what was decoded, divided by its length to the power of the length
penalty. A forced prefix is read but not scored: it is the same for all hypotheses of a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, PAD, START
from focat.decoding.beam import IDLE, Hypotheses, Windows
from focat.decoding.buffers import Asked, Place, Places, Size, State, sent
from focat.decoding.constraints import fewest_tokens
from focat.decoding.cuda_graphs import Repeater
from focat.decoding.linear import Int8Linear, PackedLinear, can_pack, copy_with
from focat.decoding.requests import Hypothesis, Request, Turn
from focat.decoding.scheduler import NOT_NUMBERS, Follow, Stage, kept_in_place
from focat.decoding.selection import Chooser, drawn, likeliest
from focat.errors import FocatError
from focat.hardware import memory_errors
from focat.model import EncoderOutput, Transformer, TreeKVCache
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of
from focat.windows.splitmix64 import splitmix64

_STRIDE = 2  # steps between two looks at which windows are over
_BATCH_TOKENS, _BATCH_TOKENS_GPU, _MOST_BATCH_TOKENS = 16_384, 65_536, 262_144
_BATCH_SHARE = 1 / 8  # of a GPU's memory
_BEGIN_TOKENS = 512  # of source and prefix that are read together on a CPU

_PLACES_AREA = 8  # times the tokens of a batch on a GPU, which is two or three batches that may be as long as can be


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
        self.stride = _STRIDE
        tokens = settings.batch_tokens or self._usual_batch()
        self.batch_tokens = tokens // settings.hypotheses
        """Source tokens of a batch, padding included."""
        self.places = Places(_PLACES_AREA * tokens)
        self.anterooms = Places()
        """Where sources and prefixes are read for those who then come into a place."""
        self._shared: dict[tuple[int, str], Tensor] = {}
        self.repeat = Repeater(self.device)

    def _usual_batch(self) -> int:
        """Tokens of a batch, times hypotheses: always the same for a device, lest a job be cut otherwise next time."""
        if self.device.type != "cuda":
            return _BATCH_TOKENS
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return batch_for(memory, self.models, self.settings.max_length_ratio)

    @torch.inference_mode()
    def __call__(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The n best translations of each request, in the order of the requests."""
        found: list[list[Hypothesis]] = [[] for _ in requests]
        turns = [self.turn(i, request) for i, request in enumerate(requests)]
        with self._memory_errors():
            for i, hypotheses in Stage(self, turns, None).run() if self.static else self._searched(turns):
                found[i] = hypotheses
        return found

    @torch.inference_mode()
    def chains(self, requests: Sequence[Request], follow: Follow) -> None:
        """Answer requests, and those that follow from the answers.

        `follow` is given the place of a request in the beginning, and the n best translations of it, or of what
        followed from it; it returns the next request, or None.
        """
        turns = [self.turn(i, request) for i, request in enumerate(requests)]
        with self._memory_errors():
            if self.static:
                for _ in Stage(self, turns, follow).run():
                    pass
                return
            while turns:
                found = sorted(self._searched(turns), key=lambda each: each[0])
                after = [(i, follow(i, hypotheses)) for i, hypotheses in found]
                turns = [self.turn(i, request) for i, request in after if request is not None]

    def _memory_errors(self) -> AbstractContextManager[None]:
        tokens = self.batch_tokens * self.settings.hypotheses
        return memory_errors(
            f"decoding.batch_tokens = {tokens}: does not fit into memory, or not beside what else is in it; "
            f"take fewer, say {tokens // 4}"
        )

    def turn(self, chain: int, request: Request) -> Turn:
        """What has to be known of a request to search for it."""
        closed = request.closed
        fewest = fewest_tokens(request.sentences, closed, request.opens)
        relative = int(self.settings.max_length_ratio * len(request.source)) + self.settings.max_length_offset
        limit = max(relative if request.longest is None else request.longest, fewest)
        return Turn(chain, request, limit, closed, request.left(closed))

    # -------------------------------------------------------------------------------------------- batches

    def _searched(self, turns: Sequence[Turn]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Their chains, as they are answered, and the hypotheses."""
        for batch in self._batches(turns):
            yield from self._search(batch)

    def _batches(self, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
        """Requests with about as much left to translate, as many as the budget allows; the longest windows first."""
        order = sorted(turns, key=lambda turn: turn.left, reverse=True)
        sources = [len(turn.request.source) for turn in order]
        longest = list(accumulate(reversed(sources), max))[::-1]  # from each on
        start = 0
        while start < len(order):
            end = start + max(self.batch_tokens // longest[start], 1)
            yield sorted(order[start:end], key=lambda t: len(t.request.source) + len(t.request.prefix), reverse=True)
            start = end

    def _search(self, turns: list[Turn]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The same of one batch, which shrinks as windows are over."""
        longest = max(turn.limit for turn in turns)
        state = self._begin(turns)
        steps = 1
        while True:
            stride = min(self.stride, longest - steps)
            for _ in range(stride):
                self.step(state, [None] * len(state.caches))
            steps += stride
            over = state.hypotheses.windows.over
            left = int((~over).sum())
            if left and steps == longest:
                raise FocatError(NOT_NUMBERS)
            yield from self.collected(state.hypotheses, over.nonzero()[:, 0])
            if not left:
                return
            if left < len(over):
                state = state.kept(torch.from_numpy(kept_in_place(~over.numpy())))

    def step(self, state: State, columns: Sequence[int | None]) -> None:
        """One token more; steps look at so many columns, or at those in use."""
        hypotheses = state.hypotheses
        rows = hypotheses.advance(self._logits(state.caches, hypotheses.last, columns), self._chooser(hypotheses))
        for cache in state.caches:
            cache.reorder(rows)

    def _windows(self, turns: Sequence[Turn], longest: int) -> Windows:
        beam, count = self.settings.hypotheses, len(turns)
        requests = [turn.request for turn in turns]
        return Windows(
            number=self._column([turn.chain for turn in turns])[:, 0],
            step=torch.zeros(count, 1, dtype=torch.long, device=self.device),
            limit=self._column([turn.limit for turn in turns]),
            sentences=self._column([request.sentences or 0 for request in requests]),
            closed=self._column([turn.closed for turn in turns]).repeat(1, beam),
            empty=self._column([request.opens for request in requests]).repeat(1, beam),
            lengths=torch.zeros(count, beam, dtype=torch.long, device=self.device),
            over=torch.zeros(count, dtype=torch.bool, device=self.device),
            luck=self._luck([turn.seed for turn in turns], longest),
        )

    def _hypotheses(self, windows: Windows, longest: int) -> Hypotheses:
        settings = self.settings
        return Hypotheses(windows, longest, settings.nbest, settings.length_penalty, alike=not settings.sample)

    def _column(self, values: Sequence[int]) -> Tensor:
        return sent(torch.tensor(values), self.device)[:, None]  # (windows, 1)

    def _luck(self, numbers: list[int], longest: int) -> Tensor:
        """For sampling, numbers from [0, 1) for each token, (windows, beam, longest); whatever else is in the batch."""
        if not self.settings.sample:
            return torch.zeros(len(numbers), self.settings.hypotheses, 0, device=self.device)
        bits = [
            [splitmix64(longest, self.settings.seed, number, which) for which in range(self.settings.hypotheses)]
            for number in numbers
        ]
        return sent(torch.from_numpy((np.array(bits) >> np.uint64(11)) * 2.0**-53), self.device)

    def _chooser(self, hypotheses: Hypotheses) -> Chooser:
        """How to go on; by chance, with the luck of the step that the hypotheses are at."""
        if not self.settings.sample:
            return likeliest
        temperature, top_p = self.settings.temperature, self.settings.top_p
        return lambda totals, logits, allowed: drawn(totals, logits, allowed, hypotheses.luck, temperature, top_p)

    def _begin(self, turns: list[Turn]) -> State:
        """Encode the sources, read the prefixes, and take the first step.

        A few windows at a time, so that there is little padding: what is read here is longer than what follows.
        """
        requests = [turn.request for turn in turns]
        beam, longest = self.settings.hypotheses, max(turn.limit for turn in turns)
        together = asked(requests).to(self.device)
        begun = [self._read(together.part(*few)) for few in _few_at_a_time(requests)]
        room = 1 + max(len(request.prefix) for request in requests) + beam * longest
        caches = [TreeKVCache.concatenate(parts, room) for parts in zip(*(caches for caches, _ in begun), strict=True)]
        state = State(self._hypotheses(self._windows(turns, longest), longest), caches)
        self._first_step(state.hypotheses, torch.cat([logits for _, logits in begun]))
        for cache in caches:
            cache.expand_beams(beam)
        return state

    def begin_in(self, place: Place, turns: Sequence[Turn], prefix: int) -> None:
        """The same, all at once, in a place with room for it; so many tokens of prefixes are read, PAD in front.

        Idle rows are filled up with the first window.
        """
        filled = [*turns, *(turns[0] for _ in range(place.size.windows - len(turns)))]
        hypotheses = place.hypotheses
        hypotheses.windows.become(self._windows(filled, place.size.longest))
        hypotheses.restart()
        hypotheses.rest_from(len(turns))
        place.asked.become(asked([turn.request for turn in filled], place.size.source, prefix).to(self.device))

        def begin() -> None:
            begun, logits = self._read(place.asked.part(slice(None), place.size.source, prefix))
            self._first_step(hypotheses, logits)
            for cache, read in zip(place.caches, begun, strict=True):
                cache.copy_from(read)

        self.repeat(begin, 1, place.recordings, ("begin", prefix))
        for cache in place.caches:
            cache.length = prefix  # what was replayed was not counted

    def place(self, size: Size) -> Place:
        """A new place, with nothing in it yet."""
        beam = self.settings.hypotheses
        current = torch.zeros(size.windows, dtype=torch.long, device=self.device)
        source, prefixes = (current.new_zeros(size.windows, length) for length in (size.source, size.columns))
        windows = self._windows([self.turn(IDLE, Request([END]))] * size.windows, size.longest)
        caches = []
        for model in self.models:
            side = PaddedSequences(source.clone(), source.clone(), current.clone())
            hidden = model.output_weight.new_zeros(*source.shape, model.settings.d_model)
            caches.append(model.init_cache(EncoderOutput(hidden, side, current.clone()), beam, capacity=size.columns))
        return Place(self._hypotheses(windows, size.longest), caches, size, Asked(source, current, prefixes))

    def anteroom(self, size: Size) -> Place:
        """A new place to read in. One is used at a time, so all have their keys and values in the same memory."""
        place = self.place(size)
        for i, cache in enumerate(place.caches):
            for name in ("self_kv", "cross_kv"):
                own = getattr(cache, name)
                memory = self._shared.get((i, name))
                if memory is None or memory.numel() < own.numel():
                    memory = self._shared[i, name] = own.flatten()
                setattr(cache, name, memory[: own.numel()].view_as(own))
        return place

    def _first_step(self, hypotheses: Hypotheses, logits: Tensor) -> None:
        """All hypotheses of a window begin with the same logits, (windows, 1, vocabulary)."""
        hypotheses.advance(logits.repeat(1, self.settings.hypotheses, 1), self._chooser(hypotheses))

    def _read(self, asked: Asked) -> tuple[list[TreeKVCache], Tensor]:
        """Caches of one row to a window, and logits of the first token."""
        source = PaddedSequences(asked.tokens, segments_of(asked.tokens), asked.current)
        caches = [model.init_cache(model.encode(source), capacity=asked.prefixes.shape[1]) for model in self.models]
        return caches, self._logits(caches, asked.prefixes, [None] * len(caches))

    def _logits(self, caches: list[TreeKVCache], tokens: Tensor, columns: Sequence[int | None]) -> Tensor:
        """Logits of what follows these tokens, (windows, beam, vocabulary), up to a constant; an even mix of models."""
        logits = []
        for model, project, cache, seen in zip(self.models, self.projections, caches, columns, strict=True):
            hidden = model.decode_step(cache, tokens, seen, last_only=tokens.shape[1] > 1)[:, -1]  # (rows, width)
            logits.append(project(hidden).float().view(-1, cache.beam, model.output_weight.shape[0]))
        if len(logits) == 1:
            return logits[0]
        return torch.stack([each.log_softmax(-1) for each in logits]).logsumexp(0)

    def collected(self, hypotheses: Hypotheses, which: Tensor) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The chains of these windows, (how many,), which are over, and what was found for them."""
        if not len(which):
            return
        windows, nbest = hypotheses.windows, self.settings.nbest
        lengths = windows.lengths[which, :nbest]
        longest = int(lengths.max())
        ended = hypotheses.ended.map(lambda each: each[which, :nbest])
        tokens, token_scores = (each[..., :longest].cpu().numpy() for each in (ended.tokens, ended.scores))
        few = (each.tolist() for each in (windows.number[which], lengths, ended.cut, ended.rank))
        for i, (number, *ranked) in enumerate(zip(*few, strict=True)):
            best = []
            for j, (length, cut, score) in enumerate(zip(*ranked, strict=True)):
                if score == -math.inf:
                    break
                scores = token_scores[i, j, :length].tolist()
                best.append(Hypothesis(tokens[i, j, :length].tolist(), scores, sum(scores), score, not cut))
            yield number, best


def batch_for(memory: int, models: Sequence[Transformer], max_length_ratio: float) -> int:
    """Tokens of a batch, times hypotheses, whose keys and values take an eighth of so much memory at most."""
    of_token = sum(
        2 * model.settings.decoder_layers * model.settings.d_model * model.output_weight.element_size()
        for model in models
    )
    columns = 1 + max_length_ratio  # of a source token: its own, and what is decoded, as long as it may be
    tokens = int(_BATCH_SHARE * memory / (of_token * columns))
    return min(max(tokens - tokens % _BATCH_TOKENS_GPU, _BATCH_TOKENS_GPU), _MOST_BATCH_TOKENS)


def asked(requests: Sequence[Request], source: int = 0, prefix: int = 0) -> Asked:
    """Requests side by side, their sources and prefixes at least so wide."""
    tokens = _padded([request.source for request in requests], source)
    last = segments_of(tokens).max(1)
    current = [i if r.current is None else r.current for i, r in zip(last.tolist(), requests, strict=True)]
    prefixes = _padded([[START, *request.prefix] for request in requests], prefix, front=True)
    return Asked(torch.from_numpy(tokens), torch.tensor(current), torch.from_numpy(prefixes))


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


def _padded(rows: Sequence[Sequence[int]], width: int = 0, front: bool = False) -> NDArray[np.int64]:
    """Side by side, PAD behind them or in front; at least so wide."""
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), max(width, lengths.max())), PAD, np.int64)
    column = np.arange(table.shape[1])
    real = column >= table.shape[1] - lengths[:, None] if front else column < lengths[:, None]
    table[real] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return table

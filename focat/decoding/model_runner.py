"""Runs the models: prefill, decoding steps, and the hypotheses that come out of them.

A hypothesis is scored by the log-probability of its tokens, divided by its length to the power of the length penalty.
A forced prefix is read but not scored: it is the same for all hypotheses of a window.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END
from focat.corpus.word_boundaries import WordBoundaries
from focat.decoding.beam import IDLE, BeamSearch, BeamState
from focat.decoding.buffers import BucketShape, DecodeBuffers, PrefillBatch, SearchState
from focat.decoding.constraints import min_length
from focat.decoding.cuda_graphs import CudaGraphRunner
from focat.decoding.fused_beam import advance, has_fused_beam, newest_tokens
from focat.decoding.linear import PackedLinear, can_pack, has_bfloat16, replace_linear
from focat.decoding.phrase_search import PhraseSearch, PhraseState
from focat.decoding.phrases import PhraseCompiler
from focat.decoding.requests import Hypothesis, Request, ScheduledRequest
from focat.decoding.scheduler import micro_batches, window_parts
from focat.decoding.selection import Selector, TopTokens, beam_topk, sample, within_limits
from focat.errors import FocatError, ParameterError
from focat.hardware import to_device_async
from focat.model import EncoderOutput, Transformer, TreeKVCache
from focat.model.kv_cache import CAPACITY_STEP, KVMemory
from focat.model.tree_attention import always_lists_columns
from focat.model.window_prefill import can_prefill_windows, prefill_windows
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of
from focat.windows.splitmix64 import splitmix64

_ROWS_AT_ONCE = 64  # whose logits on a CPU are made, normalised and searched while they are in the processor's cache
NAN_SCORES = "the model's scores are not numbers (NaN): take an earlier checkpoint, or train anew"

Finished = tuple[int, list[Hypothesis]]
"""The id of a request and its n best hypotheses."""


class ModelRunner:
    """One model, or an ensemble of several, with the settings of the search."""

    def __init__(
        self,
        models: Sequence[Transformer],
        settings: SearchSettings,
        boundaries: Callable[[], WordBoundaries] | None = None,
    ) -> None:
        """`boundaries`: where words begin and end, for required phrases; by default, every token is a word."""
        self.models = [model.eval() for model in models]
        self.projections: list[Callable[[Tensor], Tensor]] = [model.project for model in models]
        self.settings, self.beam = settings, settings.hypotheses
        self.device = models[0].output_weight.device
        self._find_boundaries = boundaries
        self._rows_at_once = _ROWS_AT_ONCE if self.device.type == "cpu" else None
        self._check_precision()
        if settings.int8 or all(map(can_pack, self.models)):
            replaced = [replace_linear(model, settings) for model in self.models]
            self.models, self.projections = map(list, zip(*replaced, strict=True))

    def _check_precision(self) -> None:
        on_cpu = self.device.type == "cpu"
        if self.settings.int8 and not on_cpu:
            raise FocatError("decoding.int8: only CPUs compute with eight-bit integers here; leave it out on a GPU")
        if self.settings.bfloat16 and not (on_cpu and has_bfloat16() and all(map(can_pack, self.models))):
            raise FocatError("decoding.bfloat16: only CPUs that have bfloat16 compute with it here; leave it out")

    @property
    def lists_columns(self) -> bool:
        """Whether steps read the columns of the KV cache that are seen, however many they span."""
        return all(always_lists_columns(model.settings, model.output_weight) for model in self.models)

    def with_settings(self, settings: SearchSettings) -> ModelRunner:
        """The same prepared models under other settings; `int8` and `bfloat16` stay as they are."""
        other = copy.copy(self)
        other.settings, other.beam = settings, settings.hypotheses
        return other

    def round_rows(self) -> None:
        """Multiply few different numbers of rows, for whoever shares these models; see `PackedLinear`."""
        for model, projection in zip(self.models, self.projections, strict=True):
            for module in (*model.modules(), projection):
                if isinstance(module, PackedLinear):
                    module.round_rows = True

    def schedule(self, id: int, request: Request) -> ScheduledRequest:
        """Work out what scheduling needs to know about a request."""
        closed, empty = request.prefix_sentences, request.starts_sentence
        shortest = min_length(request.sentences, closed, empty)
        phrases = None
        if request.required:
            if self.settings.sample:
                raise ParameterError("sample", True, "samples cannot be made to contain phrases; search without it")
            segment, free = request.required_segment, request.sentences is None
            opened = free or segment == closed
            phrases = self._compiler.start(request.required, segment, request.open_sentence if opened else ())
            has_word = free or empty or not opened  # in `shortest`
            shortest += phrases.need - (has_word and phrases.need > 0)
        relative = int(self.settings.max_length_ratio * len(request.source)) + self.settings.max_length_offset
        max_length = max(relative if request.max_length is None else request.max_length, shortest)
        return ScheduledRequest(id, request, max_length, request.remaining_source(), phrases)

    # ------------------------------------------------------------------------------------------------ prefill

    def prefill(self, requests: Sequence[ScheduledRequest], memory: Sequence[KVMemory]) -> SearchState:
        """Encode the sources, read the prefixes, and decode the first token.

        Args:
            requests: sorted by `read_length`; micro-batches of them are read together, so that there is little padding.
            memory: for the keys and values of each model.
        """
        plain = [scheduled.request for scheduled in requests]
        max_length = max(scheduled.max_length for scheduled in requests)
        batch = PrefillBatch.collate(plain).to(self.device)
        columns = 1 + max(len(request.prefix) for request in plain) + self.beam * min(max_length, CAPACITY_STEP)
        caches, hidden = self._read_all(requests, batch, columns, memory)
        phrases = self._initial_phrases(requests) if any(scheduled.phrases for scheduled in requests) else None
        search = self._new_search(self._initial_state(requests, max_length), max_length, phrases)
        state = SearchState(search, caches)
        self._advance(search, hidden)
        for cache in caches:
            cache.expand_beams(self.beam)
        return state

    def prefill_into(
        self, buffers: DecodeBuffers, requests: Sequence[ScheduledRequest], prefix: int, run: CudaGraphRunner
    ) -> None:
        """The same in static buffers, all requests at once, their prefixes padded to `prefix` tokens.

        Rows without a request are idle; they are filled up with the first one.
        """
        filled = [*requests, *(requests[0] for _ in range(buffers.shape.windows - len(requests)))]
        search, shape = buffers.search, buffers.shape
        search.state.copy_(self._initial_state(filled, shape.max_length))
        if search.phrases:
            search.phrases.phrases.copy_(self._initial_phrases(filled, shape.phrases).phrases)
        search.reset()
        search.mark_idle_from(len(requests))
        batch = PrefillBatch.collate([scheduled.request for scheduled in filled], shape.source, prefix)
        buffers.inputs.copy_(batch.to(self.device))

        def work() -> None:
            caches, hidden = self._read(buffers.inputs.view(slice(None), shape.source, prefix))
            self._advance(search, hidden)
            for cache, read in zip(buffers.caches, caches, strict=True):
                cache.copy_from(read)

        run(work, 1, buffers.graphs, ("prefill", prefix))
        for cache in buffers.caches:
            cache.length = prefix  # a replay does not count

    def allocate_buffers(self, shape: BucketShape) -> DecodeBuffers:
        """New static buffers with idle rows."""
        current = torch.zeros(shape.windows, dtype=torch.long, device=self.device)
        source, prefixes = (current.new_zeros(shape.windows, length) for length in (shape.source, shape.columns))
        idle = [self.schedule(IDLE, Request([END]))] * shape.windows
        state = self._initial_state(idle, shape.max_length)
        phrases = self._initial_phrases(idle, shape.phrases) if shape.phrases else None
        caches = []
        for model in self.models:
            side = PaddedSequences(source.clone(), source.clone(), current.clone())
            hidden = model.output_weight.new_zeros(*source.shape, model.settings.d_model)
            caches.append(
                model.init_cache(
                    EncoderOutput(hidden, side, current.clone(), hidden), self.beam, capacity=shape.columns
                )
            )
        search = self._new_search(state, shape.max_length, phrases)
        return DecodeBuffers(search, caches, shape, PrefillBatch(source, current, prefixes))

    def _read_all(
        self, requests: Sequence[ScheduledRequest], batch: PrefillBatch, columns: int, memory: Sequence[KVMemory]
    ) -> tuple[list[TreeKVCache], list[Tensor]]:
        """The results of `_read`, some windows at a time; caches have so many columns."""
        if all(map(can_prefill_windows, self.models)):
            source = PaddedSequences(batch.tokens, segments_of(batch.tokens), batch.current)
            windows = list(window_parts(requests))
            found = [
                prefill_windows(model, source, batch.prefixes, windows, columns, own)
                for model, own in zip(self.models, memory, strict=True)
            ]
            return [cache for cache, _ in found], [hidden for _, hidden in found]
        parts = [self._read(batch.view(*part)) for part in micro_batches(requests)]
        read = zip(*(part[0] for part in parts), strict=True)
        caches = [TreeKVCache.concatenate(each, columns, own) for each, own in zip(read, memory, strict=True)]
        return caches, [torch.cat(of_model) for of_model in zip(*(part[1] for part in parts), strict=True)]

    def _read(self, batch: PrefillBatch) -> tuple[list[TreeKVCache], list[Tensor]]:
        """KV caches with one hypothesis to a window, and what predicts the first token, (windows, d_model) each."""
        source = PaddedSequences(batch.tokens, segments_of(batch.tokens), batch.current)
        caches = [model.init_cache(model.encode(source), capacity=batch.prefixes.shape[1]) for model in self.models]
        return caches, self._decode(caches, batch.prefixes, [None] * len(caches))

    # ------------------------------------------------------------------------------------------------ steps

    def step(self, state: SearchState, columns: Sequence[int | None] | None = None) -> None:
        """Decode one token; attention spans so many columns of each model's cache, or those in use if not given."""
        search = state.search
        hidden = self._decode(state.caches, newest_tokens(search), columns or [None] * len(state.caches))
        self._advance(search, hidden, state.caches)

    def _decode(self, caches: list[TreeKVCache], tokens: Tensor, columns: Sequence[int | None]) -> list[Tensor]:
        """Read the next tokens; what predicts those that follow, (rows, d_model) for each model."""
        return [
            model.decode_step(cache, tokens, span, last_only=tokens.shape[1] > 1)[:, -1]
            for model, cache, span in zip(self.models, caches, columns, strict=True)
        ]

    def _advance(self, search: BeamSearch, hidden: Sequence[Tensor], caches: Sequence[TreeKVCache] = ()) -> None:
        """Extend all hypotheses by one token, and let the rows of the caches follow them.

        `hidden` is of all hypotheses of the search, or of one to a window at its start.
        """
        windows = len(search.state.finished)
        of_windows = [of_model.view(windows, -1, of_model.shape[-1]) for of_model in hidden]
        if has_fused_beam(search) and not self.settings.sample:
            advance(search, self._top_tokens(of_windows), caches)
            return
        rows = search.advance(self._selector(search, of_windows))
        for cache in caches:
            cache.reorder(rows)

    def _selector(self, search: BeamSearch, of_windows: Sequence[Tensor]) -> Selector:
        """Chooses the next tokens, from (windows, hypotheses, d_model) of each model."""
        settings = self.settings
        if not search.phrases and not settings.sample:
            return within_limits(partial(beam_topk, self._top_tokens(of_windows).expand_beams(self.beam)))
        logits = self._logits(of_windows).float().repeat(1, self.beam // of_windows[0].shape[1], 1)
        if search.phrases:
            return partial(search.phrases.select, logits)
        return within_limits(partial(sample, logits, search.uniforms, settings.temperature, settings.top_p))

    def _top_tokens(self, hidden: Sequence[Tensor]) -> TopTokens:
        """The 2 · beam most probable tokens after each (windows, hypotheses, d_model), some windows at a time."""
        windows, hypotheses, _ = hidden[0].shape
        some = max(self._rows_at_once // hypotheses, 1) if self._rows_at_once else windows
        parts = zip(*(torch.split(of_model, some) for of_model in hidden), strict=True)
        return TopTokens.concatenate([TopTokens.of(self._logits(part), 2 * self.beam) for part in parts])

    def _logits(self, hidden: Sequence[Tensor]) -> Tensor:
        """Logits of the next token, (windows, hypotheses, vocabulary), up to a constant; models are averaged evenly."""
        logits = [project(of_model) for project, of_model in zip(self.projections, hidden, strict=True)]
        if len(logits) == 1:
            return logits[0]
        return torch.stack([of_model.float().log_softmax(-1) for of_model in logits]).logsumexp(0)

    # ------------------------------------------------------------------------------------------------ state

    @cached_property
    def _compiler(self) -> PhraseCompiler:
        """What compiles phrases; the boundaries of words are asked for with the first of them."""
        size = self.models[0].output_weight.shape[0]
        everywhere = WordBoundaries(np.ones(size, np.bool_), np.ones(size, np.bool_))
        return PhraseCompiler(self._find_boundaries() if self._find_boundaries else everywhere)

    @cached_property
    def _boundaries(self) -> list[Tensor]:
        known = self._compiler.boundaries
        return [torch.from_numpy(each).to(self.device) for each in (known.before, known.after)]

    def _initial_state(self, requests: Sequence[ScheduledRequest], max_length: int) -> BeamState:
        numbers = torch.tensor(
            [
                (each.id, each.max_length, request.sentences or 0, request.prefix_sentences, request.starts_sentence)
                for each in requests
                for request in [each.request]
            ]
        )
        # one copy to the device for all; (windows, 1) each
        ids, max_lengths, sentences, closed, empty = to_device_async(numbers.T.contiguous(), self.device)[..., None]
        zeros = torch.zeros_like(ids)
        return BeamState(
            request_id=ids[:, 0],
            step=zeros,
            max_length=max_lengths,
            sentences=sentences,
            closed=closed.repeat(1, self.beam),
            empty=(empty > 0).repeat(1, self.beam),
            lengths=zeros.repeat(1, self.beam),
            finished=zeros[:, 0] > 0,
            uniforms=self._uniforms([scheduled.sampling_seed for scheduled in requests], max_length),
        )

    def _initial_phrases(self, requests: Sequence[ScheduledRequest], size: int | None = None) -> PhraseSearch:
        state = PhraseState.collate([scheduled.phrases for scheduled in requests], self.beam, size)
        return PhraseSearch(state.map(lambda values: to_device_async(values, self.device)), *self._boundaries)

    def _new_search(self, state: BeamState, max_length: int, phrases: PhraseSearch | None) -> BeamSearch:
        settings = self.settings
        single_start = not settings.sample
        return BeamSearch(state, max_length, settings.nbest, settings.length_penalty, single_start, phrases)

    def _uniforms(self, seeds: list[int], max_length: int) -> Tensor:
        """Random numbers from [0, 1) for sampling, (windows, beam, max length), a function of each request's seed."""
        if not self.settings.sample:
            return torch.zeros(len(seeds), self.beam, 0, device=self.device)
        bits = [[splitmix64(max_length, self.settings.seed, seed, i) for i in range(self.beam)] for seed in seeds]
        return to_device_async(torch.from_numpy((np.array(bits) >> np.uint64(11)) * 2.0**-53), self.device)

    def collect(self, search: BeamSearch, rows: Tensor) -> list[Finished]:
        """The results of these rows, (count,), whose windows are finished."""
        if not len(rows):
            return []
        state, nbest = search.state, self.settings.nbest
        lengths = state.lengths[rows, :nbest]
        longest = int(lengths.max())
        ended = search.ended.map(lambda values: values[rows, :nbest])
        tokens, token_scores = (values[..., :longest].cpu().numpy() for values in (ended.tokens, ended.scores))
        others = (values.tolist() for values in (state.request_id[rows], lengths, ended.truncated, ended.rank))
        finished = []
        for i, (id, *ranked) in enumerate(zip(*others, strict=True)):
            best = []
            for j, (length, truncated, score) in enumerate(zip(*ranked, strict=True)):
                if score == -math.inf:
                    break
                scores = token_scores[i, j, :length].tolist()
                best.append(Hypothesis(tokens[i, j, :length].tolist(), scores, sum(scores), score, truncated))
            finished.append((id, best))
        return finished

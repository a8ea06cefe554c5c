"""The decoding engine: submit requests, step, take the results (section 4 of the paper).

    engine = Engine([model], SearchSettings(beam=4))
    engine([Request(source), …])                       # a list of requests, decoded to the end

    engine.submit(Request(source))
    while not engine.idle:
        for id, hypotheses in engine.step():           # more requests may be submitted at any time
            …

Results do not depend on which requests are decoded together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from threading import Event

import torch

from focat.config.schema import SearchSettings
from focat.corpus.word_boundaries import WordBoundaries
from focat.decoding.continuous_batching import ContinuousBatching
from focat.decoding.model_runner import NAN_SCORES, Finished, ModelRunner
from focat.decoding.requests import Hypothesis, Request, ScheduledRequest
from focat.decoding.scheduler import compaction_order, worker_batches, workers_for
from focat.decoding.workers import map_in_workers, max_workers
from focat.errors import FocatError
from focat.hardware import memory_errors
from focat.model import Transformer
from focat.model.kv_cache import KVMemory
from focat.model.two_pass import TwoPassTransformer

_STRIDE = 2  # steps between two checks of which windows are finished, for which a GPU has to stop
_PRUNE = 8  # the KV cache is pruned when one in so many of its columns is free
_BATCH_TOKENS, _BATCH_TOKENS_GPU, _MAX_BATCH_TOKENS = 32_768, 65_536, 262_144
_BATCH_SHARE = 1 / 8  # of a GPU's memory


class Engine:
    """Decodes windows with one model, or an ensemble of several; the n best hypotheses of each, the best first.

    It is for one thread at a time.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        settings: SearchSettings,
        static: bool | None = None,
        stride: int = _STRIDE,
        boundaries: Callable[[], WordBoundaries] | None = None,
    ) -> None:
        """Prepare the models.

        Args:
            static: decode in static buffers with captured CUDA graphs; by default, on a GPU.
            stride: steps between two checks of which windows are finished, in static buffers.
            boundaries: finds where words begin and end in the target, for required phrases; by default, every token is
                a word.
        """
        self._use(ModelRunner(models, settings, boundaries), static, stride)

    def _use(self, runner: ModelRunner, static: bool | None, stride: int) -> None:
        self._runner, self._stride = runner, stride
        self.models, settings, device = runner.models, runner.settings, runner.device
        ratio = settings.max_length_ratio
        self._tokens = settings.batch_tokens or default_batch_tokens(_memory(device), self.models, ratio)
        self.batch_tokens = self._tokens // settings.hypotheses
        """Source tokens of a batch, padding included."""
        one_pass = not any(isinstance(model, TwoPassTransformer) for model in runner.models)  # a draft has any length
        self.static = device.type == "cuda" and one_pass if static is None else static
        """Whether slots of finished windows are refilled while others are still being decoded."""
        self.batching: ContinuousBatching | SortedBatching = (
            ContinuousBatching(self._runner, self.batch_tokens, stride)
            if self.static
            else SortedBatching(self._runner, self.batch_tokens)
        )
        self._next_id = 0

    def with_settings(self, settings: SearchSettings) -> Engine:
        """Another engine over the same prepared weights; `int8` and `bfloat16` stay as they are."""
        other = copy.copy(self)
        other._use(self._runner.with_settings(settings), self.static, self._stride)
        return other

    def keep_memory_flat(self) -> None:
        """Let a process that lasts use no more memory than after its first minutes, for a tenth more time in products.

        It holds for all engines over the same weights; see `decoding.linear.PackedLinear`.
        """
        self._runner.round_rows()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or being decoded."""
        return self.batching.idle

    def submit(self, request: Request) -> int:
        """Queue a request; returns the id under which `step` will return its result."""
        id = self._next_id
        self._next_id += 1
        self.batching.add(self._runner.schedule(id, request))
        return id

    def step(self) -> list[Finished]:
        """Do some of the work, and return the requests that have finished since: ids and hypotheses.

        On a CPU, that is all requests that are queued. On a GPU, it is a few tokens of those in the current buffers.

        Raises:
            FocatError: out of memory, or the model's scores are NaN; all requests are dropped.
        """
        return self._step(refill=True)

    def __call__(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The n best hypotheses of each request, in the order of the requests."""
        if not self.idle:
            raise RuntimeError("other requests are being decoded: take their results first")
        # without a seed of its own, a request is sampled by its index
        numbered = [replace(r, seed=i) if r.seed is None else r for i, r in enumerate(requests)]
        ids = [self.submit(request) for request in numbered]
        found: dict[int, list[Hypothesis]] = {}
        while not self.idle:
            found.update(self._step(refill=False))
        return [found[id] for id in ids]

    @torch.inference_mode()
    def _step(self, refill: bool) -> list[Finished]:
        try:
            with memory_errors(
                f"decoding.batch_tokens = {self._tokens}: does not fit into memory, or not beside what else is in it; "
                f"take fewer, say {self._tokens // 4}"
            ):
                return self.batching.step(refill)
        except BaseException:
            self.batching.reset()
            raise


class SortedBatching:
    """Decodes requests on a CPU, in batches of similar length that shrink as windows finish, several at a time."""

    def __init__(self, runner: ModelRunner, batch_tokens: int) -> None:
        self._runner, self._batch_tokens = runner, batch_tokens
        self._queue: list[ScheduledRequest] = []
        self._free_memory: list[list[KVMemory]] = []  # one for each worker, with one for each model

    @property
    def idle(self) -> bool:
        """Whether nothing is queued."""
        return not self._queue

    def add(self, scheduled: ScheduledRequest) -> None:
        """Queue a request."""
        self._queue.append(scheduled)

    def reset(self) -> None:
        """Drop everything that is queued, and the memory of what may have been too large."""
        self._queue, self._free_memory = [], []

    def step(self, refill: bool) -> list[Finished]:
        """Decode all queued requests; their results, in the order of ids."""
        queue, self._queue = self._queue, []
        workers = workers_for(len(queue), max_workers())
        found = map_in_workers(self._search, worker_batches(queue, self._batch_tokens, workers), workers)
        return sorted(chain(*found), key=lambda result: result[0])

    def _search(self, batch: list[ScheduledRequest], stopped: Event) -> list[Finished]:
        """Decode one batch to its end, or until it is stopped."""
        try:
            memory = self._free_memory.pop()
        except IndexError:  # not asked before: other workers pop, too
            memory = [KVMemory() for _ in self._runner.models]
        try:
            return self._search_in(memory, batch, stopped)
        finally:
            self._free_memory.append(memory)

    def _search_in(self, memory: list[KVMemory], batch: list[ScheduledRequest], stopped: Event) -> list[Finished]:
        max_length = max(scheduled.max_length for scheduled in batch)
        state = self._runner.prefill(batch, memory)
        found: list[Finished] = []
        steps = 1
        while True:
            finished = state.search.state.finished
            found += self._runner.collect(state.search, finished.nonzero()[:, 0])
            if finished.all() or stopped.is_set():
                return found
            if steps == max_length:
                raise FocatError(NAN_SCORES)
            if finished.any():
                state = state.keep(torch.from_numpy(compaction_order(~finished.cpu().numpy())))
            for cache in state.caches:
                cache.prune(cache.length // _PRUNE)
            self._runner.step(state)
            steps += 1


def _memory(device: torch.device) -> int | None:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def default_batch_tokens(memory: int | None, models: Sequence[Transformer], max_length_ratio: float) -> int:
    """Tokens of a batch, times hypotheses; always the same for a device, so that a job resumes with equal batches.

    On a GPU, keys and values of a batch take at most an eighth of its memory, in bytes; None is a CPU.
    """
    if memory is None:
        return _BATCH_TOKENS
    bytes_per_token = sum(
        2 * model.settings.decoder_layers * model.settings.d_model * model.output_weight.element_size()
        for model in models
    )
    columns = 1 + max_length_ratio  # for each source token: its own, and as many as may be decoded
    tokens = int(_BATCH_SHARE * memory / (bytes_per_token * columns))
    return min(max(tokens - tokens % _BATCH_TOKENS_GPU, _BATCH_TOKENS_GPU), _MAX_BATCH_TOKENS)

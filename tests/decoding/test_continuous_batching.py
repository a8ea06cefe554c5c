"""Windows decoded in static buffers with refilled slots, as on a GPU, get the results of being decoded alone.

These tests run the GPU's path on a CPU, where a captured graph is the work itself or a trace of it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.decoding import continuous_batching, scheduler
from focat.decoding.buffers import round_to_bucket
from focat.decoding.continuous_batching import ContinuousBatching
from focat.decoding.cuda_graphs import Work
from focat.decoding.engine import Engine
from focat.decoding.requests import Hypothesis, Request
from focat.model import Transformer
from tests.decoding.slow_search import small
from tests.decoding.test_engine import source, tokens_of

SETTINGS: list[dict[str, Any]] = [{"nbest": 3}, {"beam": 1}, {"sample": True, "nbest": 2, "top_p": 0.9}]


def requests(count: int, seed: int = 0) -> list[Request]:
    """With and without prefixes and required numbers of sentences, of many lengths."""
    made = []
    for k in range(seed, seed + count):
        lengths = [1 + (k * 7 + j) % 5 for j in range(1 + k % 3)]
        prefix = [9, 8, SEPARATOR, *([7] if k % 5 == 0 else [])] if k % 3 and k % 2 else []
        sentences = len(lengths) if k % 4 else None
        made.append(Request(source(*lengths, words=30, seed=k), prefix, sentences, max_length=3 + 4 * (k % 6), seed=k))
    return made


def batching_of(engine: Engine) -> ContinuousBatching:
    assert isinstance(engine.batching, ContinuousBatching)
    return engine.batching


def static_engine(models: list[Transformer], stride: int = 3, **settings: Any) -> Engine:
    """An engine that decodes as on a GPU; a captured graph is the work itself."""
    engine = Engine(models, SearchSettings(**settings), static=True, stride=stride)
    batching_of(engine).graphs.capture = lambda work: work
    return engine


def tensors_in(thing: object) -> Iterator[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | dict):
        for each in thing.values() if isinstance(thing, dict) else thing:
            yield from tensors_in(each)
    elif type(thing).__module__.startswith("focat") and hasattr(thing, "__dict__"):
        yield from tensors_in(vars(thing))


def buffers_of(engine: Engine) -> list[torch.Tensor]:
    """All tensors of the engine's buffers."""
    batching = batching_of(engine)
    return list(tensors_in([*batching.pool, *batching.prefill_pool]))


def assert_same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert tokens_of(found) == tokens_of(wanted)
    for here, there in zip(found, wanted, strict=True):
        for mine, theirs in zip(here, there, strict=True):
            assert mine.token_scores == pytest.approx(theirs.token_scores, abs=1e-5)
            assert (mine.score, mine.truncated) == (pytest.approx(theirs.score, abs=1e-5), theirs.truncated)


def tracing(engine: Engine) -> Callable[[Work], Work]:
    """Captures as a GPU does it: the very operations, on the very tensors; they do not run yet."""

    def capture(work: Work) -> Work:
        before = [(tensor, tensor.clone()) for tensor in buffers_of(engine)]
        graph: Work = make_fx(work)()
        for tensor, was in before:
            tensor.copy_(was)
        return graph

    return capture


@pytest.fixture
def eager_to_downsize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_batching, "_DOWNSIZE_MIN_ROWS", 0)
    monkeypatch.setattr(continuous_batching, "_DOWNSIZE_MIN_STEPS", 1)
    monkeypatch.setattr(continuous_batching, "_COLUMNS_MULTIPLE", 16)
    monkeypatch.setattr(scheduler, "_PREFILL_MULTIPLE", 4)
    monkeypatch.setattr(scheduler, "_PREFILL_WINDOWS", (1, 4))


def count_calls(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """The names of the methods of ContinuousBatching that are called, in order."""
    calls: list[str] = []
    for name in names:
        method = getattr(ContinuousBatching, name)
        monkeypatch.setattr(
            ContinuousBatching, name, lambda *each, name=name, method=method: calls.append(name) or method(*each)
        )
    return calls


@pytest.mark.usefixtures("eager_to_downsize")
@pytest.mark.parametrize(
    ("settings", "ensemble"), [(SETTINGS[0], 1), (SETTINGS[0], 2), (SETTINGS[1], 1), (SETTINGS[2], 1)]
)
def test_batches_of_all_sizes_one_after_the_other(
    settings: dict[str, Any], ensemble: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = {"attention": "long-short", "segment_embeddings": "learned", "scale": 2.0}
    models = [small(words=30, seed=seed, shift=seed + 2, **features) for seed in range(ensemble)]
    plain = Engine(models, SearchSettings(**settings))
    engine = static_engine(models, **settings, batch_tokens=400)
    calls = count_calls(monkeypatch, "_downsize")
    for count, seed in ((20, 0), (13, 20), (20, 40), (1, 3), (18, 60), (20, 0)):
        some = requests(count, seed)
        assert_same(engine(some), plain(some))
    assert calls
    graphs = batching_of(engine).graphs
    assert graphs.replayed > graphs.captured > 0


@pytest.mark.usefixtures("eager_to_downsize")
@pytest.mark.parametrize(
    ("settings", "features"),
    [
        *(
            (settings, {"attention": "group", "global_layers": (1,), "segment_embeddings": "one-hot"})
            for settings in SETTINGS
        ),
        (SETTINGS[0], {"attention": "gated-group", "global_layers": (1,)}),
        (SETTINGS[0], {"context": {"hierarchical": True, "of": "both"}}),
    ],
)
def test_earlier_contents_of_buffers_do_not_matter(settings: dict[str, Any], features: dict[str, Any]) -> None:
    """Not even if they were NaN."""
    models = [small(words=30, scale=2.0, **features)]
    some = requests(18)
    wanted = Engine(models, SearchSettings(**settings))(some)
    engine = static_engine(models, **settings)
    for _ in range(3):
        assert_same(engine(some), wanted)
        spoilt = buffers_of(engine)
        assert len(spoilt) >= 30
        with torch.inference_mode():
            for tensor in spoilt:
                tensor.fill_(torch.nan if tensor.is_floating_point() else 1)


@pytest.mark.parametrize("features", [{}, {"context": {"hierarchical": True, "of": "both"}}], ids=["full", "han-joint"])
def test_steps_can_be_captured(features: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU does it: the very operations, on the very tensors, whatever Python would do the next time."""
    monkeypatch.setattr(continuous_batching, "_COLUMNS_MULTIPLE", 32)
    settings = SETTINGS[2]
    model = small(words=30, scale=2.0, encoder_layers=1, decoder_layers=1, **features)
    engine = static_engine([model], **settings)
    batching = batching_of(engine)
    batching.graphs.capture = tracing(engine)
    plain = Engine([model], SearchSettings(**settings))
    for count, seed in ((18, 0), (17, 18), (16, 54)):
        some = [replace(request, max_length=9 + seed % 4) for request in requests(count, seed)]
        assert_same(engine(some), plain(some))
    [buffers] = batching.pool
    assert all(cache.length <= cache.capacity for cache in buffers.caches)
    assert 2 <= batching.graphs.captured <= 4  # prefill, and steps that attend to more and more columns


class Streams:
    """Requests that depend on the results of others, as sentences of documents do; `results` of each, in order."""

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        self.submitted = [[request] for request in requests(count)]
        self.results: list[list[list[Hypothesis]]] = [[] for _ in self.submitted]

    def decode(self, engine: Engine) -> None:
        """Drive an engine until all streams have ended."""
        streams = {engine.submit(first): i for i, [first] in enumerate(self.submitted)}
        while not engine.idle:
            for id, hypotheses in engine.step():
                stream = streams[id]
                following = self._next(stream, hypotheses)
                if following is not None:
                    self.submitted[stream].append(following)
                    streams[engine.submit(following)] = stream

    def _next(self, stream: int, hypotheses: list[Hypothesis]) -> Request | None:
        """A request whose prefix is what was decoded, and which nothing else determines."""
        self.results[stream].append(hypotheses)
        index = len(self.results[stream])
        if index > (stream * 5) % self.depth:
            return None
        [request] = requests(1, seed=100 * stream + index)
        words = [token for token in hypotheses[0].tokens if token > SEPARATOR][:6]
        prefix = [*words, SEPARATOR] if len(request.source) > 3 and SEPARATOR in request.source else []
        return replace(request, prefix=prefix, seed=1000 * stream + index)

    def assert_same_as_alone(self, plain: Engine) -> None:
        for submitted, results in zip(self.submitted, self.results, strict=True):
            assert len(submitted) == len(results)
            assert_same(results, plain(submitted))


@pytest.mark.usefixtures("eager_to_downsize")
@pytest.mark.parametrize(
    ("settings", "ensemble", "budget"),
    [(SETTINGS[0], 1, 300), (SETTINGS[0], 2, 900), (SETTINGS[1], 1, 75), (SETTINGS[2], 1, 300)],
)
def test_free_slots_are_refilled_from_the_queue(
    settings: dict[str, Any], ensemble: int, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every result is that of the request alone, whatever else was in the buffers and whoever had its slot before."""
    features = {"attention": "long-short", "segment_embeddings": "learned", "scale": 2.0}
    models = [small(words=30, seed=seed, shift=seed + 2, **features) for seed in range(ensemble)]
    calls = count_calls(monkeypatch, "_fill_free_slots", "_compact_cache", "_downsize")
    streams = Streams(count=16, depth=6)
    streams.decode(static_engine(models, **settings, batch_tokens=budget))
    streams.assert_same_as_alone(Engine(models, SearchSettings(**settings)))
    assert calls.count("_fill_free_slots") >= 3
    assert set(calls) == {"_fill_free_slots", "_compact_cache", "_downsize"}


def test_dependent_requests_on_a_cpu() -> None:
    plain = Engine([small(words=30, scale=2.0)], SearchSettings())
    streams = Streams(count=7, depth=4)
    streams.decode(plain)
    streams.assert_same_as_alone(plain)


def test_slots_can_be_refilled_between_captured_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_batching, "_COLUMNS_MULTIPLE", 256)  # few graphs, for each takes a second here
    monkeypatch.setattr(scheduler, "_PREFILL_WINDOWS", (2, 2))
    monkeypatch.setattr(scheduler, "_PREFILL_MULTIPLE", 64)
    settings = SETTINGS[0]
    model = small(words=30, scale=2.0, encoder_layers=1, decoder_layers=1)
    engine = static_engine([model], **settings)
    graphs = batching_of(engine).graphs
    graphs.capture = tracing(engine)
    streams = Streams(count=8, depth=4)
    streams.decode(engine)
    streams.assert_same_as_alone(Engine([model], SearchSettings(**settings)))
    assert graphs.replayed > graphs.captured > 0


@pytest.mark.parametrize("count", [1, 9, 17])
def test_idle_rows_have_no_results(count: int) -> None:
    engine = static_engine([small(words=30)])
    ids = [engine.submit(request) for request in requests(count)]
    found = []
    while not engine.idle:
        found += [id for id, _ in engine.step()]
    assert sorted(found) == ids
    assert engine.step() == []
    [buffers] = batching_of(engine).pool
    assert len(buffers.search.state.finished) == round_to_bucket(count) > count - (count == 1)


def test_a_failed_capture_costs_time_and_nothing_else() -> None:
    """Out of memory: other buffers are evicted, capture is tried once more, and then decoding goes on eagerly."""
    model = small(words=30)
    short, long = requests(18), [replace(request, source=source(40, words=30)) for request in requests(3)]
    engine, attempts = static_engine([model]), []

    def fail(work: Work) -> Work:
        attempts.append(len(batching_of(engine).pool))
        raise torch.OutOfMemoryError("CUDA out of memory")

    batching_of(engine).graphs.capture = fail
    with pytest.warns(RuntimeWarning, match=r"a CUDA graph could not be captured .*out of memory") as warned:
        found = engine(long) + engine(short)
    assert len(warned) == 1
    assert_same(found, Engine([model], SearchSettings())([*long, *short]))
    assert (2, 1) in itertools.pairwise(attempts)  # two buffers at the first attempt, one at the second


def test_buffers_are_freed_with_the_engine() -> None:
    engine = Engine([small(words=30)], SearchSettings(), static=True)
    engine([Request(source(2, words=30), max_length=9)])
    [buffers] = map(weakref.ref, batching_of(engine).pool)
    del engine
    assert buffers() is None


@pytest.mark.usefixtures("eager_to_downsize")
def test_all_prefill_buffers_share_the_memory_of_keys_and_values() -> None:
    engine = static_engine([small(words=30)], beam=2)
    engine(requests(12))
    caches = [cache for buffers in batching_of(engine).prefill_pool for cache in buffers.caches]
    assert len(caches) > 2
    for name in ("self_kv", "cross_kv"):
        last = [getattr(cache, name) for cache in caches[-2:]]
        assert len({tensor.data_ptr() for tensor in last}) == 1
        largest = max(getattr(cache, name).numel() for cache in caches)
        assert last[0].untyped_storage().nbytes() == largest * last[0].element_size()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_gpu_captures_little_and_replays_much(settings: dict[str, Any]) -> None:
    model = small(words=30, scale=2.0)
    plain = Engine([model], SearchSettings(**settings))
    wanted = [plain(requests(40, seed)) for seed in range(12)]
    engine = Engine([small(words=30, scale=2.0).cuda()], SearchSettings(**settings))
    assert engine.static
    for seed in range(12):
        assert_same(engine(requests(40, seed)), wanted[seed])
    graphs = batching_of(engine).graphs
    assert graphs.captured <= 4
    assert graphs.replayed > 20 * graphs.captured

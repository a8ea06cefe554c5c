"""Several batches at the same time: the same results, every thread stopped, torch's own threads as before."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.decoding import engine as engine_module
from focat.decoding import scheduler, workers
from focat.decoding.engine import Engine
from focat.decoding.model_runner import ModelRunner
from focat.decoding.requests import Request, ScheduledRequest
from focat.decoding.scheduler import sorted_batches, worker_batches, workers_for
from focat.decoding.workers import map_in_workers, max_workers
from focat.errors import FocatError
from focat.model.kv_cache import KVMemory
from tests.decoding.slow_search import small
from tests.decoding.test_engine import source, tokens_of


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four threads of torch, and workers that need no more than two windows each."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    monkeypatch.setattr(scheduler, "_WORKER_WINDOWS", 2)
    yield
    torch.set_num_threads(before)


REQUESTS = [
    Request(source(1 + i % 4, 1 + i % 3, words=30, seed=i), sentences=2, max_length=9, prefix=[5, SEPARATOR] * (i % 2))
    for i in range(24)
]


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("settings", [{"beam": 3, "nbest": 2}, {"beam": 3, "int8": True}, {"sample": True, "seed": 3}])
def test_workers_find_what_one_thread_finds(settings: dict[str, object]) -> None:
    engine = Engine([small(words=30, scale=2.0).float()], SearchSettings(**settings))  # type: ignore[arg-type]
    found = engine(REQUESTS)
    torch.set_num_threads(1)
    assert tokens_of(found) == tokens_of(engine(REQUESTS))


@pytest.mark.usefixtures("four_threads")
def test_batches_are_decoded_in_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    prefill = ModelRunner.prefill

    def note(self: ModelRunner, requests: list[ScheduledRequest], memory: list[KVMemory]) -> object:
        seen.append((threading.get_ident(), torch.get_num_threads(), len(requests)))
        return prefill(self, requests, memory)

    monkeypatch.setattr(ModelRunner, "prefill", note)
    engine = Engine([small(words=30)], SearchSettings(beam=2))
    engine(REQUESTS)
    assert sum(windows for _, _, windows in seen) == len(REQUESTS)
    assert len(seen) == 4
    assert threading.get_ident() not in {thread for thread, _, _ in seen}
    assert {threads for _, threads, _ in seen} == {1}
    assert torch.get_num_threads() == 4
    seen.clear()
    engine(REQUESTS[:3])  # too few for two
    assert seen == [(threading.get_ident(), 4, 3)]


@pytest.mark.usefixtures("four_threads")
def test_threads_are_shared_evenly() -> None:
    threads = map_in_workers(lambda _, __: torch.get_num_threads(), [1, 2, 3, 4], workers=2)
    assert threads == [2] * 4
    with ThreadPoolExecutor(1) as pool:  # threads that begin later are as those before
        assert pool.submit(torch.get_num_threads).result() == 4
    assert map_in_workers(lambda _, __: torch.get_num_threads(), [1, 2], workers=4) == [2] * 2
    assert torch.get_num_threads() == 4
    assert map_in_workers(lambda _, __: torch.is_inference_mode_enabled(), [1, 2], workers=2) == [True] * 2


@pytest.mark.usefixtures("four_threads")
def test_an_interruption_stops_all_workers() -> None:
    told: list[bool] = []

    def work(item: int, stopped: threading.Event) -> None:
        if item == 0:
            time.sleep(0.1)  # until all are waiting
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        told.append(stopped.wait(5 if all(told) else 0))
        time.sleep(0.002)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as it may be ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            map_in_workers(work, range(200), workers=4)
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(told)
    assert 0 < len(told) < 100  # what was waiting is not begun
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("failing", [0, 3])
def test_an_error_stops_all_workers(failing: int) -> None:
    told = []

    def work(item: int, stopped: threading.Event) -> int:
        if item == failing:
            raise FocatError("no")
        told.append(stopped.wait(5))
        return item

    before = threading.active_count()
    with pytest.raises(FocatError, match="no"):
        map_in_workers(work, range(8), workers=4)
    assert all(told)
    assert threading.active_count() == before
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four_threads")
def test_a_search_that_is_stopped_does_not_go_on() -> None:
    engine = Engine([small(words=30)], SearchSettings(beam=2))
    stopped = threading.Event()
    stopped.set()
    runner = ModelRunner(engine.models, SearchSettings(beam=2))
    scheduled = [runner.schedule(i, request) for i, request in enumerate(REQUESTS)]
    assert engine.batching._search(scheduled, stopped) == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("windows", "most", "count"), [(0, 8, 1), (47, 8, 1), (48, 8, 2), (48, 1, 1), (100, 8, 4), (999, 8, 8)]
)
def test_workers_need_enough_windows(windows: int, most: int, count: int) -> None:
    assert workers_for(windows, most) == count


def test_there_are_no_more_workers_than_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MAX_WORKERS", 2)
    before = torch.get_num_threads()
    counts = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        counts.append(max_workers())
    torch.set_num_threads(before)
    assert counts == [1, 2, 2]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tokens", [12, 40, 100, 1000])
def test_workers_share_every_batch_evenly(count: int, tokens: int) -> None:
    runner = ModelRunner([small(words=30)], SearchSettings(beam=2))
    scheduled = [runner.schedule(i, request) for i, request in enumerate(REQUESTS)]
    batches = worker_batches(scheduled, tokens, count)
    assert sorted(each.id for batch in batches for each in batch) == list(range(len(REQUESTS)))
    for whole in sorted_batches(scheduled, tokens):
        dealt = min(count, len(whole))
        shares, batches = batches[:dealt], batches[dealt:]
        assert sorted(each.id for share in shares for each in share) == sorted(each.id for each in whole)
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        work = [sum(each.read_length for each in share) for share in shares]
        assert max(work) - min(work) <= max(each.read_length for each in whole)
    assert not batches


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("settings", [{"beam": 3}, {"beam": 3, "int8": True}])
def test_what_earlier_batches_left_in_memory_does_not_matter(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine([small(words=30, scale=2.0).float()], SearchSettings(**settings))  # type: ignore[arg-type]
    monkeypatch.setattr(scheduler, "_PREFILL_TOKENS_CPU", 12)  # parts of different lengths
    wanted = engine(REQUESTS)
    empty = KVMemory.empty
    monkeypatch.setattr(KVMemory, "empty", lambda *inputs: empty(*inputs).fill_(1e9))
    assert engine(REQUESTS) == wanted


def test_a_batch_that_was_not_numbers_leaves_nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask does not stop a NaN, so its memory must not be used again."""
    monkeypatch.setattr(scheduler, "_PREFILL_TOKENS_CPU", 12)  # parts of different lengths
    model = small(words=30, scale=2.0, embeddings="tied").float()
    bad = max(max(REQUESTS, key=lambda request: len(request.source)).source)
    with torch.no_grad():
        assert model.source_embedding is not None
        model.source_embedding.weight[bad] = torch.nan
    engine = Engine([model], SearchSettings(beam=3))
    others = [request for request in REQUESTS if bad not in request.source]
    wanted = engine(others)
    with pytest.raises(FocatError, match="not numbers"):
        engine(REQUESTS)
    assert engine(others) == wanted


@pytest.mark.usefixtures("four_threads")
def test_batches_have_the_memory_of_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(engine_module, "KVMemory", lambda: made.append(KVMemory()) or made[-1])
    engine = Engine([small(words=30)], SearchSettings(beam=2))
    for _ in range(3):
        engine(REQUESTS)
    assert 0 < len(made) <= 4  # workers


def test_memory_is_given_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that did not fit must not take what the next one needs."""
    engine = Engine([small(words=30)], SearchSettings(beam=2))
    engine(REQUESTS)
    kept = engine.batching._free_memory  # type: ignore[union-attr]
    [[memory]] = kept
    taken = weakref.ref(memory._tensors["self"])
    del kept, memory
    monkeypatch.setattr(ModelRunner, "step", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(FocatError, match="does not fit into memory"):
        engine(REQUESTS)
    gc.collect()
    assert taken() is None
    monkeypatch.undo()
    assert len(engine(REQUESTS)) == len(REQUESTS)


def test_memory_is_used_again() -> None:
    memory, like = KVMemory(), torch.zeros(1)
    first = memory.empty("self", like, 4, 5)
    assert memory.empty("cross", like, 4, 5).data_ptr() != first.data_ptr()
    assert memory.empty("self", like, 2, 3, 3).data_ptr() == first.data_ptr()
    larger = memory.empty("self", like, 7, 3)
    assert larger.shape == (7, 3)
    assert memory.empty("self", like, 21).data_ptr() == larger.data_ptr()

"""Batches that take turns in the same memory, as on a GPU, are translated as if each were alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.decoding import buffers as places
from focat.decoding import scheduler as stage
from focat.decoding.buffers import Place, Places, Size, rounded
from focat.decoding.engine import Searcher, batch_for
from focat.decoding.requests import Hypothesis, Request
from focat.decoding.scheduler import Stage
from focat.model import Transformer
from tests.decoding.slow_search import small
from tests.decoding.test_engine import source, tokens_of

SETTINGS: list[dict[str, Any]] = [{"nbest": 3}, {"beam": 1}, {"sample": True, "nbest": 2, "top_p": 0.9}]


def requests(count: int, seed: int = 0) -> list[Request]:
    """With and without prefixes and numbers of sentences, of many lengths."""
    made = []
    for k in range(seed, seed + count):
        lengths = [1 + (k * 7 + j) % 5 for j in range(1 + k % 3)]
        prefix = [9, 8, SEPARATOR, *([7] if k % 5 == 0 else [])] if k % 3 and k % 2 else []
        sentences = len(lengths) if k % 4 else None
        made.append(Request(source(*lengths, words=30, seed=k), prefix, sentences, longest=3 + 4 * (k % 6), number=k))
    return made


def in_places(models: list[Transformer], stride: int = 3, **settings: Any) -> Searcher:
    """A searcher that works as on a GPU; recordings are the work itself."""
    searcher = Searcher(models, SearchSettings(**settings))
    searcher.static, searcher.stride = True, stride
    return searcher


def tensors_in(thing: object) -> Iterator[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | dict):
        for each in thing.values() if isinstance(thing, dict) else thing:
            yield from tensors_in(each)
    elif isinstance(thing, Places | Place) or type(thing).__module__.startswith("focat"):
        yield from tensors_in(vars(thing))


def assert_same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert tokens_of(found) == tokens_of(wanted)
    for here, there in zip(found, wanted, strict=True):
        for mine, theirs in zip(here, there, strict=True):
            assert mine.token_scores == pytest.approx(theirs.token_scores, abs=1e-5)
            assert (mine.score, mine.finished) == (pytest.approx(theirs.score, abs=1e-5), theirs.finished)


def recorder(searcher: Searcher) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Records as a GPU does it: the very operations, on the very tensors; they do not run yet."""

    def recorded(work: Callable[[], None]) -> Callable[[], None]:
        before = [(tensor, tensor.clone()) for tensor in tensors_in([searcher.places, searcher.anterooms])]
        graph = make_fx(work)()
        for tensor, was in before:
            tensor.copy_(was)
        return graph

    return recorded


@pytest.fixture
def eager_to_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_SHRINK_ROWS", 0)
    monkeypatch.setattr(stage, "_SHRINK_STEPS", 1)
    monkeypatch.setattr(stage, "_COLUMNS", 16)
    monkeypatch.setattr(stage, "_GRAIN", 4)
    monkeypatch.setattr(stage, "_READ_WINDOWS", (1, 4))


@pytest.mark.usefixtures("eager_to_shrink")
@pytest.mark.parametrize(
    ("settings", "ensemble"), [(SETTINGS[0], 1), (SETTINGS[0], 2), (SETTINGS[1], 1), (SETTINGS[2], 1)]
)
def test_batches_of_all_sizes_one_after_the_other(
    settings: dict[str, Any], ensemble: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = {"attention": "long-short", "segment_embeddings": "learned", "scale": 2.0}
    models = [small(words=30, seed=seed, shift=seed + 2, **features) for seed in range(ensemble)]
    plain = Searcher(models, SearchSettings(**settings))
    searcher = in_places(models, **settings, batch_tokens=400)
    moves: list[int] = []
    moved = Stage._moved
    monkeypatch.setattr(Stage, "_moved", lambda *each: moves.append(1) or moved(*each))
    for count, seed in ((20, 0), (13, 20), (20, 40), (1, 3), (18, 60), (20, 0)):
        asked = requests(count, seed)
        assert_same(searcher(asked), plain(asked))
    assert moves
    assert searcher.repeat.replayed > searcher.repeat.recorded > 0


@pytest.mark.usefixtures("eager_to_shrink")
@pytest.mark.parametrize("settings", SETTINGS)
def test_what_a_place_held_before_does_not_matter(settings: dict[str, Any]) -> None:
    """Not even if it was not a number."""
    models = [small(words=30, scale=2.0, attention="group", global_layers=(1,), segment_embeddings="one-hot")]
    asked = requests(18)
    wanted = Searcher(models, SearchSettings(**settings))(asked)
    searcher = in_places(models, **settings)
    for _ in range(3):
        assert_same(searcher(asked), wanted)
        spoilt = list(tensors_in([searcher.places, searcher.anterooms]))
        assert len(spoilt) >= 30
        with torch.inference_mode():
            for tensor in spoilt:
                tensor.fill_(torch.nan if tensor.is_floating_point() else 1)


def test_steps_can_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU does it: the very operations, on the very tensors, without a look at what Python would do next time."""
    monkeypatch.setattr(stage, "_COLUMNS", 32)
    settings = SETTINGS[2]
    model = small(words=30, scale=2.0, encoder_layers=1, decoder_layers=1)
    searcher = in_places([model], **settings)

    searcher.repeat.record = recorder(searcher)
    plain = Searcher([model], SearchSettings(**settings))
    for count, seed in ((18, 0), (17, 18), (16, 54)):
        asked = [replace(request, longest=9 + seed % 4) for request in requests(count, seed)]
        assert_same(searcher(asked), plain(asked))
    [place] = searcher.places._kept.values()
    assert all(cache.length <= cache.capacity for cache in place.caches)
    assert 2 <= searcher.repeat.recorded <= 4  # how it begins, and steps that look at more and more columns


class Chains:
    """Requests that follow from the answers to others, as sentences of documents do; `answers` of each, in order."""

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        self.first = requests(count)
        self.asked = [[request] for request in self.first]
        self.answers: list[list[list[Hypothesis]]] = [[] for _ in self.first]

    def follow(self, chain: int, hypotheses: list[Hypothesis]) -> Request | None:
        """What was decoded becomes the prefix of a request that nothing else determines."""
        self.answers[chain].append(hypotheses)
        place = len(self.answers[chain])
        if place > (chain * 5) % self.depth:
            return None
        [request] = requests(1, seed=100 * chain + place)
        words = [token for token in hypotheses[0].tokens if token > SEPARATOR][:6]
        prefix = [*words, SEPARATOR] if len(request.source) > 3 and SEPARATOR in request.source else []
        request = replace(request, prefix=prefix, number=1000 * chain + place)
        self.asked[chain].append(request)
        return request


@pytest.mark.usefixtures("eager_to_shrink")
@pytest.mark.parametrize(
    ("settings", "ensemble", "budget"),
    [(SETTINGS[0], 1, 300), (SETTINGS[0], 2, 900), (SETTINGS[1], 1, 75), (SETTINGS[2], 1, 300)],
)
def test_who_waits_is_given_the_rows_that_are_free(
    settings: dict[str, Any], ensemble: int, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer is that to the request alone, whatever else was in the place and whoever had its row before."""
    features = {"attention": "long-short", "segment_embeddings": "learned", "scale": 2.0}
    models = [small(words=30, seed=seed, shift=seed + 2, **features) for seed in range(ensemble)]
    happened: list[str] = []
    for name in ("_admit", "_slide", "_moved"):
        done = getattr(Stage, name)
        monkeypatch.setattr(Stage, name, lambda *each, name=name, done=done: happened.append(name) or done(*each))
    searcher = in_places(models, **settings, batch_tokens=budget)
    plain = Searcher(models, SearchSettings(**settings))
    chains = Chains(count=16, depth=6)
    searcher.chains(chains.first, chains.follow)
    for asked, answers in zip(chains.asked, chains.answers, strict=True):
        assert len(asked) == len(answers)
        assert_same(answers, plain(asked))
    assert happened.count("_admit") >= 5
    assert set(happened) == {"_admit", "_slide", "_moved"}


def test_chains_without_places() -> None:
    model = small(words=30, scale=2.0)
    plain = Searcher([model], SearchSettings())
    chains = Chains(count=7, depth=4)
    plain.chains(chains.first, chains.follow)
    for asked, answers in zip(chains.asked, chains.answers, strict=True):
        assert_same(answers, plain(asked))


def test_rows_can_be_given_away_between_recorded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_READ_WINDOWS", (2, 2)), ("_GRAIN", 64), ("_COLUMNS", 256)):
        monkeypatch.setattr(stage, name, value)  # few recordings, for each takes a second here
    settings = SETTINGS[0]
    model = small(words=30, scale=2.0, encoder_layers=1, decoder_layers=1)
    searcher = in_places([model], **settings)
    searcher.repeat.record = recorder(searcher)
    chains = Chains(count=8, depth=4)
    searcher.chains(chains.first, chains.follow)
    plain = Searcher([model], SearchSettings(**settings))
    for asked, answers in zip(chains.asked, chains.answers, strict=True):
        assert_same(answers, plain(asked))
    assert searcher.repeat.replayed > searcher.repeat.recorded > 0


@pytest.mark.parametrize("count", [1, 9, 17])
def test_idle_rows_are_not_reported(count: int) -> None:
    searcher = in_places([small(words=30)])
    with torch.inference_mode():
        turns = [searcher.turn(i, request) for i, request in enumerate(requests(count))]
        found = [chain for chain, _ in Stage(searcher, turns, None).run()]
    assert sorted(found) == list(range(count))
    [place] = searcher.places._kept.values()
    assert len(place.hypotheses.windows.over) == rounded(count) > count - (count == 1)


def test_memory_goes_with_the_searcher() -> None:
    searcher = in_places([small(words=30)], stride=1)
    searcher([Request(source(2, words=30), longest=2)])  # too short for recordings, which here hold the work itself
    [place] = map(weakref.ref, searcher.places._kept.values())
    del searcher
    assert place() is None


def test_few_sizes() -> None:
    assert [rounded(n) for n in (1, 7, 8, 9, 16, 17, 100, 257, 300, 512)] == [1, 7, 8, 10, 16, 20, 112, 320, 320, 512]
    assert [rounded(n, 16) for n in (1, 16, 17, 100, 129)] == [16, 16, 32, 112, 160]
    assert Size.of(300, 55, 1, 70, beam=4) == Size(320, 64, 384, 80)
    assert Size.of(300, 55, 40, 30, beam=4) == Size(320, 64, 192, 32)


def test_a_place_that_fits_or_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_MOST", 3)
    kept, made = Places(room=10_000), []

    def make(size: Size) -> Any:
        made.append(size)
        return size

    large, small_, other = Size(10, 32, 64, 16), Size(2, 32, 64, 16), Size(10, 64, 64, 16)
    assert kept.near(large, make) == large
    assert kept.near(replace(large, windows=8, source=20), make) == large  # nearly as large
    assert kept.near(small_, make) == small_  # much smaller
    assert kept.near(replace(other, windows=9, columns=48), make) == other  # longer in one way: room for both
    assert kept.near(replace(large, windows=9), make) == large  # the smallest that fits
    assert made == [large, small_, other]
    assert kept.at(replace(large, windows=3), make).windows == 3
    assert len(kept) == 3
    assert kept.at(small_, make) in made[4:]  # it had been given up, as the one not used for longest
    assert kept.at(large, make) not in made[4:]
    huge = Size(100, 64, 64, 16)
    assert kept.at(huge, make) == huge
    assert len(kept) == 1  # there is no room for others


def test_places_of_before_make_way_where_memory_is_short() -> None:
    """As when another process has taken what was free a moment ago."""
    kept, sizes = Places(), [Size(windows, 32, 64, 16) for windows in (1, 2, 3)]

    def make(size: Size) -> Any:
        if len(kept) >= most:
            raise torch.OutOfMemoryError
        return size

    most = 2
    for size in sizes:
        assert kept.at(size, make) == size
    assert len(kept) == 1
    most = 0
    with pytest.raises(torch.OutOfMemoryError):  # there is no room even for one
        kept.at(sizes[0], make)


@pytest.mark.usefixtures("eager_to_shrink")
def test_all_read_in_the_same_memory() -> None:
    searcher = in_places([small(words=30)], beam=2)
    searcher(requests(12))
    rooms = [cache for room in searcher.anterooms._kept.values() for cache in room.caches]
    largest = {name: max(getattr(cache, name).numel() for cache in rooms) for name in ("self_kv", "cross_kv")}
    memory = {name: {getattr(cache, name).data_ptr() for cache in rooms[-2:]} for name in largest}
    assert len(rooms) > 2
    assert {name: len(where) for name, where in memory.items()} == {"self_kv": 1, "cross_kv": 1}
    assert [each.numel() for each in searcher._shared.values()] == list(largest.values())


def test_batches_grow_with_memory() -> None:
    """A base model in half precision keeps 2 · 6 · 512 · 2 bytes for a token, and may decode twice the source."""
    model = small(words=3, d_model=512, heads=8, d_ff=8, decoder_layers=6).bfloat16()
    tokens = {
        gigabytes: batch_for(gigabytes * 10**9, [model], max_length_ratio=2.0) for gigabytes in (8, 24, 80, 150, 1000)
    }
    assert tokens == {8: 65_536, 24: 65_536, 80: 262_144, 150: 262_144, 1000: 262_144}
    assert batch_for(80 * 10**9, [model, model], max_length_ratio=2.0) == 131_072


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_gpu_records_little_and_replays_much(settings: dict[str, Any]) -> None:
    model = small(words=30, scale=2.0)
    plain = Searcher([model], SearchSettings(**settings))
    wanted = [plain(requests(40, seed)) for seed in range(12)]
    searcher = Searcher([small(words=30, scale=2.0).cuda()], SearchSettings(**settings))
    assert searcher.static
    for seed in range(12):
        assert_same(searcher(requests(40, seed)), wanted[seed])
    assert searcher.repeat.recorded <= 4
    assert searcher.repeat.replayed > 20 * searcher.repeat.recorded

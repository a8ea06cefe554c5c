"""The kernels of beam search against plain torch: single steps of random states, and whole searches."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding import fused_beam
from focat.decoding.beam import Beams, BeamSearch, BeamState
from focat.decoding.engine import Engine
from focat.decoding.selection import TopTokens, beam_topk, within_limits
from focat.model import EncoderOutput, TreeKVCache, next_tokens
from focat.windows.batch import PaddedSequences
from tests.decoding.slow_search import small
from tests.decoding.test_continuous_batching import Streams, assert_same, requests, static_engine
from tests.kernels import DEVICE, needs_kernels

WORDS = 40


def random_search(windows: int, beam: int, size: int, seed: int, penalty: float = 1.0, nbest: int = 1) -> BeamSearch:
    """A search whose windows are anywhere: at their start, at their end, finished, with and without ends."""
    draw = torch.Generator().manual_seed(seed)

    def integers(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=draw)

    def ranks(lowest: float, missing: float) -> Tensor:
        """Sorted, some equal, some missing."""
        values = lowest * integers(0, 9, windows, beam) / 8
        values[torch.rand(windows, beam, generator=draw) < missing] = -math.inf
        return values.sort(-1, descending=True).values

    limit = integers(2, max(size, 3) + 1, windows, 1)
    step = (torch.rand(windows, 1, generator=draw) * limit.clamp(max=size)).long()
    state = BeamState(
        request_id=torch.arange(windows),
        step=step,
        max_length=limit,
        sentences=integers(0, 4, windows, 1),
        closed=integers(0, 3, windows, beam),
        empty=integers(0, 2, windows, beam).bool(),
        lengths=integers(0, size, windows, beam).clamp(max=step),
        finished=torch.rand(windows, generator=draw) < 0.2,
        uniforms=torch.zeros(windows, beam, 0),
    ).map(lambda values: values.to(DEVICE))
    search = BeamSearch(state, size, nbest, penalty, single_start=True)
    for beams, rank in ((search.live, ranks(-1, 0.2)), (search.ended, ranks(-9, 0.6))):
        scores = -torch.rand(windows, beam, size, generator=draw)
        tokens, truncated = integers(3, WORDS, windows, beam, size), integers(0, 2, windows, beam).bool()
        beams.copy_(Beams(tokens, scores, truncated, rank))
    search.live.rank[state.finished] = -math.inf
    return search


def random_top(windows: int, hypotheses: int, beam: int, seed: int) -> TopTokens:
    """Of few different probabilities, and some of zero."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 6, (windows, hypotheses, WORDS), generator=draw).float()
    logits[..., END : SEPARATOR + 1] += 2  # they often end
    logits[torch.rand(logits.shape, generator=draw) < 0.1] = -math.inf
    return TopTokens.of(logits.to(DEVICE), 2 * beam)


def random_cache(windows: int, beam: int, capacity: int, used: int, seed: int) -> TreeKVCache:
    """Without keys and values."""
    draw = torch.Generator().manual_seed(seed)
    model = small(words=5, seed=seed)
    source = torch.full((windows, 3), SPECIALS)
    encoded = EncoderOutput(
        torch.zeros(windows, 3, 16).double(),
        PaddedSequences(source, source - SPECIALS, source[:, 0] - SPECIALS),
        torch.randint(0, 5, (windows,), generator=draw),
    )
    cache = model.init_cache(encoded, beam, capacity=capacity)
    cache.ancestor_mask[..., :used] = torch.rand(windows, beam, used, generator=draw) < 0.5
    cache.lengths = torch.randint(0, 9, (windows, beam), generator=draw)
    cache.num_separators = torch.randint(0, 3, (windows, beam), generator=draw)
    for name in ("ancestor_mask", "opened_segments", "lengths", "num_separators", "write_pos", "shift", "current"):
        setattr(cache, name, getattr(cache, name).to(DEVICE))
    cache.write_pos.fill_(used)
    cache.length = used
    return cache


def stable_topk(values: Tensor, k: int, dim: int = -1, largest: bool = True) -> Any:
    """Of equal values, those of lower index."""
    found = values.sort(dim=dim, descending=largest, stable=True)
    return torch.return_types.topk((found.values[..., :k], found.indices[..., :k]))


def assert_same_search(found: BeamSearch, wanted: BeamSearch) -> Tensor:
    """All that matters of two searches is equal; returns which hypotheses go on."""
    assert torch.equal(found.state.finished, wanted.state.finished)
    assert torch.equal(found.state.step, wanted.state.step)
    goes_on = (wanted.live.rank > -math.inf) & ~wanted.state.finished[:, None]
    has_ended = wanted.ended.rank > -math.inf
    for name in ("live", "ended"):
        here, there = getattr(found, name), getattr(wanted, name)
        exists = goes_on if name == "live" else has_ended
        torch.testing.assert_close(here.rank, there.rank, rtol=1e-6, atol=0)
        assert torch.equal(here.truncated[exists], there.truncated[exists])
        lengths = wanted.state.step.expand_as(exists) if name == "live" else wanted.state.lengths
        used = exists[..., None] & (torch.arange(here.tokens.shape[2], device=exists.device) < lengths[..., None])
        assert torch.equal(here.tokens[used], there.tokens[used])
        assert torch.equal(here.scores[used], there.scores[used])
    assert torch.equal(found.state.lengths[has_ended], wanted.state.lengths[has_ended])
    for name in ("closed", "empty"):
        assert torch.equal(getattr(found.state, name)[goes_on], getattr(wanted.state, name)[goes_on])
    return goes_on


@needs_kernels
@pytest.mark.parametrize("beam", [1, 2, 3, 4, 5, 7, 16])
@pytest.mark.parametrize(("size", "penalty"), [(1, 1.0), (6, 0.0), (70, 1.0), (300, 0.6), (20, 1.5)])
def test_a_step_of_random_states(beam: int, size: int, penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many ties, candidates of no probability, and finished windows."""
    monkeypatch.setattr(torch.Tensor, "topk", stable_topk)
    windows = 12
    for seed in range(2):
        search = random_search(windows, beam, size, seed, penalty, nbest=1 + seed * (beam - 1))
        top = random_top(windows, 1 if size == 1 else beam, beam, seed)
        caches = [random_cache(windows, beam, 32 + 7 * i, 20, seed + i) for i in range(seed + 1)]
        plain, plain_caches = copy.deepcopy(search), copy.deepcopy(caches)
        fused_beam.advance(search, top, caches)
        rows = plain.advance(within_limits(partial(beam_topk, top.expand_beams(beam) if size == 1 else top)))
        goes_on = assert_same_search(search, plain)
        assert goes_on.any()
        for cache, plain_cache in zip(caches, plain_caches, strict=True):
            plain_cache.reorder(rows)
            for name in ("ancestor_mask", "lengths", "num_separators"):
                assert torch.equal(getattr(cache, name)[goes_on], getattr(plain_cache, name)[goes_on])


@needs_kernels
@pytest.mark.parametrize("beam", [2, 16, 17])
def test_what_is_not_a_number_never_finishes_a_window(beam: int) -> None:
    """Then the engine reports it. The kernel, too, is for few hypotheses."""
    search = random_search(2, beam, 2, seed=0)
    assert fused_beam.has_fused_beam(search) == (beam <= 16)
    if beam == 2:
        search.state.finished.copy_(torch.tensor([False, True]))
        search.state.step.fill_(0)
        others = [search.live.tokens[1].clone(), search.live.scores[1].clone()]
        search.ended.rank.fill_(-math.inf)
        search.live.rank.fill_(0)
        for _ in range(3):  # beyond the last column
            top = random_top(2, beam, beam, seed=0)
            top.closing.fill_(math.nan)
            top.words.fill_(math.nan)
            fused_beam.advance(search, top, [])
        assert search.state.finished.tolist() == [False, True]
        assert torch.equal(search.live.tokens[1], others[0])
        assert torch.equal(search.live.scores[1], others[1])


@needs_kernels
def test_newest_tokens() -> None:
    search = random_search(9, 3, 6, seed=1)
    assert torch.equal(fused_beam.newest_tokens(search), search.last_tokens)


@pytest.fixture
def kernels_used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that were used."""
    used: list[str] = []
    kernels = (fused_beam, "_advance"), (fused_beam, "_newest_tokens"), (next_tokens, "_append_one")
    for module, name in kernels:
        kernel = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *inputs, name=name, kernel=kernel: used.append(name) or kernel(*inputs)
        )
    return used


def plain_engine(models: list[Any], settings: SearchSettings, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that decodes without kernels, for the rest of the test."""
    for module in (fused_beam, next_tokens):
        monkeypatch.setattr(module, "runs_kernels", lambda device: False)
    return Engine([model.cpu() for model in models], settings)


@needs_kernels
@pytest.mark.parametrize(
    ("count", "settings", "features"),
    [
        (7, {"beam": 4, "nbest": 2, "length_penalty": 1.0}, {"attention": "long-short"}),
        (5, {"beam": 1, "length_penalty": 0.0}, {}),
        (6, {"beam": 3, "nbest": 3, "length_penalty": 0.6}, {"segment_embeddings": "learned"}),
        (5, {"beam": 5, "length_penalty": 1.5}, {"shift": "avg-sequence"}),
        (5, {"beam": 2, "nbest": 2}, {"context": {"hierarchical": True, "of": "both"}}),
    ],
)
def test_whole_searches(
    count: int,
    settings: dict[str, Any],
    features: dict[str, Any],
    kernels_used: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests with and without prefixes and numbers of sentences, of several lengths, some of which force the end."""
    models = [small(words=30, scale=2.0, **features).to(DEVICE)]
    engine = static_engine(models, **settings)
    some = requests(count, seed=count)
    found = engine(some)
    assert set(kernels_used) >= {"_advance", "_newest_tokens", *(() if "context" in features else ("_append_one",))}
    assert_same(found, plain_engine(models, SearchSettings(**settings), monkeypatch)(some))


@needs_kernels
def test_ensembles_whose_slots_are_refilled(kernels_used: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    models = [small(words=30, seed=seed, shift=seed + 2, scale=2.0).to(DEVICE) for seed in range(2)]
    streams = Streams(count=4, depth=4)
    streams.decode(static_engine(models, beam=3, nbest=2, batch_tokens=60))
    assert kernels_used
    streams.assert_same_as_alone(plain_engine(models, SearchSettings(beam=3, nbest=2), monkeypatch))

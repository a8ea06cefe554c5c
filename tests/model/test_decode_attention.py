"""The kernel of decoding steps: beside attention written out, by hand, and in a whole search."""

from __future__ import annotations

import math
import threading
import time
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.model import attention, decode_attention
from focat.model.attention import attend
from tests.decoding.slow_search import scored, small
from tests.decoding.test_engine import source, tokens_of

pytestmark = pytest.mark.skipif(not decode_attention.is_available(), reason="there is no C compiler")


def attend_slowly(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """One window, head and query after the other, in float64; 0 where a query sees nothing."""
    windows, heads, count, width = queries.shape
    output = torch.zeros(queries.shape, dtype=torch.float64)
    mask = mask.expand(windows, 1, count, keys.shape[2])
    for w in range(windows):
        for h in range(heads):
            for q in range(count):
                seen = mask[w, 0, q].nonzero()[:, 0].tolist()
                scores = [float(queries[w, h, q].double() @ keys[w, h, c].double()) / math.sqrt(width) for c in seen]
                weights = [math.exp(score - max(scores)) for score in scores]
                for c, weight in zip(seen, weights, strict=True):
                    output[w, h, q] += weight / sum(weights) * values[w, h, c].double()
    return output


def example(
    windows: int, heads: int, queries: int, keys: int, width: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries as they come out of a layer, keys and values as they lie in a cache with more columns than are used."""
    generator = torch.Generator().manual_seed(seed)
    qkv = torch.randn(windows, queries, 3, heads, width, generator=generator)
    cache = torch.randn(2, windows, keys + 5, heads, width, generator=generator)
    cache[:, :, keys:] = math.nan  # never to be read
    cached_keys, cached_values = cache[:, :, :keys].transpose(2, 3)
    return qkv.permute(2, 0, 3, 1, 4)[0], cached_keys, cached_values


@pytest.mark.parametrize("queries", [1, 3, 4, 5, 12])
@pytest.mark.parametrize(("heads", "keys", "width"), [(2, 1, 32), (1, 16, 64), (8, 17, 64), (3, 75, 96), (2, 33, 128)])
def test_beside_attention_written_out(heads: int, keys: int, width: int, queries: int) -> None:
    inputs = example(3, heads, queries, keys, width)
    generator = torch.Generator().manual_seed(1)
    for mask in (
        torch.rand(3, 1, queries, keys, generator=generator) < 0.5,  # branches; some queries see nothing
        torch.rand(3, 1, 1, keys, generator=generator) < 0.7,  # padding of the source
        torch.ones(1, 1, 1, 1, dtype=torch.bool).expand(3, 1, 1, keys),
    ):
        found = decode_attention.decode_attention(*inputs, mask)
        torch.testing.assert_close(found.double(), attend_slowly(*inputs, mask), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [([3, 1, 9], [3, 1, 9]), ([2, 5, 1], [7, 5, 70]), ([0, 4, 0], [1, 6, 2])])
def test_windows_in_one_row(queries: list[int], keys: list[int], causal: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, sum(of), 3, 2, 64, generator=generator)[:, :, 1].transpose(1, 2) for of in (queries, keys)]
    inputs.append(torch.randn(1, 2, sum(keys), 64, generator=generator))
    bounds = torch.tensor([[0, *accumulate(of)] for of in (queries, keys)])
    mask = decode_attention.WindowMask(bounds, causal)
    found = attend(*inputs, mask)
    for w, (count, seen) in enumerate(zip(queries, keys, strict=True)):
        here, there = (slice(*side[w : w + 2]) for side in bounds.tolist())
        of_window = inputs[0][:, :, here], inputs[1][:, :, there], inputs[2][:, :, there]
        visible = torch.ones(1, 1, count, seen, dtype=torch.bool).tril(seen - count if causal else seen)
        wanted = attend_slowly(*of_window, visible)
        torch.testing.assert_close(found[:, :, here].double(), wanted, atol=2e-6, rtol=2e-6)
    if all(queries):
        last = attend(inputs[0][:, :, mask.last_queries], *inputs[1:], mask.of_last())
        assert torch.equal(last, found[:, :, mask.last_queries])


def test_by_hand() -> None:
    """Scores ln 1 and ln 3, so weights 1/4 and 3/4; the third key is not seen."""
    queries, keys, values = torch.zeros(1, 1, 1, 32), torch.zeros(1, 1, 3, 32), torch.zeros(1, 1, 3, 32)
    queries[..., 0], keys[0, 0, 1, 0] = math.sqrt(32), math.log(3)
    values[0, 0, :, 0], values[0, 0, :, 31] = torch.tensor([4.0, 8.0, 1e9]), torch.tensor([0.0, 100.0, 1e9])
    found = decode_attention.decode_attention(queries, keys, values, torch.tensor([True, True, False]).view(1, 1, 1, 3))
    assert found[0, 0, 0, [0, 31]].tolist() == pytest.approx([7.0, 75.0])


@pytest.mark.parametrize("behind", [0.01, 0.5, 1.0, 7.0, 20.0, 50.0, 80.0])
def test_small_weights(behind: float) -> None:
    """Of a key that is so far behind, the weight is e^-behind, over 1 + e^-behind."""
    queries, keys, values = torch.zeros(1, 1, 1, 32), torch.zeros(1, 1, 2, 32), torch.zeros(1, 1, 2, 32)
    queries[..., 0], keys[0, 0, 1, 0], values[0, 0, 1] = math.sqrt(32), -behind, math.exp(behind)
    found = decode_attention.decode_attention(queries, keys, values, torch.ones(1, 1, 1, 2, dtype=torch.bool))
    assert found[0, 0, 0, 7].item() == pytest.approx(1 / (1 + math.exp(-behind)), rel=2e-6 * max(1, behind))


@pytest.mark.parametrize("size", [30.0, 1e4])
def test_large_scores(size: float) -> None:
    queries, keys, values = example(2, 2, 4, 20, 32)
    mask = torch.ones(2, 1, 4, 20, dtype=torch.bool)
    found = decode_attention.decode_attention(size * queries, keys, values, mask)
    torch.testing.assert_close(found.double(), attend_slowly(size * queries, keys, values, mask), atol=1e-4, rtol=1e-4)


def test_what_no_query_sees_changes_no_bit() -> None:
    """So that a hypothesis does not depend on how wide its batch is."""
    queries, keys, values = example(2, 2, 4, 9, 32)
    mask = torch.rand(2, 1, 4, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    places = torch.tensor([0, 1, 5, 6, 7, 20, 21, 22, 30])
    wide_keys, wide_values = (torch.full((2, 2, 40, 32), math.nan) for _ in range(2))
    wide_keys[:, :, places], wide_values[:, :, places] = keys, values
    wide_mask = torch.zeros(2, 1, 4, 40, dtype=torch.bool)
    wide_mask[..., places] = mask
    found = decode_attention.decode_attention(queries, wide_keys, wide_values, wide_mask)
    assert torch.equal(found, decode_attention.decode_attention(queries, keys, values, mask))


def test_what_lies_behind_the_last_query_is_not_read() -> None:
    """The kernel takes four queries at a time; here are three, whose tensors are parts of others."""
    queries, keys, values = example(2, 2, 8, 9, 32)
    mask = torch.ones(2, 1, 8, 9, dtype=torch.bool)
    mask[:, :, :3, 4:] = False
    keys[:, :, 4:] = values[:, :, 4:] = math.nan  # seen by queries that come after
    queries, mask = queries[:, :, :3], mask[:, :, :3]
    found = decode_attention.decode_attention(queries, keys, values, mask)
    expected = decode_attention.decode_attention(queries, keys[:, :, :4], values[:, :, :4], mask[..., :4])
    assert torch.equal(found, expected)


def test_nan_stays_nan() -> None:
    queries, keys, values = example(2, 2, 4, 9, 32)
    queries[1, 0, 2] = math.nan
    found = decode_attention.decode_attention(queries, keys, values, torch.ones(2, 1, 4, 9, dtype=torch.bool))
    assert found[1, 0, 2].isnan().all()
    assert found[0].isfinite().all()


def test_scores_that_overflow_are_no_numbers() -> None:
    """As in PyTorch, so that damaged weights are noticed: a query that sees nothing is another thing."""
    queries, keys, values = example(1, 2, 4, 9, 32)
    queries[0, 0, 2], keys[0, 0] = -3e38, 3e38
    mask = torch.ones(1, 1, 4, 9, dtype=torch.bool)
    mask[:, :, 3] = False
    found = decode_attention.decode_attention(queries, keys, values, mask)
    assert found[0, 0, 2].isnan().all()
    assert found[0, 1, :3].isfinite().all()
    assert (found[0, :, 3] == 0).all()


@pytest.mark.parametrize(
    "change",
    [
        {"queries": torch.randn(2, 2, 49, 32)},
        {"queries": torch.randn(2, 2, 4, 48), "keys": torch.randn(2, 2, 9, 48), "values": torch.randn(2, 2, 9, 48)},
        {"queries": torch.randn(2, 2, 4, 64)[..., ::2]},
        {"keys": torch.randn(2, 2, 9, 64)[..., ::2]},
        {"values": torch.randn(2, 2, 9, 64)[..., ::2]},
        {"values": torch.randn(2, 2, 9, 32, dtype=torch.bfloat16)},
        {"mask": torch.ones(2, 2, 1, 9, dtype=torch.bool)},
    ],
)
def test_what_the_kernel_is_not_made_for(change: dict[str, Tensor]) -> None:
    queries, keys, values = example(2, 2, 4, 9, 32)
    inputs = {"queries": queries, "keys": keys, "values": values, "mask": torch.ones(2, 1, 1, 9, dtype=torch.bool)}
    with torch.inference_mode():
        assert decode_attention.can_decode(**inputs)
        assert not decode_attention.can_decode(**inputs | change)
    assert not decode_attention.can_decode(**inputs)  # gradients may be needed


def test_where_pytorch_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values = example(2, 2, 4, 9, 32)
    mask = torch.rand(2, 1, 4, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 0] = True
    before, found = torch.get_num_threads(), []
    with torch.inference_mode():
        for threads in (3, 4):
            torch.set_num_threads(threads)
            found.append(decode_attention.can_decode(queries, keys, values, mask))
        torch.set_num_threads(1)
        elsewhere = (each.to("meta") for each in (queries, keys, values, mask))
        found += [decode_attention.can_decode(queries, keys, values, mask), decode_attention.can_decode(*elsewhere)]
        monkeypatch.setattr(decode_attention, "load_library", lambda _: None)  # as without a compiler
        found += [decode_attention.can_decode(queries, keys, values, mask)]
        attended = attend(queries, keys, values, mask)
    torch.set_num_threads(before)
    assert found == [True, False, True, False, False]
    torch.testing.assert_close(attended.double(), attend_slowly(queries, keys, values, mask), atol=2e-6, rtol=2e-6)


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = SimpleNamespace(focat_decode_attention=lambda *_: 1)
    monkeypatch.setattr(decode_attention, "load_library", lambda _: refusing)
    with pytest.raises(MemoryError):
        decode_attention.decode_attention(*example(1, 1, 1, 1, 32), torch.ones(1, 1, 1, 1, dtype=torch.bool))
    refusing.focat_window_attention = lambda *_: 1
    with pytest.raises(MemoryError):
        attend(*example(1, 1, 1, 1, 32), decode_attention.WindowMask(torch.tensor([[0, 1], [0, 1]])))


def test_attention_uses_it_without_dropout_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, mask = example(2, 2, 4, 9, 32), torch.ones(2, 1, 4, 9, dtype=torch.bool)
    used = []
    monkeypatch.setattr(attention, "decode_attention", lambda *_: used.append(1) or inputs[0])
    with torch.inference_mode():
        attend(*inputs, mask, dropout=0.5)
        attend(*inputs, mask, weights_out=[])
        assert not used
        attend(*inputs, mask)
        assert used


@pytest.mark.parametrize("variant", [{}, {"positions": "rotary"}, {"attention": "group", "global_layers": [1]}])
def test_a_search_finds_what_the_model_says(variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(words=20, scale=1.0, d_model=64, heads=2, **variant).float()
    requests = [
        Request(source(2, 2 + seed, words=20, seed=seed), prefix=[6, 7, SEPARATOR], sentences=2, max_length=8)
        for seed in range(6)
    ]
    calls = []
    original = attention.decode_attention
    monkeypatch.setattr(attention, "decode_attention", lambda *inputs: calls.append(1) or original(*inputs))
    found = Engine([model], SearchSettings(beam=3))(requests)
    assert calls
    for request, [best] in zip(requests, found, strict=True):
        assert best.log_probability == pytest.approx(sum(scored([model], request, best.tokens)), abs=1e-4)
    monkeypatch.setattr(attention, "can_decode", lambda *_: False)
    assert tokens_of(Engine([model], SearchSettings(beam=3))(requests)) == tokens_of(found)


def test_other_threads_run_meanwhile() -> None:
    """The kernel gives up the interpreter's lock, so that workers decode at the same time."""
    queries, kv = torch.randn(64, 8, 48, 64), torch.randn(64, 8, 1000, 64)
    mask = torch.ones(64, 1, 1, 1000, dtype=torch.bool)
    times: list[float] = []

    def work() -> None:
        times.append(time.perf_counter())
        decode_attention.decode_attention(queries, kv, kv, mask)
        times.append(time.perf_counter())

    worker = threading.Thread(target=work)
    worker.start()
    ticks = [time.perf_counter()]
    while worker.is_alive():
        time.sleep(0.001)
        ticks.append(time.perf_counter())
    worker.join()
    begin, end = times
    quarter = (end - begin) / 4
    assert any(begin + quarter < tick < end - quarter for tick in ticks)

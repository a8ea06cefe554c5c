"""Prefill of windows in one row: the same as of padded windows, whatever the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import SEPARATOR, START
from focat.decoding import model_runner
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.model import decode_attention
from focat.model.kv_cache import KVMemory
from focat.model.window_prefill import can_prefill_windows, prefill_windows
from focat.windows.batch import PaddedSequences
from focat.windows.builder import pad_rows
from focat.windows.segments import segments_of
from tests.decoding.slow_search import small
from tests.decoding.test_engine import source, tokens_of

pytestmark = pytest.mark.skipif(not decode_attention.is_available(), reason="there is no C compiler")

SOURCES = [
    source(*lengths, words=30, seed=seed) for seed, lengths in enumerate([(3, 2), (1,), (4, 1, 3), (2, 2), (6,)])
]
PREFIXES = [[6, 7, SEPARATOR], [], [9, SEPARATOR, 8, 7, SEPARATOR], [5], [8, 8, 9, 6]]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"positions": "rotary"},
    {"positions": "learned"},
    {"norm": "pre"},
    {"shift": "avg-sequence"},
    {"segment_embeddings": "learned", "segment_embeddings_at": "every-layer"},
]


@pytest.mark.parametrize("variant", VARIANTS)
@torch.inference_mode()
def test_as_padded_windows(variant: dict[str, Any]) -> None:
    model = small(words=30, scale=1.0, d_model=64, heads=2, **variant).float().eval()
    assert can_prefill_windows(model)
    tokens, prefixes = pad_rows(SOURCES), pad_rows([[START, *prefix] for prefix in PREFIXES], left=True)
    segments = segments_of(tokens)
    padded = PaddedSequences(tokens, segments, segments.amax(1))
    parts = [slice(0, 2), slice(2, 5)]
    cache, hidden = prefill_windows(model, padded, prefixes, parts, 20, KVMemory())
    wanted = model.init_cache(model.encode(padded), capacity=20)
    torch.testing.assert_close(hidden, model.decode_step(wanted, prefixes, last_only=True)[:, 0], atol=1e-5, rtol=1e-5)
    for each in (cache, wanted):
        each.expand_beams(2)
    for step in range(3):
        following = torch.tensor([[5 + step], [6], [SEPARATOR], [9], [7], [8], [5], [SEPARATOR], [6], [7 + step]])
        found = [model.decode_step(each, following) for each in (cache, wanted)]
        torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_which_models_and_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    wide = {"words": 20, "d_model": 64, "heads": 2}
    found = [
        can_prefill_windows(model)
        for model in (
            small(**wide).float(),
            small(**wide).double(),
            small(words=20, d_model=32, heads=2).float(),
            small(attention="group", global_layers=[1], **wide).float(),
            small(attention="long-short", **wide).float(),
        )
    ]
    torch.set_num_threads(4)
    found.append(can_prefill_windows(small(**wide).float()))
    torch.set_num_threads(before)
    monkeypatch.setattr(decode_attention, "load_library", lambda _: None)  # as without a compiler
    found.append(can_prefill_windows(small(**wide).float()))
    assert found == [True, *[False] * 6]


def test_a_search_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(words=30, scale=1.0, d_model=64, heads=2).float()
    requests = [Request(tokens, prefix=prefix, max_length=8) for tokens, prefix in zip(SOURCES, PREFIXES, strict=True)]
    used = []
    monkeypatch.setattr(model_runner, "prefill_windows", lambda *inputs: used.append(1) or prefill_windows(*inputs))
    found = Engine([model, model], SearchSettings(beam=3))(requests)
    assert len(used) == 2
    monkeypatch.setattr(model_runner, "can_prefill_windows", lambda _: False)
    assert tokens_of(Engine([model, model], SearchSettings(beam=3))(requests)) == tokens_of(found)
    assert len(used) == 2

"""The kernel of embeddings against plain torch: bit for bit, but for the sines of another library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.store import Sentences, Split
from focat.corpus.vocabulary import START
from focat.model import embeddings, fused_embeddings, fused_layers, transformer
from focat.model.fused_embeddings import has_fused_embeddings
from focat.model.positions import positions_of
from focat.windows.corpus_windows import cut_windows
from focat.windows.packing import gather_packed, packed_shape
from tests.kernels import DEVICE, needs_kernels
from tests.model.examples import MARIAN, side, tiny, window
from tests.windows.corpora import split_of_lengths


@needs_kernels
@pytest.mark.parametrize("precision", [torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])])
@pytest.mark.parametrize(
    "features",
    [
        {},
        {"d_model": 24, "segment_embeddings": "learned"},
        {"segment_embeddings": "one-hot", "start_embedding": "zero"},
        {**MARIAN, "segment_embeddings": "sinusoidal", "position_offset": 2},
    ],
)
def test_the_sum(features: dict[str, Any], precision: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(windows=WindowSettings(before=2, after=1, max_tokens=40), **features).to(DEVICE, precision)
    batch = side(window(2, 1, 3, 1, 2), window(3, seed=2), window(2, 2, seed=3), current=[2, 0, 0], pads=1)
    batch.tokens[0, 0] = batch.tokens[2, 3] = START
    batch = batch.to(DEVICE)
    positions = torch.randint(0, 700, batch.tokens.shape, device=DEVICE)
    used = []
    kernel = embeddings.fused_embeddings
    monkeypatch.setattr(embeddings, "fused_embeddings", lambda *inputs: used.append(1) or kernel(*inputs))
    inputs = batch, positions, model.target_embedding, None
    plain = model._embed(*inputs)  # for gradients
    assert not used
    with torch.no_grad():
        found = model._embed(*inputs)
    assert used
    assert found.per_layer_embedding is found.rope is None
    assert found.x.dtype == precision
    differs = found.x != plain.x
    assert float(differs.float().mean()) < 0.01
    torch.testing.assert_close(found.x, plain.x)


@needs_kernels
@pytest.mark.parametrize("features", [{"positions": "learned"}, {"positions": "rotary"}, {"dropout": 0.1}])
def test_what_the_kernel_does_not_compute(features: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(**features).to(DEVICE, torch.float16).train()
    monkeypatch.setattr(embeddings, "fused_embeddings", None)
    batch = side(window(2, 1)).to(DEVICE)
    with torch.no_grad():
        model._embed(batch, batch.segments, model.target_embedding, model.target_positions)


@needs_kernels
@pytest.mark.parametrize("features", [{}, {"sinusoids": "marian", "position_offset": 2}, {"dropout": 0.5}])
def test_packed_windows_in_training(features: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is as long as windows may be, so that it has the last position there is."""
    sentences = split_of_lengths([42, 42, 43], [3])
    split = Split(
        *(Sentences(6 + side.tokens % 14, side.offsets) for side in (sentences.source, sentences.target)),
        sentences.documents,
    )
    settings = WindowSettings(before=2, max_tokens=130)
    windows = cut_windows(split, settings)
    batch = gather_packed(windows, np.array([2, 3]), packed_shape(windows, 200, 130)).source.to(DEVICE)
    shift = 7 if features else 0
    model = tiny(shift, windows=settings, **features).float().to(DEVICE).train()
    positions = positions_of(batch, torch.full_like(batch.current, shift))
    used = []
    kernel = transformer.embed
    monkeypatch.setattr(transformer, "embed", lambda *inputs: used.append(1) or kernel(*inputs))
    with torch.autocast(DEVICE, torch.bfloat16):
        found = model._embed(batch, positions, model.target_embedding, None).x
        assert used
        monkeypatch.setattr(transformer, "can_fuse_embeddings", lambda *_: False)
        model.dropout.p = 0.0
        plain = model._embed(batch, positions, model.target_embedding, None).x.float()
    real = batch.segments >= 0
    kept = (found != 0) | (plain == 0)
    assert float((~kept[real]).float().mean()) == pytest.approx(features.get("dropout", 0), abs=0.1)
    expected = plain * kept / (1 - features.get("dropout", 0))
    torch.testing.assert_close(found.float()[real], expected[real], atol=4e-2, rtol=4e-2)


def test_for_what_there_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for translation in half precision, and one for training in mixed precision."""
    for module in (fused_embeddings, fused_layers):
        monkeypatch.setattr(module, "runs_kernels", lambda _: True)

    def in_translation(precision: torch.dtype = torch.float16, **settings: Any) -> bool:
        return has_fused_embeddings(ModelSettings(**settings), torch.zeros(9, 512, dtype=precision))

    def in_training(**settings: Any) -> bool:
        chosen = ModelSettings(**settings)
        return embeddings.can_fuse_embeddings(chosen, nn.Embedding(9, chosen.d_model))

    assert not in_translation()  # it has no gradient
    assert not in_training()  # in full precision
    with torch.no_grad():
        assert in_translation()
        assert in_translation(torch.bfloat16)
        assert in_translation(start_embedding="zero", segment_embeddings="learned")
        assert not in_translation(torch.float32)
        assert not in_translation(positions="learned")
        assert not in_translation(positions="rotary")
        assert not in_translation(segment_embeddings="learned", segment_embeddings_at="every-layer")
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            assert not in_translation()
        assert in_training()
        assert in_training(sinusoids="marian", position_offset=2)
        assert not in_training(positions="learned")
        assert not in_training(positions="rotary")
        assert not in_training(start_embedding="zero")
        assert not in_training(segment_embeddings="learned")
        assert not in_training(d_model=18, heads=3)  # not four quarters
    with torch.autocast("cpu", torch.float16):
        assert not in_training()

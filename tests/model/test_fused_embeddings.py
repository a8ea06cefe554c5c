"""The kernel of embeddings against plain torch: bit for bit, but for the sines of another library."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import START
from focat.model import embeddings
from tests.kernels import DEVICE, needs_kernels
from tests.model.examples import MARIAN, side, tiny, window


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

"""Linear layers for CPUs: packed ones give the same numbers, short ones nearly, whatever the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.decoding import linear
from focat.decoding.engine import Engine
from focat.decoding.linear import (
    Bfloat16Linear,
    Int8Linear,
    PackedLinear,
    VnniLinear,
    can_pack,
    has_bfloat16,
    has_vnni,
    replace_linear,
    rounded_rows,
)
from focat.decoding.requests import Request
from focat.errors import FocatError
from tests.decoding.slow_search import scored, small
from tests.decoding.test_engine import source, tokens_of
from tests.model.examples import MARIAN


@pytest.mark.parametrize("rows", [1, 3, 64, 200])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_packed_layer_is_exact(rows: int, with_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(97, 64, generator=generator), torch.randn(2, rows, 64, generator=generator)
    bias = torch.randn(97, generator=generator) if with_bias else None
    torch.testing.assert_close(PackedLinear(weight, bias)(x), F.linear(x, weight, bias), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 8, 9, 100])
def test_rows_that_are_added_change_nothing(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(97, 64, generator=generator), torch.randn(1, rows, 64, generator=generator)
    layer = PackedLinear(weight, None)
    layer.round_rows = True
    found = layer(x)
    assert found.shape == (1, rows, 97)
    torch.testing.assert_close(found, F.linear(x, weight), atol=1e-5, rtol=1e-5)


def test_few_numbers_of_rows() -> None:
    assert [rounded_rows(rows) for rows in (1, 2, 16, 17, 18, 31, 33, 64, 65, 129, 1000)] == [
        *(1, 2, 16, 20, 20, 32, 40, 64, 80, 160, 1024)
    ]
    assert len({rounded_rows(rows) for rows in range(1, 257)}) == 8 + 5 * 4
    assert all(rows <= rounded_rows(rows) <= rows + rows / 4 for rows in range(1, 5000))


@pytest.mark.skipif(not can_pack(small(words=20).float()), reason="this build of torch cannot")
def test_an_engine_that_lasts_rounds_all_its_products() -> None:
    """The output projection, too, and in engines with other settings over the same weights."""
    engine = Engine([small(words=20).float()], SearchSettings())
    asked: list[int] = []
    multiply = PackedLinear._multiply

    def noted(layer: PackedLinear, x: torch.Tensor) -> torch.Tensor:
        asked.append(x.shape[:-1].numel())
        return multiply(layer, x)

    requests = [Request(source(2, 2, words=20, seed=seed), sentences=2, max_length=8) for seed in range(19)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PackedLinear, "_multiply", noted)
        exact = engine.with_settings(SearchSettings(beam=3))(requests)
        assert any(rows != rounded_rows(rows) for rows in asked)
        asked.clear()
        engine.keep_memory_flat()
        found = engine.with_settings(SearchSettings(beam=3))(requests)
    assert asked
    assert all(rows == rounded_rows(rows) for rows in asked)
    assert [best.tokens for [best, *_] in found] == [best.tokens for [best, *_] in exact]


def test_only_plain_floats_are_packed() -> None:
    assert not can_pack(small(words=20).double())
    assert not can_pack(small(words=20).bfloat16())


@pytest.mark.skipif(not can_pack(small(words=20).float()), reason="this build of torch cannot")
@pytest.mark.parametrize("variant", [{}, MARIAN])
def test_packed_layers_find_what_the_model_says(variant: dict[str, Any]) -> None:
    model = small(words=20, scale=1.0, **variant).float()
    before = [parameter.clone() for parameter in model.parameters()]
    requests = [Request(source(2, 2, words=20, seed=seed), sentences=2, max_length=8) for seed in range(6)]
    engine = Engine([model], SearchSettings())
    assert any(isinstance(module, PackedLinear) for module in engine.models[0].modules())
    for request, [best] in zip(requests, engine(requests), strict=True):
        assert best.log_probability == pytest.approx(sum(scored([model], request, best.tokens)), abs=1e-4)
    assert all(map(torch.equal, before, model.parameters()))  # the model itself stays as it was


needs_bfloat16 = pytest.mark.skipif(not has_bfloat16(), reason="this CPU has no bfloat16")
needs_vnni = pytest.mark.skipif(not has_vnni(), reason="this CPU has no VNNI")
SHORT = [
    pytest.param("int8", Int8Linear, 0.04),
    pytest.param("int8", VnniLinear, 0.02, marks=needs_vnni),
    pytest.param("bfloat16", Bfloat16Linear, 0.01, marks=needs_bfloat16),
]
"""Setting, layer, and its largest relative error."""


@pytest.mark.parametrize(("setting", "kind", "limit"), SHORT)
def test_a_short_layer_is_nearly_exact_and_independent_of_its_batch(
    setting: str, kind: type[Int8Linear | Bfloat16Linear], limit: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(96, 64, generator=generator), torch.randn(96, generator=generator)
    x = torch.randn(5, 3, 64, generator=generator) * torch.logspace(-3, 3, 5)[:, None, None]
    layer, wanted = kind(weight, bias), F.linear(x, weight, bias)
    error = (layer(x) - wanted).norm(dim=-1) / (wanted - bias).norm(dim=-1)
    assert error.max() < limit  # of large and small tokens alike
    assert torch.equal(layer(x[1:2, :1]), layer(x)[1:2, :1])


@pytest.mark.parametrize(("setting", "kind", "limit"), SHORT)
def test_zeros_and_inputs_in_any_layout(setting: str, kind: type[Int8Linear | Bfloat16Linear], limit: float) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(96, 64, generator=generator), torch.randn(96, generator=generator)
    x = torch.randn(3, 5, 128, generator=generator)[..., 32:96]  # a part of wider rows
    weight[7], x[1, 2] = 0, 0
    layer = kind(weight, bias)
    found = layer(x)
    assert torch.equal(found, layer(x.contiguous()))
    assert torch.equal(found[::2], layer(x[::2]))  # as without the zeros
    assert torch.equal(found[1, 2], bias)
    assert (found[..., 7] == bias[7]).all()


@pytest.mark.parametrize("variant", [{}, MARIAN])
@pytest.mark.parametrize(("setting", "kind", "limit"), SHORT)
def test_short_layers_find_nearly_what_floats_find(
    setting: str,
    kind: type[Int8Linear | Bfloat16Linear],
    limit: float,
    variant: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linear, "has_vnni", lambda: kind is VnniLinear)
    model = small(words=20, scale=1.0, **variant).float()
    before = [parameter.clone() for parameter in model.parameters()]
    requests = [
        Request(source(2, 2, words=20, seed=seed), prefix=[6, 7, SEPARATOR], sentences=2, max_length=8)
        for seed in range(6)
    ]
    engine = Engine([model], SearchSettings(**{setting: True}))
    assert any(isinstance(module, kind) for module in engine.models[0].modules())
    found = engine(requests)
    for request, [best] in zip(requests, found, strict=True):
        assert best.log_probability == pytest.approx(sum(scored([model], request, best.tokens)), rel=2.5 * limit)
    alone = Engine([model], SearchSettings(**{setting: True, "batch_tokens": 1}))(requests)
    assert tokens_of(alone) == tokens_of(found)
    assert all(map(torch.equal, before, model.parameters()))  # the model itself stays as it was


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("kind", [PackedLinear, *(parameter.values[1] for parameter in SHORT)])
def test_a_layer_with_relu(kind: type[PackedLinear], with_bias: bool) -> None:
    if (kind is VnniLinear and not has_vnni()) or (kind is Bfloat16Linear and not has_bfloat16()):
        pytest.skip("this CPU cannot")
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(96, 64, generator=generator), torch.randn(2, 3, 64, generator=generator)
    bias = torch.randn(96, generator=generator) if with_bias else None
    found = kind(weight, bias, relu=True)(x)
    assert (found == 0).any()
    assert torch.equal(found, kind(weight, bias)(x).relu())


def test_relu_moves_into_the_layer_before_it() -> None:
    for activation, moves in (("relu", True), ("gelu", False), ("swiglu", False)):
        changed, _ = replace_linear(small(words=20, activation=activation).float(), SearchSettings())
        block = changed.encoder[0].feedforward
        assert [block.up_proj.relu, block.down_proj.relu] == [moves, False]
        assert block.activation == ("none" if moves else activation)


@needs_vnni
@pytest.mark.parametrize("rows", [1, 7, 64, 300])
def test_bytes_are_multiplied_exactly(rows: int) -> None:
    """The largest bytes there are: sums that eight- or sixteen-bit registers would not hold."""
    generator = torch.Generator().manual_seed(0)
    signs = [torch.randint(0, 2, shape, generator=generator) * 254 - 127 for shape in ((33, 512), (rows, 512))]
    weight, x = (each.float() for each in signs)
    weight[0], x[0] = 127, 127
    assert torch.equal(VnniLinear(weight, None)(x), x @ weight.T)


@needs_bfloat16
def test_logits_stay_exact_beside_layers_in_bfloat16() -> None:
    model = small(words=20).float()
    _, project = replace_linear(model, SearchSettings(bfloat16=True))
    x = torch.randn(5, model.output_weight.shape[1], generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(project(x), model.project(x), atol=1e-5, rtol=1e-5)


def test_other_weights_are_shared() -> None:
    model = small(words=20).float()
    changed, _ = replace_linear(model, SearchSettings())
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in changed.parameters()} < own


def test_eight_bits_are_multiplied_where_the_processor_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, sums of products of bytes overflow."""
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False, raising=False)
    assert not has_vnni()
    changed, project = replace_linear(small(words=20).float(), SearchSettings(int8=True))
    assert isinstance(project, Int8Linear)
    assert not any(isinstance(module, VnniLinear) for module in changed.modules())


def test_refused_where_it_cannot_be() -> None:
    with pytest.raises(FocatError, match=r"decoding.bfloat16: only CPUs that have bfloat16 .* leave it out"):
        Engine([small(words=20).double()], SearchSettings(bfloat16=True))
    with pytest.raises(ValueError, match="int8 and bfloat16 exclude each other"):
        SearchSettings(int8=True, bfloat16=True)

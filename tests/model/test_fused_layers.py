"""The fused kernels of a layer against plain torch, gradients included."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import PAD
from focat.model import embeddings, fused_layers, layers, transformer
from focat.training.mixed_precision import MasterWeights
from focat.windows.corpus_windows import cut_windows
from focat.windows.packing import gather_packed, packed_shape
from tests.kernels import DEVICE, needs_kernels
from tests.model.examples import VOCABULARY, pair, tiny
from tests.windows.corpora import build_split

CLOSE = {"atol": 4e-2, "rtol": 4e-2}  # bfloat16 has 8 bits


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16).requires_grad_()


def assert_same(
    fused: tuple[torch.Tensor, ...],
    plain: tuple[torch.Tensor, ...],
    used: tuple[int, ...],
    inputs: list[torch.Tensor],
) -> None:
    """Two results of each, and gradients of a sum of those that are used."""
    factors = torch.randn(2, *plain[0].shape, device=DEVICE)
    for a, b in zip(fused, plain, strict=True):
        torch.testing.assert_close(a.float(), b, **CLOSE)
    found, expected = (
        torch.autograd.grad(sum((each[i].float() * factors[i]).sum() for i in used), inputs)  # type: ignore[arg-type]
        for each in (fused, plain)
    )
    for a, b in zip(found, expected, strict=True):
        scale = b.float().abs().max()
        torch.testing.assert_close(a.float() / scale, b.float() / scale, **CLOSE)


USES = [  # with a norm, which comes last; which of the two results are used
    (False, False, (0, 1)),
    (False, False, (0,)),
    (True, False, (0, 1)),
    (True, False, (0,)),
    (True, False, (1,)),
    (True, True, (0, 1)),
    (True, True, (1,)),
]


@needs_kernels
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize(("with_norm", "post", "used"), USES)
@pytest.mark.parametrize(("width", "with_bias"), [(64, True), (512, False), (96, True), (20, True), (3072, True)])
def test_sum_dropout_and_normalisation(
    rate: float,
    with_norm: bool,
    post: bool,
    used: tuple[int, ...],
    width: int,
    with_bias: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fused_layers, "_NORM_PROGRAMS", 4)  # of which some have more rows than others
    torch.manual_seed(0)
    x, output, norm = draw(2, 7, width), draw(2, 7, width), nn.LayerNorm(width, device=DEVICE)
    bias = draw(width) if with_bias else None
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    torch.manual_seed(1)
    kept = fused_layers.add_dropout_norm(torch.zeros_like(x), torch.ones_like(x), None, rate)[0] > 0
    torch.manual_seed(1)
    fused = fused_layers.add_dropout_norm(x, output, bias, rate, norm if with_norm else None, post)
    biased = output.float() + (0 if bias is None else bias.float())
    total = x.float() + biased * kept / (1 - rate)
    normalised = F.layer_norm(total, (width,), norm.weight, norm.bias) if with_norm else total
    plain = normalised if post else total, normalised
    inputs = [x, output, *([] if bias is None else [bias])]
    if with_norm and (post or 1 in used):
        inputs += [norm.weight, norm.bias]
    assert_same(fused, plain, used, inputs)


@needs_kernels
@pytest.mark.parametrize("used", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("width", [64, 512, 20])
def test_normalisation_alone(width: int, used: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, norm = draw(2, 7, width), nn.LayerNorm(width, device=DEVICE)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    fused = fused_layers.branch_norm(x, norm)
    plain = x.float(), F.layer_norm(x.float(), (width,), norm.weight, norm.bias)
    assert torch.equal(fused[0], x)
    assert_same(fused, plain, used, [x, norm.weight, norm.bias] if 1 in used else [x])


@needs_kernels
@pytest.mark.parametrize("width", [64, 24])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_embeddings(width: int, rate: float) -> None:
    torch.manual_seed(0)
    table, places = torch.randn(9, width, device=DEVICE).requires_grad_(), torch.randn(30, width, device=DEVICE)
    tokens, positions = torch.randint(9, (2, 7), device=DEVICE), torch.randint(30, (2, 7), device=DEVICE)
    tokens[:, -1] = PAD
    x = fused_layers.embed(tokens, positions, table, places, rate)
    whole = F.embedding(tokens, table, padding_idx=PAD) * math.sqrt(width) + places[positions]
    kept = x != 0
    assert rate > 0 or kept.all()
    assert rate == 0 or 0.2 < (~kept).float().mean() < 0.6
    expected = whole * kept / (1 - rate)
    torch.testing.assert_close(x.float(), expected, **CLOSE)
    factors = torch.randn_like(expected).bfloat16()
    (found,) = torch.autograd.grad(x, table, factors)
    (wanted,) = torch.autograd.grad(expected, table, factors.float())
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert not found[PAD].any()


@needs_kernels
@pytest.mark.parametrize("with_sum", [True, False])
@pytest.mark.parametrize("width", [64, 512])
def test_sum_and_normalisation_without_a_gradient(width: int, with_sum: bool) -> None:
    torch.manual_seed(0)
    x, output = draw(3, 5, width).detach(), draw(3, width, 5).detach().transpose(1, 2)
    norm = nn.LayerNorm(width, device=DEVICE, dtype=torch.bfloat16).requires_grad_(False)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    total, normalised = fused_layers.add_norm(x, output, norm, with_sum)
    torch.testing.assert_close(normalised, norm(x + output), **CLOSE)
    torch.testing.assert_close(total, x + output if with_sum else normalised, **CLOSE)


@needs_kernels
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_its_share_and_is_seeded(rate: float) -> None:
    x, output = torch.zeros(64, 512, device=DEVICE, dtype=torch.bfloat16), draw(64, 512).detach().abs() + 1
    torch.manual_seed(3)
    first, _ = fused_layers.add_dropout_norm(x, output, None, rate)
    second, _ = fused_layers.add_dropout_norm(x, output, None, rate)
    torch.manual_seed(3)
    again, _ = fused_layers.add_dropout_norm(x, output, None, rate)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    for drawn in (first, second):
        dropped = (drawn == 0).float()
        deviation = math.sqrt(rate * (1 - rate))
        assert abs(float(dropped.mean()) - rate) < 5 * deviation / math.sqrt(dropped.numel())
        for side in (0, 1):  # no column and no row is favoured
            assert float((dropped.mean(side) - rate).abs().max()) < 7 * deviation / math.sqrt(dropped.shape[side])
        for one, other in combinations(dropped.split(128, 1), 2):  # quarters of the columns are drawn apart
            assert abs(float((one == other).float().mean()) - rate**2 - (1 - rate) ** 2) < 0.04
        torch.testing.assert_close(drawn[drawn != 0], (output / (1 - rate))[drawn != 0])


@needs_kernels
def test_rows_that_hardly_vary() -> None:
    norm = nn.LayerNorm(64, device=DEVICE)
    nn.init.normal_(norm.bias)
    x, output = torch.full((2, 3, 64), 2.0, device=DEVICE).bfloat16()
    output[1, ::2] += 2**-6
    expected = F.layer_norm((x + output).float(), (64,), norm.weight, norm.bias)
    for found in (
        fused_layers.add_norm(x, output, norm, with_sum=True)[1],
        fused_layers.add_dropout_norm(x, output, None, 0.0, norm)[1],
    ):
        torch.testing.assert_close(found.float(), expected, **CLOSE)


@needs_kernels
def test_dropout_whose_seeds_are_drawn_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_layers, "_SEEDS", 3)
    x, ones = torch.zeros(8, 64, device=DEVICE).bfloat16(), torch.ones(8, 64, device=DEVICE).bfloat16()

    def kept(count: int) -> set[tuple[bool, ...]]:
        torch.manual_seed(3)
        drawn = [fused_layers.add_dropout_norm(x, ones, None, 0.5)[0] > 0 for _ in range(count)]
        return {tuple(each.flatten().tolist()) for each in drawn}

    found = []
    for _ in range(2):
        with fused_layers.drawn_seeds(x.device):
            found.append(kept(7))  # more than are drawn at once
    assert len(found[0]) == 7
    assert found[0] == found[1]
    assert kept(2) == kept(2)  # drawn one by one again


@needs_kernels
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(3, 64), (2, 24), (700, 132)])
def test_linear_layers(rows: int, width: int, with_bias: bool) -> None:
    torch.manual_seed(0)
    x, layer = draw(3, rows, 64), nn.Linear(64, width, device=DEVICE, dtype=torch.bfloat16)
    weights = [layer.weight, layer.bias] if with_bias else [layer.weight]
    found, expected = fused_layers.linear(x, *weights), F.linear(x, *weights)
    torch.testing.assert_close(found, expected, **CLOSE)
    gradient = torch.randn_like(found)
    exact = torch.autograd.grad(F.linear(x.float(), *(w.float() for w in weights)), [x, *weights], gradient.float())
    for a, b in zip(torch.autograd.grad(found, [x, *weights], gradient), exact, strict=True):
        torch.testing.assert_close(a.float() / b.abs().max(), b.float() / b.abs().max(), **CLOSE)


@needs_kernels
@pytest.mark.parametrize(("rows", "width"), [(3, 64), (2, 24), (5, 300), (41, 600)])
def test_linear_and_relu(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_layers, "_PROGRAMS", 12)
    torch.manual_seed(0)
    x, layer = draw(3, rows, 64), nn.Linear(64, width, device=DEVICE, dtype=torch.bfloat16)
    found, expected = fused_layers.linear_relu(x, layer), F.relu(layer(x))
    torch.testing.assert_close(found, expected, **CLOSE)
    gradient = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, [x, *layer.parameters()], gradient),
        torch.autograd.grad(expected, [x, *layer.parameters()], gradient),
        strict=True,
    ):
        torch.testing.assert_close(a / b.abs().max(), b / b.abs().max(), **CLOSE)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
def test_feedforward_of_packed_windows(activation: str) -> None:
    sizes = {"d_model": 16, "heads": 2, "d_ff": 24, "activation": activation}
    block = layers.FeedForward(ModelSettings(**sizes)).to(DEVICE, torch.bfloat16).train()  # type: ignore[arg-type]
    x = draw(1, 9, 16)
    output, bias = block.packed(x)
    torch.testing.assert_close((output + bias).float(), block.float()(x.float()), **CLOSE)
    block = layers.FeedForward(ModelSettings(**sizes, activation_dropout=0.5)).to(DEVICE, torch.bfloat16)  # type: ignore[arg-type]
    assert not torch.equal(block.train().packed(x)[0], block.packed(x)[0])
    assert torch.equal(block.eval().packed(x)[0], block.packed(x)[0])


def test_residual_sums_of_packed_windows_drop_in_training_alone() -> None:
    residual = layers.Residual(ModelSettings(d_model=64, heads=2, dropout=0.5, norm="pre")).to(DEVICE)
    x, ones, bias = (
        torch.full(shape, value, device=DEVICE).bfloat16()
        for shape, value in (((1, 20, 64), 8.0), ((1, 20, 64), 1.0), ((64,), 2.0))
    )
    dropped, _ = residual.train().packed(x, (ones, bias), None)
    assert dropped.unique().tolist() == [8, 8 + 2 * 3]
    whole, _ = residual.eval().packed(x, (ones, bias), None)
    assert whole.unique().tolist() == [8 + 3]


@needs_kernels
def test_weights_in_full_precision_have_gradients_in_full_precision() -> None:
    x, layer = draw(2, 9, 64), nn.Linear(64, 24, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = fused_layers.linear(x, layer.weight, layer.bias)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), layer(x.float()), **CLOSE)
    found.float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize(("width", "fits"), [(2, False), (4, True), (64, True), (66, False), (96, True), (512, True)])
def test_kernels_are_for_widths_of_four_quarters(width: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_layers, "runs_kernels", lambda device: True)
    assert fused_layers.has_fused_layers(torch.zeros(3, width, dtype=torch.bfloat16)) == fits
    assert not fused_layers.has_fused_layers(torch.zeros(3, width))


@needs_kernels
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_translation_with_kernels_is_as_exact(
    precision: torch.dtype, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = (each.to(DEVICE) for each in pair())
    used = []
    for name in ("add_norm", "linear_relu"):
        kernel = getattr(layers, name)
        monkeypatch.setattr(
            layers, name, lambda *inputs, kernel=kernel, **more: used.append(1) or kernel(*inputs, **more)
        )
    model = tiny(norm=norm, d_ff=32, encoder_layers=1, decoder_layers=2).to(DEVICE)
    real = target.segments >= 0
    with torch.no_grad():
        exact = model.float()(source, target)[real]
        assert not used
        model.to(precision)
        found = model(source, target)[real].float()
        # linear layers, and sums that a norm follows in their layer: with pre-norm, all but the last
        assert len(used) == (precision is torch.bfloat16) * (1 + 2 + (2 + 2 * 3 if norm == "post" else 1 + 2 * 2))
        monkeypatch.setattr(layers, "has_fused_layers", lambda x: False)
        usual = model(source, target)[real].float()
    error, usual_error = (float((each - exact).norm() / exact.norm()) for each in (found, usual))
    assert error < 0.01 + 2 * usual_error


@needs_kernels
def test_what_has_a_gradient_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "add_norm", None)
    model = tiny().bfloat16().to(DEVICE)
    source, target = (each.to(DEVICE) for each in pair())
    assert model(source, target).requires_grad


@needs_kernels
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_model_with_kernels_is_as_exact_as_one_without(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lengths = [[tuple(rng.integers(1, 9, 2)) for _ in range(n)] for n in (4, 1, 3)]
    documents = [[tuple(rng.integers(6, VOCABULARY, n).tolist() for n in each) for each in some] for some in lengths]
    windows = cut_windows(build_split(documents), WindowSettings(before=2, max_tokens=40))  # type: ignore[arg-type]
    batch = gather_packed(windows, np.arange(len(windows)), packed_shape(windows, 200, 40)).to(DEVICE)
    used = []
    names = ("add_dropout_norm", "branch_norm", "linear_relu")
    for module, name in (*((layers, name) for name in names), (transformer, "embed")):
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *inputs, kernel=kernel: used.append(kernel) or kernel(*inputs))

    def output_and_gradients(half: bool) -> list[torch.Tensor]:
        model = tiny(norm=norm, d_ff=32, encoder_layers=1, decoder_layers=1).float().to(DEVICE).train()
        MasterWeights(model, half)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
            hidden = model(batch.source, batch.target)
        output = hidden[batch.target.segments >= 0].float()
        return [output.detach(), *torch.autograd.grad(output.sin().sum(), list(model.parameters()))]

    exact = output_and_gradients(half=False)
    assert not used
    with monkeypatch.context() as patch:
        patch.setattr(nn.LayerNorm, "forward", None)  # not called
        found = output_and_gradients(half=True)
    # of encoder and decoder: embeddings, normalisation in front of the first block, residual sums, a linear layer
    assert len(used) == (1 + (norm == "pre") + 2 + 1) + (1 + (norm == "pre") + 3 + 1)
    for module in (layers, embeddings):
        monkeypatch.setattr(module, "has_fused_layers", lambda x: False)
    for a, b, c in zip(found, output_and_gradients(half=True), exact, strict=True):
        error, usual_error = (float((x - c).norm() / c.norm()) for x in (a, b))
        assert error < 0.03 + 3 * usual_error

"""Mixed precision: float32 master weights, bfloat16 working weights, and gradients summed in float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from focat.training.mixed_precision import MasterWeights


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3))


def test_full_precision_trains_the_model_itself():
    model = _model()
    weights = MasterWeights(model, half=False)
    assert [p is q for p, q in zip(weights.parameters.values(), model.parameters(), strict=True)] == [True] * 5


def test_half_precision_keeps_masters_of_linear_layers_only():
    model = _model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    weights = MasterWeights(model, half=True)
    kinds = {name: parameter.dtype for name, parameter in model.named_parameters()}
    assert {name for name, kind in kinds.items() if kind == torch.bfloat16} == {"1.weight", "1.bias"}
    for name, master in weights.parameters.items():
        assert master.dtype == torch.float32
        assert torch.equal(master, before[name])  # exactly: nothing passed through half precision


def backward(model: nn.Module, scale: float = 1.0) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.tensor([[1, 2]])).float().square().sum()
    (scale * loss).backward()


def test_gradients_reach_the_masters_and_steps_reach_the_layers():
    model = _model()
    linear = model[1]
    weights = MasterWeights(model, half=True)
    backward(model)
    expected = linear.weight.grad.float()
    weights.accumulate_gradients()
    assert len(weights.gradients) == 5
    assert {gradient.dtype for gradient in weights.gradients} == {torch.float32}
    assert torch.equal(weights.parameters["1.weight"].grad, expected)
    with torch.no_grad():
        weights.parameters["1.weight"].add_(1e-4)  # smaller than bfloat16 resolves, so it must not be lost
    stepped = weights.parameters["1.weight"].detach().clone()
    weights.sync_working_weights()
    assert torch.equal(linear.weight, stepped.to(torch.bfloat16))
    assert torch.equal(weights.to_cpu()["1.weight"], stepped)
    weights.zero_grad()
    assert weights.gradients == []


def test_gradients_of_many_batches_are_summed_in_float32():
    """A sum in bfloat16 would lose every one of the small gradients."""
    model = _model()
    weights = MasterWeights(model, half=True)
    backward(model)
    first: dict[str, Tensor] = {}  # a gradient that is scaled by a power of two is rounded alike
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        first[name] = parameter.grad.double()
    weights.zero_grad()
    for scale in (1.0, *[2.0**-11] * 200):
        backward(model, scale)
        weights.accumulate_gradients()
    for name, parameter in weights.parameters.items():
        torch.testing.assert_close(parameter.grad.double(), first[name] * (1 + 200 / 2048), rtol=1e-5, atol=1e-7)


def test_loaded_weights_reach_the_layers():
    model = _model()
    weights = MasterWeights(model, half=True)
    weights.load({name: torch.full_like(parameter, 0.5) for name, parameter in weights.parameters.items()})
    assert all(bool((parameter == 0.5).all()) for parameter in model.parameters())

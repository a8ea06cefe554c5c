"""Half precision: what is trained is float32, what computes is bfloat16, and the one is always a copy of the other."""

import torch
from torch import nn

from focat.training.mixed_precision import MasterWeights


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3))


def test_full_precision_trains_the_model_itself():
    model = _model()
    masters = MasterWeights(model, half=False)
    assert [p is q for p, q in zip(masters.named.values(), model.parameters(), strict=True)] == [True] * 5


def test_half_precision_keeps_masters_of_linear_layers_only():
    model = _model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    masters = MasterWeights(model, half=True)
    kinds = {name: parameter.dtype for name, parameter in model.named_parameters()}
    assert {name for name, kind in kinds.items() if kind == torch.bfloat16} == {"1.weight", "1.bias"}
    for name, master in masters.named.items():
        assert master.dtype == torch.float32
        assert torch.equal(master, before[name])  # exactly: nothing passed through half precision


def test_gradients_arrive_and_steps_are_published():
    model = _model()
    masters = MasterWeights(model, half=True)
    masters.clear_gradients()
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.tensor([[1, 2]])).float().square().sum().backward()
    gradients = masters.gather_gradients()
    assert len(gradients) == 5
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    linear = model[1]
    assert torch.equal(masters.named["1.weight"].grad, linear.weight.grad.float())
    with torch.no_grad():
        masters.named["1.weight"].add_(1e-4)  # too small a step for bfloat16 to see, so it must not be lost
    stepped = masters.named["1.weight"].detach().clone()
    masters.publish()
    assert torch.equal(linear.weight, stepped.to(torch.bfloat16))
    assert torch.equal(masters.stored()["1.weight"], stepped)


def test_become_reaches_the_layers():
    model = _model()
    masters = MasterWeights(model, half=True)
    masters.become({name: torch.full_like(parameter, 0.5) for name, parameter in masters.named.items()})
    assert all(bool((parameter == 0.5).all()) for parameter in model.parameters())

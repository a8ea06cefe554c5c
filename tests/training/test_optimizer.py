"""Muon: against singular values, against a slow version of its own rule, and against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from focat.config.schema import ModelSettings, TrainingSettings, WindowSettings
from focat.model import Transformer
from focat.training.adam import Adam
from focat.training.optimizer import Muon, build_optimizer, matrix_parameters, orthogonalize

RATE, DECAY = 0.02, 0.1
NOTHING_ELSE = Adam([], (0.9, 0.98), 1e-8, 0.0)


def model(**settings: object) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 8, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}
    return Transformer(ModelSettings(**sizes, **settings), WindowSettings(), 20, 20, shift=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(1, 6, 6), (2, 4, 9), (2, 9, 4), (3, 5, 7)])
def test_orthogonal_keeps_directions_and_levels_their_sizes(shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    given = torch.randn(shape, dtype=torch.float64)
    left, sizes, right = torch.linalg.svd(given, full_matrices=False)
    found = left.mT @ orthogonalize(given) @ right.mT  # in the directions of what was given: diagonal again
    levelled = torch.diagonal(found, dim1=-2, dim2=-1)
    assert torch.allclose(found, torch.diag_embed(levelled), atol=1e-9)
    large = sizes > 0.05 * sizes.amax(-1, keepdim=True)
    assert bool((levelled[large] > 0.6).all())
    assert bool((levelled < 1.3).all())


def test_zero_stays_zero() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4))


def test_a_step_by_hand() -> None:
    """A 1 × 1 matrix has one singular value: 1 at first, after five steps of the polynomial what Python says."""
    x = 1.0
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    weight = nn.Parameter(torch.tensor([[2.0]], dtype=torch.float64))
    weight.grad = torch.tensor([[-7.0]], dtype=torch.float64)
    muon = Muon({weight: 1}, NOTHING_ELSE)
    muon.param_groups[0]["lr"] = 0.5
    muon.step()
    assert weight.item() == pytest.approx(2 + 0.5 * 0.2 * x, abs=1e-6)


def test_which_matrices_there_are() -> None:
    found = matrix_parameters(model(activation="swiglu"))
    assert set(found) == {
        *(f"encoder.0.{name}.weight" for name in ("self_attention.qkv_proj", "self_attention.out_proj")),
        *(f"encoder.0.feedforward.{name}.weight" for name in ("up_proj", "down_proj")),
        *(f"decoder.0.{name}.weight" for name in ("self_attention.qkv_proj", "self_attention.out_proj")),
        *(f"decoder.0.cross_attention.{name}.weight" for name in ("q_proj", "kv_proj", "out_proj")),
        *(f"decoder.0.feedforward.{name}.weight" for name in ("up_proj", "down_proj")),
    }
    assert {name.split(".", 2)[2]: count for name, count in found.items() if count > 1} == {
        "self_attention.qkv_proj.weight": 3,
        "cross_attention.kv_proj.weight": 2,
        "feedforward.up_proj.weight": 2,
    }
    assert set(matrix_parameters(model()).values()) == {1, 2, 3}


def given_gradients(parameters: dict[str, nn.Parameter], seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in parameters.values():
        parameter.grad = torch.randn_like(parameter)


def slow_orthogonal(matrix: Tensor) -> Tensor:
    """The polynomial on each singular value, five times."""
    left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
    sizes = sizes / sizes.square().sum().sqrt()
    for _ in range(5):
        sizes = 3.4445 * sizes - 4.7750 * sizes**3 + 2.0315 * sizes**5
    return left @ torch.diag(sizes) @ right


def test_slow_version() -> None:
    """Matrix by matrix, in the words of the papers; everything else exactly as Adam moves it."""
    settings = TrainingSettings(optimizer="muon", weight_decay=DECAY)
    here, there = model(), model()
    moved, slow = dict(here.named_parameters()), {name: p.detach().clone() for name, p in there.named_parameters()}
    optimizer = build_optimizer(settings, here, moved)
    adam = build_optimizer(settings.model_copy(update={"optimizer": "adam"}), there, dict(there.named_parameters()))
    momentum: dict[str, Tensor] = {name: torch.zeros_like(slow[name]) for name in matrix_parameters(here)}
    for step in range(3):
        for group in (*optimizer.param_groups, *adam.param_groups):
            group["lr"] = RATE / (step + 1)
        for parameters in (moved, dict(there.named_parameters())):
            given_gradients(parameters, seed=step)
        for name, count in matrix_parameters(here).items():
            gradient = moved[name].grad
            assert gradient is not None
            momentum[name] = 0.95 * momentum[name] + gradient
            rows = len(gradient) // count
            for i in range(0, len(gradient), rows):
                direction = slow_orthogonal((gradient + 0.95 * momentum[name])[i : i + rows])
                matrix = slow[name][i : i + rows]
                slow[name][i : i + rows] = (
                    matrix * (1 - RATE / (step + 1) * DECAY)
                    - RATE / (step + 1) * 0.2 * max(direction.shape) ** 0.5 * direction
                )
        optimizer.step()
        adam.step()
    by_adam = dict(there.named_parameters())
    for name, parameter in moved.items():
        if name in momentum:
            assert torch.allclose(parameter, slow[name], atol=1e-6), name
        else:
            assert torch.equal(parameter, by_adam[name]), name


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has none")
def test_as_pytorch_has_it() -> None:
    """Theirs computes in bfloat16, so only about."""
    torch.manual_seed(3)
    ours, theirs = (nn.Parameter(torch.ones(6, 9)) for _ in range(2))
    mine = Muon({ours: 1}, NOTHING_ELSE, DECAY)
    their = torch.optim.Muon([theirs], lr=RATE, weight_decay=DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    mine.param_groups[0]["lr"] = RATE
    for _ in range(4):
        ours.grad = torch.randn(6, 9)
        theirs.grad = 0.05 * ours.grad  # they take the mean of old and new, which is as long as that
        mine.step()
        their.step()
    assert torch.allclose(ours, theirs, atol=0.05 * RATE)
    assert not torch.allclose(ours, torch.ones(6, 9), atol=RATE)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    here = model()
    named = dict(here.named_parameters())
    optimizer = build_optimizer(TrainingSettings(optimizer="muon", weight_decay=DECAY), here, named)
    given_gradients(named, seed=1)
    optimizer.step()
    weights = {name: parameter.detach().clone() for name, parameter in named.items()}
    states = {name: {key: value.clone() for key, value in optimizer.state[p].items()} for name, p in named.items()}
    given_gradients(named, seed=2)
    for parameter in named.values():
        assert parameter.grad is not None
        parameter.grad.view(-1)[0] = torch.inf
        parameter.grad.view(-1)[-1] = torch.nan
    optimizer.found_inf = torch.ones(())  # type: ignore[attr-defined]
    optimizer.step()
    for name, parameter in named.items():
        assert torch.equal(parameter, weights[name])
        for key, value in optimizer.state[parameter].items():
            assert torch.equal(value, states[name][key])


def test_a_gradient_that_is_missing_is_zero() -> None:
    """So the momentum of earlier steps goes on."""
    moved = []
    for last in (None, torch.zeros(3, 4)):
        torch.manual_seed(4)
        first, second = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4))
        muon = Muon({first: 1, second: 1}, NOTHING_ELSE, DECAY)
        first.grad, second.grad = torch.randn(3, 4), torch.randn(3, 4)
        muon.step()
        before = first.detach().clone()
        first.grad = last
        muon.step()
        moved.append((first.detach(), second.detach()))
        assert not torch.equal(first, before)
    for with_none, with_zero in zip(*moved, strict=True):
        assert torch.equal(with_none, with_zero)

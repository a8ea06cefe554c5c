"""Optimizers: Adam (the paper), or Muon, which needs fewer updates (Jordan et al., 2024).

Muon replaces the momentum of each matrix of the layers by the nearest orthogonal matrix, so that it moves as far in
directions that gradients rarely point to as in those they always point to. Its updates have the size of Adam's (Liu et
al., 2025), so both take the same learning rates. Embeddings, biases and the weights of normalisation are updated by
Adam.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from focat.config.schema import TrainingSettings
from focat.model import Transformer
from focat.model.attention import CrossAttention, SelfAttention
from focat.model.layers import FeedForward
from focat.training import fused_muon
from focat.training.adam import Adam, State

_MOMENTUM = 0.95
_LEAST_NORM = 1e-7  # so that zero stays zero
_UPDATE_RMS = 0.2  # root mean square of an update of Adam's, in learning rates
_POLYNOMIAL = 3.4445, -4.7750, 2.0315  # Jordan's: brings every singular value near 1 in few steps
_ITERATIONS = 5


def build_optimizer(
    training: TrainingSettings,
    model: Transformer,
    parameters: Mapping[str, nn.Parameter],
) -> Adam | Muon:
    """Build the optimizer of `training.optimizer`.

    Args:
        training: the settings.
        model: its linear layers are the matrices that Muon updates.
        parameters: what is updated, by the names of the model's parameters.
    """
    adam = training.betas, training.epsilon, training.weight_decay
    if training.optimizer == "adam":
        return Adam(parameters.values(), *adam)
    blocks = matrix_parameters(model)
    return Muon(
        {parameter: blocks[name] for name, parameter in parameters.items() if name in blocks},
        Adam([parameter for name, parameter in parameters.items() if name not in blocks], *adam),
        training.weight_decay,
    )


def matrix_parameters(model: Transformer) -> dict[str, int]:
    """The weights of linear layers by name, and how many matrices are stacked in each."""
    stacked: dict[nn.Module, int] = {}
    for module in model.modules():
        if isinstance(module, SelfAttention):
            stacked[module.qkv_proj] = 3
        elif isinstance(module, CrossAttention):
            stacked[module.kv_proj] = 2
        elif isinstance(module, FeedForward) and module.activation == "swiglu":
            stacked[module.up_proj] = 2
    return {
        f"{name}.weight": stacked.get(module, 1)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }


class Muon:
    """Updates matrices by Muon and all other parameters by Adam, whose groups and state are part of its own.

    Matrices of one shape are updated together, in a few launches: their momenta are one tensor, and views of it are
    the state.

    Args:
        blocks: parameters to update by Muon, and how many matrices are stacked in each.
        others: Adam for all others.
        weight_decay: of the matrices.
    """

    def __init__(self, blocks: Mapping[nn.Parameter, int], others: Adam, weight_decay: float = 0.0) -> None:
        self.others, self.weight_decay = others, weight_decay
        self.param_groups: list[dict[str, Any]] = [{"params": list(blocks), "lr": 1e-3}, *others.param_groups]
        self.state: State = others.state | {parameter: {} for parameter in blocks}
        self.found_inf: Tensor | None = None  # () on the device; where it is 1, a step changes nothing
        by_shape: dict[torch.Size, list[tuple[nn.Parameter, int]]] = {}
        for parameter, count in blocks.items():
            shape = torch.Size((parameter.shape[0] // count, *parameter.shape[1:]))
            by_shape.setdefault(shape, []).append((parameter, count))
        self.stacks = [_Stack(shape, parts) for shape, parts in by_shape.items()]
        for stack in self.stacks:
            for parameter, buffer in zip(stack.parameters, stack.parts(stack.momentum), strict=True):
                self.state[parameter]["momentum"] = buffer.view_as(parameter)

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters and their state; none where `found_inf` is 1."""
        group = self.param_groups[0]
        found = self.found_inf
        infinite = torch.zeros((), device=group["params"][0].device) if found is None else found
        self.others.found_inf = infinite
        self.others.step()
        finite = 1 - infinite
        if self.weight_decay:
            torch._foreach_mul_(group["params"], 1 - group["lr"] * self.weight_decay * finite)
        for stack in self.stacks:
            stack.update(group["lr"], finite)


class _Stack:
    """All matrices of one shape, from parameters that hold one or several of them."""

    def __init__(self, shape: torch.Size, parts: Sequence[tuple[nn.Parameter, int]]) -> None:
        self.shape, self.parameters = shape, [parameter for parameter, _ in parts]
        self.counts = [count for _, count in parts]
        self.momentum = self.parameters[0].new_zeros(sum(self.counts), *shape)

    def parts(self, stacked: Tensor) -> tuple[Tensor, ...]:
        """Split a tensor of all matrices by parameter, (its matrices, rows, columns) each."""
        return torch.split(stacked, self.counts)

    def update(self, rate: float, finite: Tensor) -> None:
        """Add the gradients to the momenta, and subtract these, made orthogonal, from the parameters."""
        gradient = torch.cat([_gradient(parameter).reshape(-1, *self.shape) for parameter in self.parameters])
        step = orthogonal(step_momentum(gradient, self.momentum, finite))
        scale = rate * _UPDATE_RMS * max(self.shape) ** 0.5  # entries of an orthogonal matrix have RMS 1/√max(shape)
        weights = [parameter.view(-1, *self.shape) for parameter in self.parameters]
        exact = step.to(self.momentum.dtype, memory_format=torch.contiguous_format)
        torch._foreach_add_(weights, self.parts(exact), alpha=-scale)


def step_momentum(gradient: Tensor, momentum: Tensor, finite: Tensor) -> Tensor:
    """Add the gradient to the momentum, unless it is not finite; return Nesterov's step, scaled for `orthogonal`.

    The gradient may be overwritten.
    """
    if fused_muon.has_fused_momentum(momentum):
        precision = _precision(momentum)
        return fused_muon.step_momentum(gradient, momentum, finite, _MOMENTUM, _LEAST_NORM, precision)
    gradient = torch.where(finite > 0, gradient, 0)
    momentum.mul_(1 - (1 - _MOMENTUM) * finite).add_(gradient)
    return _scaled(gradient.add_(momentum, alpha=_MOMENTUM).mul_(finite))


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def orthogonalize(matrix: Tensor) -> Tensor:
    """About the nearest orthogonal matrices, (matrices, rows, columns)."""
    found: Tensor = orthogonal(_scaled(matrix)).to(matrix.dtype, memory_format=torch.contiguous_format)
    return found


def _scaled(matrix: Tensor) -> Tensor:
    """Matrices none of whose singular values is above 1, in the precision of the iteration."""
    scaled: Tensor = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) + _LEAST_NORM)
    return scaled.to(_precision(scaled))


def _precision(matrix: Tensor) -> torch.dtype:
    """That of the iteration, which forgives rounding."""
    return torch.bfloat16 if matrix.is_cuda else matrix.dtype


def orthogonal(x: Tensor) -> Tensor:
    """About the nearest orthogonal matrices by a Newton-Schulz iteration, from what `_scaled` gives."""
    a, b, c = _POLYNOMIAL
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    found: Tensor = x if wide else x.mT
    return found

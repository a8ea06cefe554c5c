"""How weights move: Adam (the paper), or Muon, which needs fewer updates (Jordan et al., 2024).

Muon adds up gradients as momentum does, and then moves each matrix of the layers by the nearest orthogonal matrix: as
far in directions that gradients rarely point to as in those they always point to. The size of its moves is that of
Adam's (Liu et al., 2025), so both get along with the same learning rates. Embeddings, biases and the weights of
normalisation are no such matrices, and stay with Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from focat.config.schema import TrainingSettings
from focat.model import Transformer
from focat.model.attention import CrossAttention, SelfAttention
from focat.model.layers import FeedForward

_MOMENTUM = 0.95
_SIZE = 0.2  # root mean square of a move of Adam's, in learning rates
_POLYNOMIAL = 3.4445, -4.7750, 2.0315  # Jordan's: brings every singular value near 1 in few steps
_STEPS = 5


def optimiser_of(
    training: TrainingSettings, model: Transformer, parameters: Mapping[str, nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimiser that the settings ask for; `parameters` are what it moves, by their names in the model."""
    how = {"betas": training.betas, "eps": training.epsilon, "weight_decay": training.weight_decay, "fused": True}
    if training.optimizer == "adam":
        return torch.optim.AdamW(parameters.values(), **how)  # type: ignore[arg-type]
    blocks = matrices(model)
    return Muon(
        {parameter: blocks[name] for name, parameter in parameters.items() if name in blocks},
        torch.optim.AdamW([parameter for name, parameter in parameters.items() if name not in blocks], **how),  # type: ignore[arg-type]
        training.weight_decay,
    )


def matrices(model: Transformer) -> dict[str, int]:
    """The weights of linear layers by name, and how many matrices each is a stack of."""
    stacked: dict[nn.Module, int] = {}
    for module in model.modules():
        if isinstance(module, SelfAttention):
            stacked[module.queries_keys_values] = 3
        elif isinstance(module, CrossAttention):
            stacked[module.keys_values] = 2
        elif isinstance(module, FeedForward) and module.activation == "swiglu":
            stacked[module.wider] = 2
    return {
        f"{name}.weight": stacked.get(module, 1)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }


class Muon(torch.optim.Optimizer):
    """Matrices by Muon, everything else by Adam, whose groups and state are seen beside its own."""

    def __init__(
        self, blocks: Mapping[nn.Parameter, int], others: torch.optim.AdamW, weight_decay: float = 0.0
    ) -> None:
        super().__init__([{"params": list(blocks)}], {"lr": 1e-3, "weight_decay": weight_decay})
        self.blocks, self.others = dict(blocks), others
        self.param_groups += others.param_groups
        self.state = others.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Move all weights; where `found_inf` is 1, none, and nothing is remembered of the gradient."""
        group = self.param_groups[0]
        moved = [parameter for parameter in group["params"] if parameter.grad is not None]
        infinite: Tensor = getattr(self, "found_inf", torch.zeros((), device=moved[0].device))
        self.others.found_inf = infinite  # type: ignore[attr-defined]
        self.others.step(closure)
        finite = 1 - infinite
        usable = finite > 0
        gradients = [torch.where(usable, parameter.grad, 0) for parameter in moved]
        momenta = [self._momentum(parameter) for parameter in moved]
        torch._foreach_mul_(momenta, 1 - (1 - _MOMENTUM) * finite)
        torch._foreach_add_(momenta, gradients)
        ahead = torch._foreach_add(gradients, momenta, alpha=_MOMENTUM)  # where momentum leads next (Nesterov)
        torch._foreach_mul_(ahead, finite)
        if group["weight_decay"]:
            torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"] * finite)
        self._move(moved, ahead, group["lr"])

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        state: dict[str, Tensor] = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        return state["momentum"]

    def _move(self, weights: Sequence[nn.Parameter], directions: Sequence[Tensor], rate: float) -> None:
        """Against the direction of each, made orthogonal; matrices of one shape together."""
        alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for weight, direction in zip(weights, directions, strict=True):
            count = self.blocks[weight]
            for one, its in zip(weight.chunk(count), direction.chunk(count), strict=True):
                alike.setdefault(one.shape, []).append((one, its))
        for shape, pairs in alike.items():
            towards = orthogonal(torch.stack([direction for _, direction in pairs]))
            far = rate * _SIZE * max(shape) ** 0.5  # an orthogonal matrix has entries of this many times less
            torch._foreach_add_([weight for weight, _ in pairs], list(towards.unbind()), alpha=-far)


def orthogonal(matrix: Tensor) -> Tensor:
    """About the nearest matrix whose singular values are all 1, (…, rows, columns), by Newton and Schulz."""
    a, b, c = _POLYNOMIAL
    x = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) + 1e-7)  # no singular value is above 1
    x = x.to(torch.bfloat16 if x.is_cuda else x.dtype)
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    for _ in range(_STEPS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    found: Tensor = (x if wide else x.mT).to(matrix.dtype)
    return found

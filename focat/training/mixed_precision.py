"""Half precision: layers compute with bfloat16 weights, the optimiser moves their float32 masters.

Autocast alone would cast every weight in every layer of every update, in hundreds of launches that a fast GPU waits
for. Here all are copied at once, after the optimiser's step. Normalisation and embeddings stay in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MasterWeights:
    """The weights that are trained, in float32; in full precision they are the model's own."""

    def __init__(self, model: nn.Module, half: bool) -> None:
        self.named: dict[str, nn.Parameter] = dict(model.named_parameters())
        self._working: list[nn.Parameter] = []  # what the layers compute with, where it is not the master itself
        self._masters: list[nn.Parameter] = []
        for prefix, module in model.named_modules() if half else ():
            if isinstance(module, nn.Linear):
                for name, parameter in module.named_parameters(prefix, recurse=False):
                    self.named[name] = nn.Parameter(parameter.detach().clone())
                    self._masters.append(self.named[name])
                    self._working.append(parameter)
                    parameter.data = parameter.data.to(torch.bfloat16)

    def clear_gradients(self) -> None:
        """Before the batches of an update."""
        for parameter in (*self.named.values(), *self._working):
            parameter.grad = None

    def gather_gradients(self) -> list[Tensor]:
        """After them: the gradients of all masters, in float32."""
        pairs = [(m, w.grad) for m, w in zip(self._masters, self._working, strict=True) if w.grad is not None]
        copies = [torch.empty_like(gradient, dtype=torch.float32) for _, gradient in pairs]
        for (master, _), copy in zip(pairs, copies, strict=True):
            master.grad = copy
        if pairs:
            torch._foreach_copy_(copies, [gradient for _, gradient in pairs])
        return [parameter.grad for parameter in self.named.values() if parameter.grad is not None]

    @torch.no_grad()
    def publish(self) -> None:
        """Let the layers compute with what the masters are now."""
        if self._working:
            torch._foreach_copy_(tuple(self._working), tuple(self._masters))

    @torch.no_grad()
    def become(self, weights: dict[str, Tensor]) -> None:
        """Take these weights' values."""
        for name, parameter in self.named.items():
            parameter.copy_(weights[name])
        self.publish()

    def stored(self) -> dict[str, Tensor]:
        """All weights by name, on the CPU, to be saved."""
        return {name: parameter.detach().cpu().contiguous() for name, parameter in self.named.items()}

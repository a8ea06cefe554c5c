"""Adam by PyTorch's fused kernel, which updates all parameters in a few launches and waits for nothing.

`torch.optim.AdamW` calls the same kernel, but imports PyTorch's compiler before its first step, which takes longer than
everything else that happens before the first update. Parameters, state and results are those of `AdamW(fused=True)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

State = dict[nn.Parameter, dict[str, Tensor]]
"""What an optimizer keeps of each parameter, by name."""


class Adam:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Args:
        parameters: what to update, by their `grad`; those without one stay as they are.
        betas, epsilon, weight_decay: as in the publication.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], betas: tuple[float, float], epsilon: float, weight_decay: float
    ) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": 1e-3}]
        self.state: State = {parameter: {} for parameter in self.param_groups[0]["params"]}
        self.betas, self.epsilon, self.weight_decay = betas, epsilon, weight_decay
        self.found_inf: Tensor | None = None  # () on the device; where it is 1, a step changes nothing

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters that have a gradient, with the rate `param_groups[0]["lr"]`."""
        group = self.param_groups[0]
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        if not parameters:
            return
        states = [self._state_of(parameter) for parameter in parameters]
        steps, means, squares = ([each[name] for each in states] for name in ("step", "exp_avg", "exp_avg_sq"))
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            parameters,
            [parameter.grad for parameter in parameters],
            means,
            squares,
            [],
            steps,
            lr=group["lr"],
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
            grad_scale=None,
            found_inf=self.found_inf,
        )
        if self.found_inf is not None:
            torch._foreach_sub_(steps, [self.found_inf] * len(steps))

    def _state_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state

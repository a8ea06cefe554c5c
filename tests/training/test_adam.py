"""Adam takes the steps of PyTorch's, bit for bit, and imports less."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from focat.training.adam import Adam


def test_steps_are_those_of_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = ([nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(7))] for _ in range(2))
    for a, b in zip(ours, theirs, strict=True):
        b.data.copy_(a.data)
    adam = Adam(ours, (0.9, 0.98), 1e-8, 0.1)
    their = torch.optim.AdamW(theirs, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1, fused=True)
    for i in range(6):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = b.grad = None if i == 2 and a.ndim == 1 else torch.randn_like(a)
        infinite = torch.tensor(float(i == 3))
        adam.found_inf = their.found_inf = infinite  # type: ignore[attr-defined]
        adam.param_groups[0]["lr"] = their.param_groups[0]["lr"] = 0.1 / (i + 1)
        adam.step()
        their.step()
        for a, b in zip(ours, theirs, strict=True):
            assert torch.equal(a, b)
            assert {name: value.tolist() for name, value in adam.state[a].items()} == {
                name: value.tolist() for name, value in their.state[b].items()
            }


def test_without_gradients_nothing_happens() -> None:
    parameter = nn.Parameter(torch.ones(2))
    adam = Adam([parameter], (0.9, 0.98), 1e-8, 0.0)
    adam.step()
    assert parameter.tolist() == [1, 1]
    assert not adam.state[parameter]


def test_the_compiler_is_not_imported() -> None:
    code = (
        "import sys, torch; from focat.training.adam import Adam; p = torch.nn.Parameter(torch.ones(2));"
        "p.grad = torch.ones(2); Adam([p], (0.9, 0.98), 1e-8, 0.0).step(); print('torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"

"""How far gates are open (`model.context`, `gated-group`): the share of a token's own representation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from focat.model.context import Gate
from focat.model.transformer import Transformer
from focat.windows.batch import Batch


class GateTallies:
    """Sums of gate weights over tokens of current sentences that have context, by the name of the gate."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.tokens: dict[str, int] = {}
        self._read: list[tuple[str, Tensor]] = []

    def read(self, name: str, _: nn.Module, __: Any, logits: Tensor) -> None:
        """Take what a gate has computed, (windows, length, weights); called by the model."""
        self._read.append((name, logits.detach().sigmoid().double().mean(-1)))

    def add(self, batch: Batch) -> None:
        """Add what the gates have computed for a batch."""
        context = (batch.source.segments.amax(1) > 0)[:, None]  # (windows, 1)
        for name, shares in self._read:
            side = batch.target if name.startswith(("decoder.", "context.target.")) else batch.source
            current = (side.segments == side.current[:, None]) & context  # (windows, length)
            self.sums[name] = self.sums.get(name, 0.0) + float(torch.where(current, shares, 0).sum())
            self.tokens[name] = self.tokens.get(name, 0) + int(current.sum())
        self._read.clear()

    def means(self) -> dict[str, float]:
        """The mean share of each gate."""
        return {name: total / self.tokens[name] for name, total in self.sums.items() if self.tokens[name]}


@contextmanager
def recorded_gates(model: Transformer) -> Iterator[GateTallies]:
    """Record what the gates of a model compute."""
    tallies = GateTallies()
    gates = [(name, module) for name, module in model.named_modules() if isinstance(module, Gate)]
    hooks = [gate.proj.register_forward_hook(partial(tallies.read, name)) for name, gate in gates]
    try:
        yield tallies
    finally:
        for hook in hooks:
            hook.remove()

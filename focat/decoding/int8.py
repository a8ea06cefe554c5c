"""Eight-bit integers instead of floats in the linear layers, on CPUs: products in half the time, weights in a quarter.

Weights have a scale for each output, and inputs one for each token, so that a token's result is the same whatever else
is in its batch.
"""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn

from focat.model import Transformer


class Int8Linear(nn.Module):
    """A linear layer over eight-bit integers."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach().float()
        scales = (weight.abs().amax(1).double() / 127).clamp(min=1e-12)
        zeros = torch.zeros(len(weight), dtype=torch.long)  # integers: with any others nothing would be computed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantised tensors are to leave torch; its layers over them are not
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(quantised, None)
        self.bias = None if bias is None else bias.detach().float()
        # torch takes the range of inputs from a whole batch: scaled to at most 1, and with this row, it is [-1, 1]
        self.range = torch.zeros(1, weight.shape[1])
        self.range[0, 0], self.range[0, -1] = -1, 1

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        rows = x.reshape(-1, x.shape[-1])
        scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-12)
        product = torch.ops.quantized.linear_dynamic(torch.cat((rows / scale, self.range)), self.packed, True)
        result: Tensor = product[:-1].mul_(scale)
        result = result if self.bias is None else result.add_(self.bias)
        return result.view(*x.shape[:-1], -1)


def int8_copy(model: Transformer) -> tuple[Transformer, Int8Linear]:
    """A model whose linear layers compute with integers, and its output projection, which the model shares with its
    embeddings and therefore keeps in floats."""
    quantised = copy.deepcopy(model)
    for module in list(quantised.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child.weight, child.bias))
    return quantised, Int8Linear(model.output_weight, None)

"""Linear layers made for decoding on CPUs, where a step multiplies few rows with all weights of the decoder.

`PackedLinear` has its weights laid out as oneDNN reads them fastest: the same floats, and the same result but for
rounding. `Int8Linear` computes with eight-bit integers: products in half the time, weights in a quarter of the memory.
Its weights have a scale for each output, and inputs one for each token, so that a token's result is the same whatever
else is in its batch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from focat.model import Transformer

_ROWS = 64  # of a usual product, for which the layout is chosen


class PackedLinear(nn.Module):
    """A linear layer whose weights are laid out once, not in every product."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _ROWS)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return product


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


def can_pack(model: Transformer) -> bool:
    """Whether this build of torch can lay out these weights."""
    weight = model.output_weight
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return plain and has_onednn and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def replace_linear(
    linear: Callable[[Tensor, Tensor | None], nn.Module], model: Transformer
) -> tuple[Transformer, Callable[[Tensor], Tensor]]:
    """A model with linear layers of another kind, and its output projection, which the model shares with its embeddings
    and therefore keeps as it is."""
    kept = {id(tensor): tensor for tensor in model.parameters()}  # shared, not copied
    changed = copy.deepcopy(model, kept)
    for module in list(changed.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, linear(child.weight, child.bias))
    return changed, linear(model.output_weight, None)

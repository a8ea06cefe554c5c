"""Linear layers for decoding on CPUs, where a step multiplies few rows with all weights of the decoder.

`PackedLinear` stores its weights in the layout of oneDNN: the same floats, and the same result but for rounding.
`Bfloat16Linear` multiplies numbers of sixteen bits, on CPUs that have instructions for it. `VnniLinear` computes with
eight-bit integers, and so does `Int8Linear` on CPUs that have no instructions for them: half the time, a quarter of the
memory. Weights have a scale for each output and inputs one for each token, so that the result of a token does not
depend on its batch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.config.schema import SearchSettings
from focat.decoding.quantisation import ZERO, quantise_rows, unscale_rows
from focat.model import Transformer
from focat.model.layers import FeedForward

_ROWS = 64  # typical number of rows, for which the layout is chosen


class PackedLinear(nn.Module):
    """A linear layer whose weights are packed once, instead of in every product.

    oneDNN compiles a kernel for each number of rows and keeps it until the process ends, a quarter of a megabyte each.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> None:
        super().__init__()
        self.relu = relu  # what is negative becomes 0
        self.round_rows = False
        """Whether rows are added up to one of few numbers: for processes that last, and see all numbers in time."""
        self.packed = self._pack(weight.detach().contiguous())
        self.bias = None if bias is None else bias.detach()

    def _pack(self, weight: Tensor) -> Tensor:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        return packed

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        count = x.shape[:-1].numel()
        added = rounded_rows(count) - count if self.round_rows else 0
        if added:
            rows = F.pad(x.reshape(count, -1), (0, 0, 0, added))  # (rows, inputs)
            return self._multiply(rows)[:count].view(*x.shape[:-1], -1)
        return self._multiply(x)

    def _multiply(self, x: Tensor) -> Tensor:
        activation = "relu" if self.relu else "none"
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, activation, [], "")
        return product


def rounded_rows(rows: int) -> int:
    """The next number of rows that has a kernel: all up to 8, then four for each power of two."""
    step: int = 1 << max((rows - 1).bit_length() - 3, 0)
    return -(-rows // step) * step


class Bfloat16Linear(PackedLinear):
    """A packed linear layer that multiplies in bfloat16. Sums are float32, and are rounded to bfloat16 at the end."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> None:
        super().__init__(weight.bfloat16(), None)
        self.added = None if bias is None else bias.detach()
        self.relu_of_sum = relu

    def _multiply(self, x: Tensor) -> Tensor:
        product = super()._multiply(x.bfloat16()).float()
        total = product if self.added is None else product.add_(self.added)
        return total.relu_() if self.relu_of_sum else total


class VnniLinear(PackedLinear):
    """A packed linear layer that computes with eight-bit integers, on CPUs with instructions for it (VNNI)."""

    def _pack(self, weight: Tensor) -> Tensor:
        self.scales = (weight.float().abs().amax(1) / 127).clamp(min=1e-12)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        quantised = (weight / self.scales[:, None]).round().to(torch.int8)
        packed: Tensor = torch.ops.onednn.qlinear_prepack(quantised, [_ROWS, weight.shape[1]])
        return packed

    def _multiply(self, x: Tensor) -> Tensor:
        rows, scales = quantise_rows(x.reshape(-1, x.shape[-1]).contiguous())
        weight = self.packed, self.scales, self.zeros
        product = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, ZERO, *weight, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return unscale_rows(product, scales, self.bias, self.relu).view(*x.shape[:-1], -1)


class Int8Linear(nn.Module):
    """A linear layer that computes with eight-bit integers, on any CPU; of inputs, it uses seven bits."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> None:
        super().__init__()
        self.relu = relu
        weight = weight.detach().float()
        scales = (weight.abs().amax(1).double() / 127).clamp(min=1e-12)
        zeros = torch.zeros(len(weight), dtype=torch.long)  # other types are accepted, but compute nothing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantised tensors are deprecated; the operators that use them are not
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(quantised, None)
        self.bias = None if bias is None else bias.detach().float()
        # torch takes the range of inputs from the whole batch; with this row it is [-1, 1], to which inputs are scaled
        self.range = torch.zeros(1, weight.shape[1])
        self.range[0, 0], self.range[0, -1] = -1, 1

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        rows = x.reshape(-1, x.shape[-1])
        scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-12)
        product = torch.ops.quantized.linear_dynamic(torch.cat((rows / scale, self.range)), self.packed, True)
        result: Tensor = product[:-1].mul_(scale)
        result = result if self.bias is None else result.add_(self.bias)
        result = result.relu_() if self.relu else result
        return result.view(*x.shape[:-1], -1)


def can_pack(model: Transformer) -> bool:
    """Whether this build of torch can pack the weights of this model."""
    weight = model.output_weight
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return plain and has_onednn and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def has_bfloat16() -> bool:
    """Whether this CPU and this build of torch multiply in bfloat16."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_vnni() -> bool:
    """Whether this CPU and this build of torch multiply bytes by `VnniLinear`; elsewhere, their sums may overflow."""
    supported = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and hasattr(torch.ops.onednn, "qlinear_prepack") and bool(supported())


def replace_linear(model: Transformer, settings: SearchSettings) -> tuple[Transformer, Callable[[Tensor], Tensor]]:
    """A copy of the model with linear layers as the settings ask for, and its output projection as such a layer.

    With `bfloat16` the projection stays float32: rounded logits would make hypotheses equal that are not. All other
    weights are shared with the model. It keeps its own output projection, which is that of its embeddings.
    """
    linear: type[nn.Module] = PackedLinear
    if settings.int8:
        linear = VnniLinear if has_vnni() else Int8Linear
    elif settings.bfloat16:
        linear = Bfloat16Linear
    projection = PackedLinear if settings.bfloat16 else linear
    kept = {id(tensor): tensor for tensor in model.parameters()}  # shared, not copied
    changed = copy.deepcopy(model, kept)
    for module in list(changed.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                relu = False
                if isinstance(module, FeedForward) and name == "up_proj" and module.activation == "relu":
                    relu, module.activation = True, "none"
                setattr(module, name, linear(child.weight, child.bias, relu))
    return changed, projection(model.output_weight, model.output_bias)

"""Keys and values of the encoded source for all layers of the decoder over packed windows, in one product on GPUs.

A product several times as wide computes faster, forward and backward, and what all layers add to the gradient of the
encoded source is one sum inside of a product instead of a pass over memory for each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focat.model.fused_layers import has_fused_layers, sum_columns


def project_source(encoded: Tensor, projections: Sequence[nn.Linear], heads: int) -> list[Tensor]:
    """Keys and values for each projection, (tokens, 2, heads, head width), of the encoded source, (1, tokens, width).

    On GPUs they are views of one tensor, whose memory `packed_attention` may use for their gradients.
    """
    tokens = encoded.flatten(0, 1)  # (tokens, width)
    if not (has_fused_layers(tokens) and all(each.weight.dtype == tokens.dtype for each in projections)):
        return [each(tokens).view(len(tokens), 2, heads, -1) for each in projections]
    weights, biases = [each.weight for each in projections], [each.bias for each in projections]
    found: tuple[Tensor, ...] = _ProjectSource.apply(tokens, heads, *weights, *biases)  # type: ignore[no-untyped-call]
    return list(found)


class _ProjectSource(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, heads: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        count = len(parameters) // 2
        weight = torch.cat(parameters[:count])  # (projections · 2 · width, width)
        output = F.linear(tokens, weight, torch.cat(parameters[count:]))
        ctx.save_for_backward(tokens, weight, output)
        return output.view(len(tokens), count, 2, heads, -1).unbind(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tokens, weight, output = ctx.saved_tensors
        places = output.view(len(tokens), len(gradients), -1).unbind(1)
        in_place = all(each.data_ptr() == place.data_ptr() for each, place in zip(gradients, places, strict=True))
        gradient = output if in_place else torch.stack(gradients, 1).view(output.shape)
        of_tokens, parts = gradient @ weight, len(gradients)
        if not any(ctx.needs_input_grad[2:]):
            return of_tokens, *[None] * (1 + 2 * parts)
        of_biases = sum_columns(gradient, weight.dtype)
        return of_tokens, None, *(gradient.T @ tokens).chunk(parts), *of_biases.chunk(parts)

"""The encoder of context sentences, and what mixes its output into the encoded source (`model.context`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from focat.config.schema import ModelSettings, WindowSettings
from focat.model.attention import WeightsOut
from focat.model.context import ContextAttention, ContextKeys
from focat.model.global_layer import GlobalLayer
from focat.model.hierarchical_context import HierarchicalContext
from focat.model.layers import ContextPlace, EncoderLayer
from focat.model.positions import RotaryAngles
from focat.windows.batch import PaddedSequences


def encoder_place(settings: ModelSettings, layer: int) -> ContextPlace | None:
    """How a layer of the encoder attends to the context, if at all."""
    match settings.context and settings.context.at:
        case "encoder-last":
            return "parallel" if layer == settings.encoder_layers - 1 else None
        case "every-layer":
            return "serial"
        case _:
            return None


def decoder_place(settings: ModelSettings) -> ContextPlace | None:
    """How the layers of the decoder attend to the context, if at all."""
    match settings.context and settings.context.at:
        case "decoder":
            return "parallel"
        case "every-layer":
            return "serial"
        case _:
            return None


class ContextEncoder(nn.Module):
    """What the context has for itself: layers, and the attentions after encoder and decoder; nothing without
    `model.context`."""

    def __init__(self, settings: ModelSettings, windows: WindowSettings) -> None:
        super().__init__()
        context = settings.context
        self.kind = "shared" if context is None else context.encoder
        count = 0 if context is None else {"shared": 0, "last-own": 1, "separate": context.layers}[context.encoder]
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(count))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm == "pre" and count else nn.Identity()
        top: nn.Module | None = None
        self.target: HierarchicalContext | None = None
        if context is not None and context.of != "source":
            self.target = HierarchicalContext(settings)
        if context is not None and context.at == "encoder-top" and context.of != "target":
            top = HierarchicalContext(settings) if context.hierarchical else ContextAttention(settings)
        elif context is not None and context.at == "global-layer":
            top = GlobalLayer(settings, windows.size)
        self.top = top

    def encode(self, x: Tensor, mask: Tensor, rope: RotaryAngles | None) -> Tensor:
        """Run the context's own layers over x, (windows, source length, width); the output has the same shape."""
        for layer in self.layers:
            x = layer(x, mask, rope)
        encoded: Tensor = self.norm(x)
        return encoded

    def mix(
        self,
        hidden: Tensor,
        context: Tensor,
        source: PaddedSequences,
        keys: ContextKeys,
        distances: Sequence[int],
        weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """The encoded source with context mixed in after the encoder, if anywhere.

        Args:
            hidden: (windows, source length, width), each sentence encoded alone.
            context: the same shape, the encoded context.
            source: the windows.
            keys: which of their tokens are context.
            distances: of the context sentences that a window can have.
            weights_out: if given, the attention weights of a layer over the window are appended to it.

        Returns:
            The shape of `hidden`.
        """
        mixed: Tensor = hidden
        if isinstance(self.top, HierarchicalContext):
            sentences = [(keys.distance == distance)[:, None] for distance in distances]  # (windows, 1, length) each
            mixed = self.top(hidden, self.top.project_kv(context), sentences)
            if self.target is not None:  # which attends to translations of context sentences that are encoded alone
                mixed = torch.where((keys.distance == 0)[..., None], mixed, hidden)
        elif isinstance(self.top, GlobalLayer):
            mixed = self.top(hidden, source.segments, weights_out)
        elif isinstance(self.top, ContextAttention):
            mixed = self.top(hidden, hidden, self.top.attention.project_kv(context), keys)
        return mixed

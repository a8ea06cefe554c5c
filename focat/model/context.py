"""Context attention: the current sentence attends to context sentences that are encoded apart, through a gate.

The systems that the paper compares with (section 4.4 and related work) encode each sentence of a window alone. What
they add to a Transformer is one attention whose keys are the tokens of other segments, and a gate: flat (Voita et al.,
2018; Zhang et al., 2018; Li et al., 2020) or hierarchical (`hierarchical_context`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, init_blocks
from focat.windows.batch import PaddedSequences


@dataclass(frozen=True)
class ContextKeys:
    """Which tokens of a batch of source windows are context."""

    mask: Tensor  # (windows, 1, 1, source length) tokens of context sentences; all tokens where there are none
    present: Tensor  # (windows, 1, 1) whether a window has context
    distance: Tensor  # (windows, source length) sentences between a token and the current one; 0 on padding

    @classmethod
    def of(cls, source: PaddedSequences) -> ContextKeys:
        """The context tokens of these windows."""
        real = source.segments >= 0
        distance = torch.where(real, source.current[:, None] - source.segments, 0)
        context = distance != 0
        present = context.any(-1)
        return cls(keys_or_all(context, present), present[:, None, None], distance)


def keys_or_all(keys: Tensor, present: Tensor) -> Tensor:
    """A mask of these keys, (windows, length); of all where there are none: to see nothing would be not a number."""
    return (keys | ~present[:, None])[:, None, None, :]


class Gate(nn.Module):
    """Mixes a token's own representation with what it found in the context, by weights that depend on both."""

    def __init__(self, width: int, weights: int) -> None:
        super().__init__()
        self.proj = nn.Linear(2 * width, weights)
        init_blocks(self.proj)

    @classmethod
    def of_context(cls, settings: ModelSettings) -> Gate:
        """The gate of a context attention: one weight for each feature, or one for the token."""
        assert settings.context is not None
        return cls(settings.d_model, settings.d_model if settings.context.gate == "feature" else 1)

    def share(self, own: Tensor, found: Tensor) -> Tensor:
        """How much of its own representation a token keeps, (windows, length, weights)."""
        share: Tensor = self.proj(torch.cat((own, found), -1)).sigmoid()
        return share

    def forward(self, own: Tensor, found: Tensor, present: Tensor) -> Tensor:
        """The mixture, (windows, length, width); `own` where a window has no context."""
        share = torch.where(present, self.share(own, found), 1.0)
        return own + (1 - share) * (found - own)


class ContextAttention(nn.Module):
    """Attention to all words of the context at once, and its gate."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = CrossAttention(settings.d_model, settings.heads, settings.attention_dropout)
        self.gate = Gate.of_context(settings)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self,
        own: Tensor,
        queries: Tensor,
        keys_values: tuple[Tensor, Tensor],
        keys: ContextKeys,
    ) -> Tensor:
        """Mix context into `own`.

        Args:
            own: (windows, length, width), what is mixed with the context.
            queries: the same shape; what attends to the context.
            keys_values: of the context, from `attention.project_kv`.
            keys: which of these are context.

        Returns:
            The shape of `own`.
        """
        found = self.dropout(self.attention(queries, *keys_values, keys.mask))
        mixed: Tensor = self.gate(own, found, keys.present)
        return mixed

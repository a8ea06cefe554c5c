"""Hierarchical context attention: a token attends to the words of each context sentence, then to the sentences.

The context module of Lupo et al. (2022, "Divide and Rule"), after Miculicich et al. (2018, HAN). No residual connection
leads around its attentions, so that context enters through the gate alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention
from focat.model.context import ContextKeys, Gate, keys_or_all
from focat.model.layers import FeedForward


class HierarchicalContext(nn.Module):
    """Attention to the words of each context sentence, then to the sentences; feed-forward, gate and normalisation."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        assert settings.context is not None
        width = settings.d_model
        self.detach = settings.context.detach
        self.words = CrossAttention(width, settings.heads, settings.attention_dropout)
        self.sentences = CrossAttention(width, settings.heads, settings.attention_dropout)
        self.feedforward = FeedForward(settings)
        self.gate = Gate.of_context(settings)
        self.word_norm, self.sentence_norm, self.feedforward_norm, self.norm = (nn.LayerNorm(width) for _ in range(4))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self,
        hidden: Tensor,
        context: Tensor,
        keys: ContextKeys,
        distances: Sequence[int],
    ) -> Tensor:
        """Mix context into the encoded source.

        Args:
            hidden: (windows, length, width), the encoded source.
            context: the same shape, the encoded context.
            keys: which of its tokens are context.
            distances: of the context sentences that a window can have.

        Returns:
            The shape of `hidden`.
        """
        queries, states = (hidden.detach(), context.detach()) if self.detach else (hidden, context)
        keys_values = self.words.project_kv(states)
        found, present = [], []
        for distance in distances:
            sentence = keys.distance == distance  # (windows, length)
            present.append(sentence.any(-1))
            words = self.words(queries, *keys_values, keys_or_all(sentence, present[-1]))
            found.append(self.word_norm(self.dropout(words)))
        summary = self._attend_to_sentences(queries, torch.stack(found, 2), torch.stack(present, 1))
        summary = self.sentence_norm(self.dropout(summary))
        summary = self.feedforward_norm(summary + self.dropout(self.feedforward(summary)))
        mixed: Tensor = self.norm(self.gate(hidden, summary, keys.present))
        return mixed

    def _attend_to_sentences(self, queries: Tensor, found: Tensor, present: Tensor) -> Tensor:
        """Each token attends to what it found in each sentence.

        Args:
            queries: (windows, length, width).
            found: (windows, length, sentences, width).
            present: (windows, sentences) whether a window has the sentence.
        """
        windows, length, sentences, width = found.shape
        mask = (present | ~present.any(-1, keepdim=True))[:, None, None, None].expand(-1, length, -1, -1, -1)
        keys, values = self.sentences.project_kv(found.reshape(windows * length, sentences, width))
        attended: Tensor = self.sentences(
            queries.reshape(-1, 1, width), keys, values, mask.reshape(-1, 1, 1, sentences)
        )
        return attended.view_as(queries)

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
from focat.model.context import Gate
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

    def project_kv(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the words of context sentences, (windows, length, width) encoded."""
        return self.words.project_kv(states.detach() if self.detach else states)

    def forward(self, hidden: Tensor, keys_values: tuple[Tensor, Tensor], sentences: Sequence[Tensor]) -> Tensor:
        """Mix context into each token.

        Args:
            hidden: (windows, length, width).
            keys_values: of the words, from `project_kv`.
            sentences: which words are of the first context sentence, of the second and so on, (windows, length or 1,
                words) each; none where a token has no such sentence.

        Returns:
            The shape of `hidden`.
        """
        mixed: Tensor = hidden
        if sentences:
            queries = hidden.detach() if self.detach else hidden
            found = []
            for words in sentences:
                seen = words | ~words.any(-1, keepdim=True)  # to see nothing would be not a number
                found.append(self.word_norm(self.dropout(self.words(queries, *keys_values, seen[:, None]))))
            present = torch.stack([words.any(-1) for words in sentences], -1)  # (windows, length or 1, sentences)
            summary = self._attend_to_sentences(queries, torch.stack(found, 2), present)
            summary = self.sentence_norm(self.dropout(summary))
            summary = self.feedforward_norm(summary + self.dropout(self.feedforward(summary)))
            mixed = self.gate(hidden, summary, present.any(-1, keepdim=True))
        normalised: Tensor = self.norm(mixed)
        return normalised

    def _attend_to_sentences(self, queries: Tensor, found: Tensor, present: Tensor) -> Tensor:
        """Each token attends to what it found in each sentence.

        Args:
            queries: (windows, length, width).
            found: (windows, length, sentences, width).
            present: (windows, length or 1, sentences) whether there is the sentence.
        """
        windows, length, sentences, width = found.shape
        mask = (present | ~present.any(-1, keepdim=True)).expand(-1, length, -1)
        keys, values = self.sentences.project_kv(found.reshape(windows * length, sentences, width))
        attended: Tensor = self.sentences(
            queries.reshape(-1, 1, width), keys, values, mask.reshape(-1, 1, 1, sentences)
        )
        return attended.view_as(queries)

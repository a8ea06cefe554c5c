"""HAN in the decoder (Miculicich et al., 2018): top states attend to those of the translations before, through a gate.

Each sentence is translated alone; before the output projection, a token of the current sentence attends to the words
of each translation before, then to the sentences (`hierarchical_context`).

Different from the publication: states of the translations before are those of sentences alone, also where the encoder
has hierarchical attention of its own: it acts on the current sentence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from focat.model.attention import WeightsOut
from focat.model.hierarchical_context import HierarchicalContext
from focat.model.kv_cache import EncoderOutput, TreeKVCache
from focat.model.masks import opened_segments
from focat.model.sentence_decoder import SentenceDecoder
from focat.windows.batch import PaddedSequences, Sequences


class HierarchicalDecoderTransformer(SentenceDecoder):
    """A Transformer with hierarchical attention after its decoder."""

    @property
    def _top(self) -> HierarchicalContext:
        assert self.context is not None
        assert self.context.target is not None
        return self.context.target

    @property
    def _distances(self) -> range:
        """Of the context sentences that a target window can have."""
        return range(1, self.windows.target[0] + 1)

    def decode(
        self,
        encoded: EncoderOutput,
        target_input: Sequences,
        weights_out: WeightsOut | None = None,
        cross_weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Run the decoder over all sentences, and mix context into the current ones; see `Transformer.decode`."""
        assert isinstance(target_input, PaddedSequences)
        states = self.sentence_states(encoded.hidden, encoded.source, target_input, weights_out, cross_weights_out)
        distance = target_input.current[:, None] - opened_segments(target_input)  # (windows, length)
        real = target_input.segments >= 0
        sentences = [((distance == away) & real)[:, None] for away in self._distances]
        mixed = self._top(states, self._top.project_kv(states), sentences)
        return torch.where((distance == 0)[..., None], mixed, states)

    @property
    def _cached_layers(self) -> int:
        """Of the decoder, and of the attention to words of translations."""
        return len(self.decoder) + 1

    @torch.no_grad()
    def decode_step(
        self,
        cache: TreeKVCache,
        tokens: Tensor,
        columns: int | None = None,
        last_only: bool = False,
        branches: Tensor | None = None,
    ) -> Tensor:
        """Run the decoder over the next tokens of each hypothesis; see `Transformer.decode_step`."""
        rows, new = tokens.shape
        inputs = self.step_inputs(cache, tokens, columns, branches)
        *layers, words = inputs.cached.layers
        states = self.step_states(cache, inputs, layers, cache.cross_kv)
        keys_values = words.append(*self._top.project_kv(states))
        behind = inputs.behind(cache.current)[:, None]  # (windows, 1, columns)
        sentences = [inputs.cached.mask[:, 0] & (behind == away) for away in self._distances]
        mixed = self._top(states, keys_values, sentences)
        hidden = torch.where((inputs.distance == 0)[..., None], mixed, states).view(rows, new, -1)
        return hidden[:, -1:] if last_only else hidden

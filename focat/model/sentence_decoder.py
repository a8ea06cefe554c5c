"""A decoder that translates each sentence of a window alone, as a sentence-level system does.

It sees the sentence that it translates, and what it has written of it: own-sentence masks, positions that start again
in each sentence, and the start symbol at the beginning of each. What systems make of its states is theirs: a second
decoder (`two_pass`) or hierarchical attention (`hierarchical_decoder`). They predict the current sentence alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from focat.corpus.vocabulary import PAD, SEPARATOR, START
from focat.model.attention import LayerKV, WeightsOut
from focat.model.embeddings import Embedded
from focat.model.kv_cache import AttentionInputs, TreeKVCache
from focat.model.masks import causal_mask, opened_segments, own_sentence_mask, padding_mask
from focat.model.positions import sentence_positions
from focat.model.transformer import Transformer
from focat.windows.batch import PaddedSequences, Sequences


@dataclass(frozen=True)
class StepInputs:
    """The next tokens of all hypotheses, each in its own sentence; `queries` is beam · new."""

    cached: AttentionInputs
    tokens: Tensor  # (windows, queries)
    own: Tensor  # (windows, 1, queries, columns) tokens of the same sentence, up to and including each
    distance: Tensor  # (windows, queries) sentences between the current one and that of each token
    embedded: Embedded

    def behind(self, current: Tensor) -> Tensor:
        """Sentences between the current one, (windows,), and that of each node: (windows, columns)."""
        return current[:, None] - self.cached.key_segments


class SentenceDecoder(Transformer):
    """A Transformer whose decoder translates each sentence alone."""

    predicts_context = False

    def sentence_states(
        self,
        encoded: Tensor,
        source: Sequences,
        target_input: PaddedSequences,
        weights_out: WeightsOut | None = None,
        cross_weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Top states of the decoder over all sentences of the target, (windows, length, width).

        Args:
            encoded: (windows, source length, width).
            source: the windows that were encoded.
            target_input: what the decoder reads.
            weights_out, cross_weights_out: if given, the weights of self- and cross-attention are appended to them.
        """
        opened = opened_segments(target_input)
        length = opened.shape[1]
        words = replace(target_input, tokens=as_input(target_input.tokens))
        embedded = self._embed(words, sentence_positions(opened), self.target_embedding, self.target_positions)
        own = own_sentence_mask(opened, opened, causal_mask(length, length, opened.device))
        cross = self.own_source_mask(source, target_input.current[:, None] - opened)
        x = embedded.x
        for layer in self.decoder:
            run = layer if self.training and weights_out is None else layer.forward
            x = run(x, encoded, own, cross, embedded.rope, weights_out, cross_weights_out)
        states: Tensor = self.decoder_norm(x)
        return states

    def own_source_mask(self, source: Sequences, distance: Tensor) -> Tensor:
        """What target tokens see of the source: the sentence they translate, by how far it is from the current one."""
        assert isinstance(source, PaddedSequences)
        behind = source.current[:, None] - source.segments
        return own_sentence_mask(distance, behind, padding_mask((source.segments >= 0) & (behind >= 0)))

    def step_inputs(
        self, cache: TreeKVCache, tokens: Tensor, columns: int | None, branches: Tensor | None
    ) -> StepInputs:
        """Add the next tokens, (rows, new), to a cache; see `Transformer.decode_step`."""
        windows = cache.current.shape[0]
        inputs = cache.append(tokens, columns, branches)
        same = inputs.query_segments[:, :, None] == inputs.key_segments[:, None]  # (windows, queries, columns)
        own = inputs.mask & same[:, None]
        real = tokens.reshape(windows, -1) != PAD
        sequences = PaddedSequences(
            as_input(tokens.reshape(windows, -1)), torch.where(real, inputs.query_segments, -1), cache.current
        )
        positions = (own[:, 0].sum(-1) - 1).clamp(min=0)  # (windows, queries)
        embedded = self._embed(sequences, positions, self.target_embedding, self.target_positions)
        distance = cache.current[:, None] - inputs.query_segments
        return StepInputs(inputs, sequences.tokens, own, distance, embedded)

    def step_states(
        self, cache: TreeKVCache, inputs: StepInputs, layers: Sequence[LayerKV], source_kv: Tensor
    ) -> Tensor:
        """Top states of the next tokens, (windows, queries, width).

        Args:
            cache: what has been read so far.
            inputs: of `step_inputs`.
            layers: keys and values of the decoder's layers.
            source_kv: (layers, 2, windows, heads, source length, head width).
        """
        cross_mask = self.own_source_mask(cache.source, inputs.distance)
        x = inputs.embedded.x
        for layer, kv, (keys, values) in zip(self._decoder_layers, layers, source_kv, strict=True):
            x = layer.decode_step(x, kv, keys, values, inputs.own, cross_mask, inputs.embedded.rope)
        states: Tensor = self.decoder_norm(x)
        return states


def as_input(tokens: Tensor) -> Tensor:
    """A separator opens a sentence, which begins with the start symbol where it is alone."""
    return tokens.masked_fill(tokens == SEPARATOR, START)

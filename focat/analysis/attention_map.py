"""Attention weights of one window, between its tokens or its words, as the report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from focat.corpus.tokenizer import Tokenizer, Vocabulary
from focat.model.transformer import Transformer
from focat.windows.texts import WindowText, batch_texts

Weights = NDArray[np.float32]


def attention_map(
    model: Transformer, tokenizer: Tokenizer, source: Sequence[str], target: Sequence[str]
) -> AttentionMap:
    """Compute where a model attends while it reads and writes a window.

    Args:
        source: sentences of the window, the current one last.
        target: their translations.
    """
    batch = batch_texts(tokenizer, [WindowText(source, target)])
    device = str(model.output_weight.device)
    found = model.attention(batch.source.to(device), batch.target.to(device))
    encoder, decoder, cross = (
        torch.stack([layer[0] for layer in stack]).float().cpu().numpy()
        for stack in (found.encoder, found.decoder, found.cross)
    )
    return AttentionMap(
        _pieces(tokenizer.source, batch.source.tokens[0].tolist()),
        _pieces(tokenizer.target, batch.target.tokens[0].tolist()),
        batch.source.segments[0].tolist(),
        batch.target.segments[0].tolist(),
        encoder,
        decoder,
        cross,
    )


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights of one window, each (layers, heads, queries, keys); rows sum to one."""

    source: list[str]
    """The tokens of the source: `<S>` closes a sentence, `<E>` the window."""
    target: list[str]
    """The tokens of the target; row t of `decoder` and `cross` is where token t was predicted."""
    source_segments: list[int]
    """The sentence of each source token."""
    target_segments: list[int]
    """The sentence of each target token."""
    encoder: Weights
    """Self-attention of the encoder."""
    decoder: Weights
    """Self-attention of the decoder: key 0 is the start symbol, key t is token t - 1."""
    cross: Weights
    """Attention of the decoder to the source."""

    def by_word(self) -> AttentionMap:
        """Sum attention over the pieces of each key word, and average it over those of each query word."""
        source, target = _words(self.source), _words(self.target)
        return AttentionMap(
            [_word_text(self.source, word) for word in source],
            [_word_text(self.target, word) for word in target],
            [self.source_segments[word[0]] for word in source],
            [self.target_segments[word[0]] for word in target],
            _merge_pieces(self.encoder, source, source),
            _merge_pieces(self.decoder, target, [[0], *([i + 1 for i in word] for word in target[:-1])]),
            _merge_pieces(self.cross, target, source),
        )


def _pieces(vocabulary: Vocabulary, tokens: Sequence[int]) -> list[str]:
    return [vocabulary.piece(token) for token in tokens]


def _words(pieces: Sequence[str]) -> list[list[int]]:
    """Indices of the pieces of each word; `<S>` and `<E>` are words of their own."""
    words: list[list[int]] = []
    separators = {"<S>", "<E>"}
    for i, piece in enumerate(pieces):
        if not words or piece.startswith("▁") or piece in separators or pieces[i - 1] in separators:
            words.append([i])
        else:
            words[-1].append(i)
    return words


def _word_text(pieces: Sequence[str], word: Sequence[int]) -> str:
    return "".join(pieces[i] for i in word).removeprefix("▁")


def _merge_pieces(weights: Weights, queries: Sequence[Sequence[int]], keys: Sequence[Sequence[int]]) -> Weights:
    summed = np.stack([weights[..., list(word)].sum(-1) for word in keys], -1)
    return np.stack([summed[..., list(word), :].mean(-2) for word in queries], -2)

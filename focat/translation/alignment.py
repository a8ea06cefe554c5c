"""Which words of a translation belong to which words of its source, from the model's cross-attention.

A sentence and its translation are read alone, by teacher forcing, so that an alignment depends on nothing else: not
on the batch, not on the context, not on how the translation came about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focat.corpus.tokenizer import Tokenizer, Vocabulary
from focat.model.transformer import Transformer
from focat.windows.builder import join_window, pad_windows

Span = tuple[int, int]
"""Where a word begins and ends in its sentence, in characters."""
Weights = NDArray[np.float64]

# scripts without spaces: Thai to Lao, Burmese, Khmer, Japanese, Chinese
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
# a mark of punctuation is a word of its own, and so is a letter of these scripts
_WORD = re.compile(rf"{_UNSPACED}|(?:(?!{_UNSPACED})\w)+|[^\w\s]")
_ROUNDS = 3
_MAX_WORDS = 1000  # no sentence that people write has as many


@dataclass(frozen=True)
class WordAlignment:
    """How much each word of a translation belongs to each word of its source."""

    source: tuple[Span, ...]
    target: tuple[Span, ...]
    weights: Weights
    """(target words, source words); rows sum to one at most."""


def word_spans(text: str) -> tuple[Span, ...]:
    """The words and punctuation marks of a sentence; of a very long one, as many words together as it takes.

    What is computed with them grows with the square of their number.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    together = max(-(-len(words) // _MAX_WORDS), 1)
    groups = (words[i : i + together] for i in range(0, len(words), together))
    return tuple((group[0][0], group[-1][1]) for group in groups)


def positional_alignment(source: str, target: str) -> WordAlignment:
    """Align words by their position alone: where nothing else is known of a translation."""
    source_words, target_words = word_spans(source), word_spans(target)
    rows, columns = len(target_words), len(source_words)
    ends, starts = np.arange(rows + 1) * columns, np.arange(columns + 1) * rows  # the same length, in whole numbers
    overlap = np.minimum(ends[1:, None], starts[1:]) - np.maximum(ends[:-1, None], starts[:-1])
    return WordAlignment(source_words, target_words, np.clip(overlap, 0, None) / max(columns, 1))


def align_words(
    model: Transformer,
    tokenizer: Tokenizer,
    source: str,
    target: str,
    chunks: Iterable[tuple[Sequence[int], Sequence[int]]],
) -> WordAlignment:
    """Align the words of a sentence and its translation.

    Args:
        source: the sentence as the model saw it.
        target: its translation.
        chunks: the tokens of both, in as many parts as it was translated in.
    """
    pairs = [(list(tokens), list(translated)) for tokens, translated in chunks]
    source_words, target_words = word_spans(source), word_spans(target)
    source_tokens, target_tokens = ([t for pair in pairs for t in pair[side]] for side in (0, 1))
    source_ends, source_word_ends = _ends(tokenizer.source, source, source_words, source_tokens)
    target_ends, target_word_ends = _ends(tokenizer.target, target, target_words, target_tokens)
    weights = np.zeros((len(target_words), len(source_words)))
    sizes = np.zeros((len(target_words), 1))  # tokens of each target word
    row = column = 0
    for tokens, translated in pairs:  # (tokens, words) of a whole long sentence would fill the memory
        of_target = _shares(target_ends[row : row + len(translated) + 1], target_word_ends)
        of_source = _shares(source_ends[column : column + len(tokens) + 1], source_word_ends)
        weights += of_target.T @ _token_attention(model, tokens, translated) @ of_source
        sizes += of_target.sum(0)[:, None]
        row, column = row + len(translated), column + len(tokens)
    weights /= np.where(sizes > 0, sizes, 1.0)
    _align_equal_words(weights, [source[a:b] for a, b in source_words], [target[a:b] for a, b in target_words])
    return WordAlignment(source_words, target_words, _balance(weights))


@torch.no_grad()
def _token_attention(model: Transformer, source: list[int], target: list[int]) -> Weights:
    """(target tokens, source tokens), the mean over the heads of one layer.

    Layers differ in what they look at, and models in their layers. The one that is taken looks at every source token
    at some time: that is what an alignment does, and what looking always at the same token does not.
    """
    if not source or not target:
        return np.zeros((len(target), len(source)))
    device = str(model.output_weight.device)
    windows = [pad_windows([join_window([tokens])], [0]).to(device) for tokens in (source, target)]
    layers = [layer[0].mean(0)[:-1, :-1] for layer in model.attention(*windows).cross]  # without the end symbols
    coverage = [float(layer.amax(0).mean()) for layer in layers]
    return layers[coverage.index(max(coverage))].double().cpu().numpy()


def _balance(weights: Weights) -> Weights:
    """Let words compete: after some rounds (Sinkhorn's), no source word has all, and rows sum to one."""
    for _ in range(_ROUNDS):
        for axis in (0, 1):
            total = weights.sum(axis, keepdims=True)
            weights = weights / np.where(total > 0, total, 1.0)
    return weights


def _ends(
    vocabulary: Vocabulary, text: str, words: Sequence[Span], tokens: Sequence[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where tokens and words end, (tokens + 1,) and (words + 1,), each after a zero. White space does not count.

    Both are laid side by side by their lengths in UTF-8, because a token may be a part of a character.
    """
    sizes = [len(vocabulary.normalise(text[start:end]).encode()) for start, end in words]
    word_ends, token_ends = np.cumsum([0, *sizes]), np.cumsum([0, *map(vocabulary.text_bytes, tokens)])
    # the lengths differ where a piece is unknown
    return token_ends * (word_ends[-1] / max(token_ends[-1], 1)), word_ends


def _shares(token_ends: NDArray[Any], word_ends: NDArray[Any]) -> Weights:
    """(tokens, words): which share of each token's text lies in each word."""
    overlap = np.minimum(token_ends[1:, None], word_ends[1:]) - np.maximum(token_ends[:-1, None], word_ends[:-1])
    overlap = np.clip(overlap, 0, None)
    total = overlap.sum(1, keepdims=True)
    shares: Weights = overlap / np.where(total > 0, total, 1.0)
    return shares


def _align_equal_words(weights: Weights, source: Sequence[str], target: Sequence[str]) -> None:
    """A word that both sides have once, such as a name or a number, is its own translation."""
    in_source, in_target = Counter(source), Counter(target)
    for i, word in enumerate(target):
        if in_source[word] == in_target[word] == 1:
            j = source.index(word)
            weights[i], weights[:, j] = 0.0, 0.0
            weights[i, j] = 1.0

"""What mattered for the translation of a sentence: attention, and what each context sentence contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from focat.analysis.attention_map import AttentionMap
from focat.api import Model
from focat.evaluation.scoring import score_texts
from focat.serving.errors import ApiError
from focat.windows.builder import cut_window
from focat.windows.texts import WindowText

_SEPARATORS = ("<S>", "<E>")


@dataclass(frozen=True)
class ExplainedSentence:
    """A translated sentence and its context, with their indices in the document; the current one is the last."""

    indices: list[int]
    source: list[str]
    target: list[str]

    @classmethod
    def checked(cls, sentences: Sequence[str], translations: Sequence[str | None], index: int) -> ExplainedSentence:
        """Check the parameters of a request; sentences without translation are no context."""
        if index >= len(sentences):
            raise ApiError(400, f"index: there are {len(sentences)} sentences, counted from 0", "index")
        if index >= len(translations) or not (translations[index] or "").strip() or not sentences[index].strip():
            raise ApiError(400, f"translations: sentence {index} has none", "translations")
        pairs = [
            (i, source, target)
            for i, (source, target) in enumerate(zip(sentences[: index + 1], translations, strict=False))
            if target is not None and target.strip() and source.strip()
        ]
        return cls([i for i, _, _ in pairs], [source for _, source, _ in pairs], [target for _, _, target in pairs])

    def last(self, count: int) -> ExplainedSentence:
        """Without all but the last sentences."""
        return ExplainedSentence(self.indices[-count:], self.source[-count:], self.target[-count:])


def explain(model: Model, sentence: ExplainedSentence) -> dict[str, object]:
    """What mattered for a translation, in the window in which the model sees it.

    Returns:
        words: the words of each sentence of the window, by side.
        attention: how much of the attention of the current translation falls on each of these words, by side: mean over
            layers, heads and words of the translation. Separators and the start symbol have the rest.
        contributions: for each context sentence by how much the log-probability of the translation falls without it.

    Raises:
        ApiError: the sentence fits into no window; attention over all of it would take time and memory without bound.
    """
    tokenizer, windows = model.tokenizer, model.system.windows()
    sentence = sentence.last(1 + windows.before)  # no window has more of them
    source_lengths = [len(tokenizer.source.encode(text)) for text in sentence.source]
    target_lengths = [len(tokenizer.target.encode(text)) for text in sentence.target]
    longest = max(source_lengths[-1], target_lengths[-1]) + 1
    if longest > windows.max_tokens:
        problem = f"sentence {sentence.indices[-1]} or its translation has {longest:,} tokens"
        raise ApiError(400, f"sentences: {problem}; at most {windows.max_tokens} can be explained", "sentences")
    earlier = windows.model_copy(update={"after": 0, "target_after": 0})
    span = cut_window(source_lengths, target_lengths, len(sentence.indices) - 1, earlier)
    source, target = [sentence.source[i] for i in span.source], [sentence.target[i] for i in span.target]
    weights = model.attention(source, target).by_word()
    context = list(span.source)[:-1]
    without = [
        WindowText(
            [sentence.source[i] for i in span.source if i != left_out],
            [sentence.target[i] for i in span.target if i != left_out],
        )
        for left_out in context
    ]
    scores = score_texts(model.models[0], tokenizer, [WindowText(source, target), *without]).current
    by_side = _words_and_shares(weights)
    return {
        "indices": [sentence.indices[i] for i in span.source],
        "words": {side: words for side, (words, _) in by_side.items()},
        "attention": {side: shares for side, (_, shares) in by_side.items()},
        "contributions": [
            {"index": sentence.indices[i], "difference": float(scores[0] - score)}
            for i, score in zip(context, scores[1:], strict=True)
        ],
    }


def _words_and_shares(weights: AttentionMap) -> dict[str, tuple[list[list[str]], list[list[float]]]]:
    """Words of each sentence and the attention they get from the current translation, by side."""
    current = np.array(weights.target_segments) == weights.target_segments[-1]  # (target words,)
    cross = weights.cross[:, :, current].mean((0, 1, 2))  # (source words,)
    decoder = weights.decoder[:, :, current].mean((0, 1, 2))[1:]  # (target words - 1,) what a word reads is before it
    found = {}
    for side, words, segments, shares in (
        ("source", weights.source, weights.source_segments, cross),
        ("target", weights.target, weights.target_segments, [*decoder, 0.0]),
    ):
        sentences: list[list[str]] = [[] for _ in range(max(segments) + 1)]
        of_words: list[list[float]] = [[] for _ in sentences]
        for word, segment, share in zip(words, segments, shares, strict=True):
            if word not in _SEPARATORS:
                sentences[segment].append(word)
                of_words[segment].append(round(float(share), 6))
        found[side] = sentences, of_words
    return found

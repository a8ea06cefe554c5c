"""Word alignment: a pure function of a sentence and its translation, computed where it is asked for."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

import focat
from focat.api import Model
from focat.translation.alignment import WordAlignment, align_words, positional_alignment, word_spans

_SOURCE = ["Where is the camera?", "Anna is looking for it. It is new, but it is heavy."]


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


def _align(model: Model, source: str, target: str) -> WordAlignment:
    tokens = model.tokenizer.source.encode(source), model.tokenizer.target.encode(target)
    return align_words(model.models[0], model.tokenizer, source, target, [tokens])


def test_words() -> None:
    assert _words("It's 3.5 km, naïve!") == ["It", "'", "s", "3", ".", "5", "km", ",", "naïve", "!"]
    assert _words("私はABCだ。") == ["私", "は", "ABC", "だ", "。"]


def test_rows_are_distributions(model: Model) -> None:
    found = _align(model, _SOURCE[1], "Anna sucht sie. Sie ist neu, aber sie ist schwer.")
    assert found.weights.shape == (len(found.target), len(found.source))
    assert (found.weights >= 0).all()
    np.testing.assert_allclose(found.weights.sum(1), 1.0)


def test_equal_words_are_aligned(model: Model) -> None:
    source, target = "Anna has 12 books.", "12 Bücher hat Anna."
    weights = _align(model, source, target).weights
    for word in ("Anna", "12", "."):
        assert weights[_words(target).index(word), _words(source).index(word)] == 1.0
    twice = _align(model, "Tom and Tom.", "Tom und Tom.").weights
    assert (twice[0] < 1).all()  # two of them: which is which is not known


def test_weights_against_a_slow_version(model: Model) -> None:
    """The attention of the only layer summed word by word, and the balance of it, in loops."""
    source, target = "The piano is heavy", "Das Klavier ist schwer"
    attention = model.attention([source], [target])
    words = [[_word_index(pieces, i) for i in range(len(pieces))] for pieces in (attention.target, attention.source)]
    weights = np.zeros((4, 4))
    for i, row in enumerate(attention.cross[0].mean(0)):
        for j, weight in enumerate(row):
            if words[0][i] is not None and words[1][j] is not None:
                weights[words[0][i], words[1][j]] += weight / words[0].count(words[0][i])
    for _ in range(3):
        for j in range(4):
            weights[:, j] /= sum(weights[:, j])
        for i in range(4):
            weights[i] /= sum(weights[i])
    np.testing.assert_allclose(_align(model, source, target).weights, weights, rtol=1e-4)


def _word_index(pieces: list[str], i: int) -> int | None:
    """The word that a piece is in; a space alone, and the end, are in none."""
    return None if pieces[i] in ("▁", "<E>") else "".join(pieces[: i + 1]).count("▁") - 1


def test_asked_for(model: Model) -> None:
    """Alignment changes no translation, and depends neither on the batch nor on the context."""
    plain = next(model.stream([_SOURCE]))
    asked = next(model.stream([[focat.InputSentence(text, align=True) for text in _SOURCE]]))
    assert [t.text for t in plain] == [t.text for t in asked]
    assert all(translation.alignment is None for translation in plain)
    for translation in asked:
        assert translation.alignment is not None
        assert translation.alignment.source == word_spans(translation.source)
        assert translation.alignment.target == word_spans(translation.text)
    wanted = focat.InputSentence(_SOURCE[0], align=True)
    (alone,), (again, _), _ = model.stream([[wanted], [wanted, _SOURCE[1]], [_SOURCE[1]] * 3])
    assert alone.alignment is not None
    assert again.alignment is not None
    assert (alone.alignment.weights == again.alignment.weights).all()


def test_long_sentences(model: Model) -> None:
    """A sentence in chunks: words of one chunk are aligned with words of the same."""
    text = ", ".join(["the camera is new and the piano is heavy"] * 8)
    ((translation,),) = model.stream([[focat.InputSentence(text, align=True)]])
    assert translation.chunks > 1
    assert translation.alignment is not None
    weights = translation.alignment.weights
    assert weights.shape == (len(word_spans(translation.text)), len(word_spans(text)))
    assert not weights[0, -1]


@pytest.mark.parametrize("text", ["the \u2581 piano", "emoji 🎉🎉 and ſ", "  spaces   inside ", ""])
def test_any_text(model: Model, text: str) -> None:
    found = _align(model, text, "Das " + text)
    assert found.weights.shape == (len(word_spans("Das " + text)), len(word_spans(text)))
    assert np.isfinite(found.weights).all()


def test_bytes_of_tokens(model: Model) -> None:
    """The tokens of a sentence have as many bytes as its words, characters that are spelt in bytes included."""
    vocabulary = model.tokenizer.source
    for text in ("Where is the camera?", "naïve 漢字 🎉 \u2581"):
        spelt = text.replace("\u2581", "\U0010fffe1")  # how the tokenizer escapes it
        assert sum(map(vocabulary.text_bytes, vocabulary.encode(text))) == len("".join(spelt.split()).encode())


def test_by_position() -> None:
    found = positional_alignment("a b c d", "x y")
    assert found.weights.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]
    assert positional_alignment("a b", "a b").weights.tolist() == [[1, 0], [0, 1]]
    assert positional_alignment("", "x").weights.shape == (1, 0)


def test_the_tokens_of_a_very_long_sentence_do_not_fill_the_memory(model: Model) -> None:
    source, target = "a b c d " * 500, "e f g h " * 500
    vocabularies = model.tokenizer.source, model.tokenizer.target
    tokens = [vocabulary.encode(text) for vocabulary, text in zip(vocabularies, (source, target), strict=True)]
    chunks = [[part[i : i + 20] for part in tokens] for i in range(0, max(map(len, tokens)), 20)]
    tracemalloc.start()
    align_words(model.models[0], model.tokenizer, source, target, chunks)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 45 << 20  # five tables of words by words; with tables of all tokens it was 65 million


def test_words_of_a_very_long_sentence_are_taken_together() -> None:
    """2,500 words are 834 groups of three at most, which cover the text in order."""
    text = " ".join(["word"] * 2500)
    spans = word_spans(text)
    assert len(spans) == 834
    assert text[slice(*spans[0])] == "word word word"
    assert text[slice(*spans[-1])] == "word"
    assert all(a[1] < b[0] for a, b in pairwise(spans))
    assert positional_alignment(text, text).weights.shape == (834, 834)

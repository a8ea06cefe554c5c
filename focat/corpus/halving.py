"""Sentences cut in two: the training data of Divide and Rule (Lupo et al., 2022), where the half before is what a
sentence needs of its context."""

from __future__ import annotations

from focat.corpus.document import Document

_MIN_WORDS = 7  # of a source sentence that is cut


def halve_sentences(document: Document) -> Document:
    """Cut each sentence pair in the middle, on both sides; its halves are neighbouring sentences.

    A source sentence of less than seven words and a translation of one stay whole. Of an odd number of words, the
    second half has one more.
    """
    source, target = [], []
    for source_sentence, target_sentence in zip(document.source, document.target, strict=True):
        words = source_sentence.split(), target_sentence.split()
        if len(words[0]) < _MIN_WORDS or len(words[1]) < 2:
            source.append(source_sentence)
            target.append(target_sentence)
            continue
        for side, (first, second) in zip((source, target), map(_halves, words), strict=True):
            side += [first, second]
    return Document(document.name, source, target)


def _halves(words: list[str]) -> tuple[str, str]:
    middle = len(words) // 2
    return " ".join(words[:middle]), " ".join(words[middle:])

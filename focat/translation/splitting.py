"""Running text to sentences, by the rules of its language."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import sentencex

from focat.corpus.text_files import is_blank
from focat.translation.result import on_one_line

_UNSPACED = {"bo", "ja", "km", "lo", "my", "th", "yue", "zh"}  # languages without spaces between sentences

_OTHER_SPACE = re.compile(r"[^\S ]")


def split_sentences(text: str, language: str) -> Iterator[str]:
    """The sentences of a text."""
    for sentence in _pieces(on_one_line(text), language):
        if not is_blank(sentence):
            yield sentence.strip()


def sentence_offsets(text: str, language: str) -> list[int]:
    """Where pieces of a text begin that are sentences, or the white space between two."""
    pieces = _pieces(text, language)
    return [0, *itertools.accumulate(map(len, pieces[:-1]))] if "".join(pieces) == text else [0]


def _pieces(text: str, language: str) -> list[str]:
    """Sentences, and the white space between them.

    The library sees plain spaces only: it panics where another one stands between an initial and a full stop.
    """
    flat = _OTHER_SPACE.sub(" ", text)
    pieces = list(sentencex.segment(primary_language(language), flat))
    if flat == text or "".join(pieces) != flat:
        return pieces
    ends = list(itertools.accumulate(map(len, pieces)))
    return [text[end - len(piece) : end] for piece, end in zip(pieces, ends, strict=True)]


def separator_of(language: str) -> str:
    """What stands between two sentences of a language."""
    return "" if primary_language(language) in _UNSPACED else " "


def primary_language(language: str) -> str:
    """`pt` of `pt-BR` and `pt_BR`."""
    return re.split("[-_]", language)[0].lower()

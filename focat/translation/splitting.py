"""Running text to sentences, by the rules of its language."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

from focat.corpus.text_files import is_blank
from focat.translation.result import on_one_line

_UNSPACED = {"bo", "ja", "km", "lo", "my", "th", "yue", "zh"}  # languages without spaces between sentences


def split_sentences(text: str, language: str) -> Iterator[str]:
    """The sentences of a text."""
    for sentence in sentencex.segment(primary_language(language), on_one_line(text)):
        if not is_blank(sentence):
            yield sentence.strip()


def sentence_offsets(text: str, language: str) -> list[int]:
    """Where pieces of a text begin that are sentences, or the white space between two."""
    pieces = list(sentencex.segment(primary_language(language), text))
    offsets = [0]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    return offsets[:-1] if "".join(pieces) == text else [0]


def separator_of(language: str) -> str:
    """What stands between two sentences of a language."""
    return "" if primary_language(language) in _UNSPACED else " "


def primary_language(language: str) -> str:
    """`pt` of `pt-BR` and `pt_BR`."""
    return re.split("[-_]", language)[0].lower()

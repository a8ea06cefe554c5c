"""Running text to sentences, by the rules of its language."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import sentencex

from focat.corpus.text_files import is_blank
from focat.translation.result import on_one_line

_UNSPACED = {"bo", "ja", "km", "lo", "my", "th", "yue", "zh"}  # languages without spaces between sentences

# Characters that the library sees at a time: its time grows with the square of the number of quotes. A sentence that is
# longer than half of it may be cut at a space.
_MOST = 10_000
_AHEAD = 200  # characters behind the end of a sentence that may decide whether it is one

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
    pieces = list(_segmented(flat, primary_language(language)))
    if flat == text or "".join(pieces) != flat:
        return pieces
    ends = list(itertools.accumulate(map(len, pieces)))
    return [text[end - len(piece) : end] for piece, end in zip(pieces, ends, strict=True)]


def _segmented(flat: str, language: str) -> Iterator[str]:
    """What the library makes of a text, in linear time."""
    while len(flat) > _MOST:
        seen = flat[:_MOST]
        pieces = list(sentencex.segment(language, seen))
        ends = list(itertools.accumulate(map(len, pieces))) if "".join(pieces) == seen else []
        safe = [end for end in ends if _MOST // 2 <= end <= _MOST - _AHEAD]
        if safe:
            done = safe[-1]
            pieces = pieces[: ends.index(done) + 1]
        else:
            done = seen.rfind(" ", _MOST // 2) + 1 or _MOST
            pieces = list(sentencex.segment(language, seen[:done]))
        yield from pieces
        flat = flat[done:]
    yield from sentencex.segment(language, flat)


def separator_of(language: str) -> str:
    """What stands between two sentences of a language."""
    return "" if primary_language(language) in _UNSPACED else " "


def primary_language(language: str) -> str:
    """`pt` of `pt-BR` and `pt_BR`."""
    return re.split("[-_]", language)[0].lower()

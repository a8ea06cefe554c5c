"""Sentences too long for a model, cut into pieces: after a sentence or a clause if possible, else after a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from focat.corpus.tokenizer import Vocabulary

# A word and what follows it; scripts without spaces have their own punctuation to break at.
_WORD = re.compile(r"[^\s。、！？，；]*[\s。、！？，；]*")
_SENTENCE_END = re.compile(r"[.!?…。！？।؟]['\"”’»“)\]]*\s*$")
_CLAUSE_END = re.compile(r"[,;:–—、，；]\s*$")


@dataclass(frozen=True)
class Piece:
    """The tokens of a sentence, or of a part of it."""

    tokens: list[int]
    joint: str = ""
    """What stands between this piece and the next."""


def pieces_of(text: str, vocabulary: Vocabulary, most: int, size: int) -> list[Piece]:
    """A sentence whole if it has at most `most` tokens, or else in pieces of at most `size`."""
    tokens = vocabulary.encode(text)
    if len(tokens) <= most:
        return [Piece(tokens)]
    return [piece for part in _parts(text, vocabulary, size) for piece in _encoded(part, vocabulary, size)]


def _parts(text: str, vocabulary: Vocabulary, size: int) -> Iterator[str]:
    """Parts of the text that have about `size` tokens, each broken where it hurts least."""
    words = [word for word in _WORD.findall(text) if word]
    _, lengths = vocabulary.encode_all(words)
    start = 0
    while start < len(words):
        end, total = start, 0
        while end < len(words) and (end == start or total + lengths[end] <= size):
            total += int(lengths[end])
            end += 1
        if end < len(words):
            end = _best_break(words, start, end)
        yield "".join(words[start:end])
        start = end


def _best_break(words: list[str], start: int, end: int) -> int:
    """The last end of a sentence, or else of a clause, in the second half; or else after the last word."""
    half = (start + end + 1) // 2
    for ends in (_SENTENCE_END, _CLAUSE_END):
        for i in range(end, half, -1):
            if ends.search(words[i - 1]):
                return i
    return end


def _encoded(part: str, vocabulary: Vocabulary, size: int) -> Iterator[Piece]:
    """Usually one piece; a word that is too long by itself is cut between tokens."""
    tokens = vocabulary.encode(part.strip())
    joint = " " if part != part.rstrip() else ""
    for i in range(0, len(tokens), size):
        last = i + size >= len(tokens)
        yield Piece(tokens[i : i + size], joint if last else "")

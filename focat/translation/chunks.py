"""Split sentences too long for a model into chunks: after a sentence or a clause if possible, else after a word."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from focat.corpus.tokenizer import Vocabulary

# A word and what follows it; scripts without spaces have their own punctuation to break at.
_WORD = re.compile(r"[^\s。、！？，；]*[\s。、！？，；]*")
_SENTENCE_END = re.compile(r"[.!?…。！？।؟]['\"”’»“)\]]*\s*$")
_CLAUSE_END = re.compile(r"[,;:–—、，；]\s*$")


@dataclass(frozen=True)
class Chunk:
    """The tokens of a sentence, or of a part of it."""

    tokens: list[int]
    separator: str = ""
    """What stands between this chunk and the next."""
    start: int = 0
    """Where in the sentence it begins, in characters; that of the word if it is part of one."""


def split_into_chunks(text: str, vocabulary: Vocabulary, max_tokens: int, chunk_tokens: int) -> list[Chunk]:
    """A sentence as one chunk if it has at most `max_tokens` tokens, or else in chunks of at most `chunk_tokens`."""
    tokens = vocabulary.encode(text)
    if len(tokens) <= max_tokens:
        return [Chunk(tokens)]
    parts = list(_split_text(text, vocabulary, chunk_tokens))
    starts = itertools.accumulate(map(len, parts), initial=0)
    return [
        chunk
        for part, start in zip(parts, starts, strict=False)
        for chunk in _encode(part, start, vocabulary, chunk_tokens)
    ]


def _split_text(text: str, vocabulary: Vocabulary, chunk_tokens: int) -> Iterator[str]:
    """Parts of the text of about `chunk_tokens` tokens, each broken at the best place."""
    words = [word for word in _WORD.findall(text) if word]
    _, lengths = vocabulary.encode_all(words)
    start = 0
    while start < len(words):
        end, total = start, 0
        while end < len(words) and (end == start or total + lengths[end] <= chunk_tokens):
            total += int(lengths[end])
            end += 1
        if end < len(words):
            end = _best_break(words, start, end)
        yield "".join(words[start:end])
        start = end


def _best_break(words: list[str], start: int, end: int) -> int:
    """The last end of a sentence, or else of a clause, in the second half; or else after the last word."""
    half = (start + end + 1) // 2
    for pattern in (_SENTENCE_END, _CLAUSE_END):
        for i in range(end, half, -1):
            if pattern.search(words[i - 1]):
                return i
    return end


def _encode(part: str, start: int, vocabulary: Vocabulary, chunk_tokens: int) -> Iterator[Chunk]:
    """Usually one chunk; a single word that is too long is split between tokens."""
    tokens = vocabulary.encode(part.strip())
    separator = " " if part != part.rstrip() else ""
    for i in range(0, len(tokens), chunk_tokens):
        last = i + chunk_tokens >= len(tokens)
        yield Chunk(tokens[i : i + chunk_tokens], separator if last else "", start)

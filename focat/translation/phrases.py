"""Phrases that a translation must contain: from text to the tokens that the search has to produce."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from focat.corpus.tokenizer import Vocabulary
from focat.decoding.phrases import Phrases
from focat.translation.chunks import Chunk
from focat.translation.terminology import Term, occurrences

_CARRIER = "("  # a phrase after it has the tokens that it has after any punctuation, without a space
_MAX_CHARACTERS = 500  # a longer form is not enforced: states of its automaton times tokens would fill the memory


class PhraseEncoder:
    """Encodes phrases with the vocabulary of the target; equal ones once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.encode = lru_cache(1 << 12)(self._encode)

    def by_chunk(
        self, required: Sequence[tuple[str, ...]], terms: Sequence[Term], text: str, chunks: Sequence[Chunk]
    ) -> list[Phrases]:
        """For each chunk of a sentence, the phrases that its translation must contain.

        Args:
            required: phrases, each with its forms. One belongs to the chunk whose source has one of its forms, each
                occurrence to one phrase; to the first chunk if none has.
            terms: those of the sentence, which belong to the chunk that they begin in.
        """
        found: list[list[tuple[tuple[int, ...], ...]]] = [[] for _ in chunks]
        starts = [chunk.start for chunk in chunks]
        for forms, position in (*_located(required, text), *terms):
            tokens = self.encode(tuple(form for form in forms if len(form) <= _MAX_CHARACTERS))
            if tokens:
                last = max(bisect.bisect_right(starts, position) - 1, 0)
                found[bisect.bisect_left(starts, starts[last])].append(tokens)  # of the chunks of a word, the first
        return [tuple(phrases) for phrases in found]

    def _encode(self, forms: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """The token sequences that are one of these forms, after a space or not; none for what it has no tokens for."""
        vocabulary = self._vocabulary
        found: dict[tuple[int, ...], None] = {}
        carrier = vocabulary.encode_phrase(_CARRIER)
        for form in forms:
            spaced = vocabulary.encode_phrase(form)
            if vocabulary.decode(spaced).strip() != vocabulary.normalise(form).strip():
                continue
            found[tuple(spaced)] = None
            glued = vocabulary.encode_phrase(_CARRIER + form)
            if glued[: len(carrier)] == carrier and len(glued) > len(carrier):
                found[tuple(glued[len(carrier) :])] = None
        can_begin = any(vocabulary.word_boundaries.before[tokens[0]] for tokens in found)
        return tuple(found) if can_begin else ()

    def missing(self, phrases: Sequence[tuple[str, ...]], text: str) -> tuple[str, ...]:
        """The phrases that a translation does not contain, or not as often as required, by their first form."""
        return tuple(
            forms[0]
            for forms, count in Counter(phrases).items()
            if occurrences(map(self._vocabulary.normalise, forms), text) < count
        )


def _located(required: Sequence[tuple[str, ...]], text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Phrases, and where in the text one of their forms stands; 0 if nowhere."""
    taken: dict[str, int] = {}  # where the last occurrence of each form ended
    for forms in required:
        position = 0
        for form in forms:
            start = text.find(form, taken.get(form, 0))
            if start >= 0:
                position, taken[form] = start, start + len(form)
                break
        yield forms, position

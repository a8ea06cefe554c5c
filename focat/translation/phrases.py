"""Phrases that a translation must contain: from text to the tokens that the search has to produce."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from focat.corpus.tokenizer import Vocabulary
from focat.decoding.phrases import Phrases
from focat.translation.chunks import Chunk

_CARRIER = "("  # a phrase after it has the tokens that it has after any punctuation, without a space


def encode_by_chunk(
    required: Sequence[tuple[str, ...]], text: str, chunks: Sequence[Chunk], vocabulary: Vocabulary
) -> list[Phrases]:
    """For each chunk of a sentence, the phrases that its translation must contain, as tokens of the target.

    A phrase belongs to the chunk whose source has one of its forms, each occurrence to one phrase; to the first chunk
    if none has.
    """
    found: list[list[tuple[tuple[int, ...], ...]]] = [[] for _ in chunks]
    starts = [chunk.start for chunk in chunks]
    taken: dict[str, int] = {}  # where the last occurrence of each form ended
    for forms in required:
        tokens = encode_forms(forms, vocabulary)
        if not tokens:
            continue
        position = 0
        for form in forms if len(chunks) > 1 else ():
            start = text.find(form, taken.get(form, 0))
            if start >= 0:
                position, taken[form] = start, start + len(form)
                break
        last = max(bisect.bisect_right(starts, position) - 1, 0)  # of the chunks of a word, the first has them
        found[bisect.bisect_left(starts, starts[last])].append(tokens)
    return [tuple(phrases) for phrases in found]


def encode_forms(forms: Sequence[str], vocabulary: Vocabulary) -> tuple[tuple[int, ...], ...]:
    """The token sequences that are one of these forms, after a space or not; none for what it has no tokens for."""
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
    return tuple(found)

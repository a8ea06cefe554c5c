"""Corpora small enough to read, built in memory; and strategies that draw any corpus and any window settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.corpus.store import Sentences, Split
from focat.corpus.vocabulary import SEPARATOR, SPECIALS

# No deadlines: how long one example takes says more about the machine than about the code.
many = settings(max_examples=100, deadline=None)
few = settings(max_examples=40, deadline=None)

Pair = tuple[list[int], list[int]]
"""The tokens of a source sentence and of its translation."""


def build_split(documents: Sequence[Sequence[Pair]], dtype: str = "<u2") -> Split:
    """A split as the store would hold it: each sentence closed by a separator, all in a row."""
    pairs = [pair for document in documents for pair in document]
    return Split(
        _sentences([source for source, _ in pairs], dtype),
        _sentences([target for _, target in pairs], dtype),
        np.cumsum([0, *(len(document) for document in documents)]),
    )


def split_of_lengths(*documents: Sequence[int]) -> Split:
    """A split whose sentences have these many tokens on both sides, all tokens of the corpus different."""
    token = SPECIALS - 1
    built = []
    for lengths in documents:
        pairs = []
        for length in lengths:
            source = [token := token + 1 for _ in range(length)]
            pairs.append((source, [1000 + word for word in source]))
        built.append(pairs)
    return build_split(built)


def _sentences(sentences: list[list[int]], dtype: str) -> Sentences:
    tokens = [token for sentence in sentences for token in [*sentence, SEPARATOR]]
    offsets = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])
    return Sentences(np.array(tokens, dtype), offsets)


# Empty sentences and documents of one sentence (or none) are drawn often: hypothesis tries short lists first.
sentences = st.lists(st.integers(SPECIALS, 60), max_size=9)
pairs = st.tuples(sentences, sentences)
splits = st.lists(st.lists(pairs, max_size=6), max_size=5).map(build_split)
full_splits = st.lists(st.lists(pairs, min_size=1, max_size=6), min_size=1, max_size=5).map(build_split)


@st.composite
def window_settings(draw: st.DrawFn, max_tokens: st.SearchStrategy[int] = st.integers(8, 40)) -> WindowSettings:  # noqa: B008
    """Any window: on the target the same context or less, of fixed or random size, with a limit that often bites."""
    before, after = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    given: dict[str, Any] = {}
    if draw(st.booleans()):
        given["target_before"] = draw(st.integers(0, before))
    if draw(st.booleans()):
        given["target_after"] = draw(st.integers(0, after))
    sizes = draw(st.sampled_from(["fixed", "random"]))
    return WindowSettings(before=before, after=after, sampling=sizes, max_tokens=draw(max_tokens), **given)

"""The result of translating: one translation for each sentence of the input, in the same order."""

from __future__ import annotations

import re
from dataclasses import dataclass

from focat.translation.alignment import WordAlignment

# everything that some program takes for the end of a line, and all other control characters
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Alternative:
    """One of the n best translations of a sentence."""

    text: str
    score: float
    """Log-probability of the sentence's tokens, divided by their number to the power of the length penalty."""


@dataclass(frozen=True)
class Translation:
    """One sentence, translated in its context."""

    source: str
    """The sentence as it was given."""
    text: str
    """The best translation, on one line; empty if there was nothing to translate."""
    score: float | None = None
    """Score of the best translation, see `Alternative`; None if there was nothing to translate."""
    alternatives: tuple[Alternative, ...] = ()
    """The n best translations, the best first; fewer if the search did not find so many."""
    chunks: int = 1
    """In how many chunks it was translated: more than one if it was too long for the model."""
    truncated: bool = False
    """Whether the translation reached the maximum length, and may lack its end."""
    shortened: bool = False
    """Whether it lost context sentences because its window was too long."""
    terms: int = 0
    """Terms of a glossary, or to keep, that it has."""
    unmet: tuple[str, ...] = ()
    """Terms and required phrases that the best translation does not contain; those that the vocabulary cannot write."""
    alignment: WordAlignment | None = None
    """Which words of the best translation belong to which of the source, if asked for (`InputSentence.align`)."""


def on_one_line(text: str) -> str:
    """Replace whatever could be taken for the end of a line by spaces, and strip white space."""
    return _CONTROL.sub(" ", text).strip()

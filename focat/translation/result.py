"""What comes out of translating: one translation for each sentence that went in, in the same place."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Everything that some program takes for the end of a line, and all other control characters, which no line can hold.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Alternative:
    """One way to say it."""

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
    """Of the best translation, see `Alternative`; None if there was nothing to translate."""
    alternatives: tuple[Alternative, ...] = ()
    """The best translations, best first; as many as were asked for, if there are so many."""
    pieces: int = 1
    """In how many pieces it was translated: more than one if the model could not take it whole."""
    cut: bool = False
    """Whether the translation reached the longest length allowed, and may lack its end."""
    shortened: bool = False
    """Whether it lost context sentences because its window was too long."""


def on_one_line(text: str) -> str:
    """A text without anything that could be taken for the end of a line, and without white space around it."""
    return _CONTROL.sub(" ", text).strip()

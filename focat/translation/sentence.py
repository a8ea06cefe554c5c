"""What the translator reads: sentences, with what their translations must contain where a caller asks for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputSentence:
    """A sentence to translate, with wishes for its translation; a plain string is one without."""

    text: str
    required: tuple[tuple[str, ...], ...] = ()
    """Phrases that the translation must contain, each in one of its forms; one listed twice must occur twice."""
    align: bool = False
    """Whether the alignment of its words with those of the translation is wanted."""
    translation: str | None = None
    """Its translation, if it has one: then it is context for the sentences that follow, and nothing is decoded."""


Sentence = str | InputSentence


def as_input(sentence: Sentence) -> InputSentence:
    """A sentence with its wishes, none if it is a string."""
    return InputSentence(sentence) if isinstance(sentence, str) else sentence

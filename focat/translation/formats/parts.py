"""The parts that a file to translate consists of, and how translations are shown in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from focat.translation.result import Alternative, Translation


@dataclass(frozen=True)
class Part:
    """A stretch of a file: what is to be translated in it, and how it is written."""

    line: int
    """Where it begins."""
    sentences: Sequence[str]
    """What is to be translated."""
    write: Callable[[Sequence[Translation]], str]
    """The same stretch with these translations, one for each sentence."""
    ends_document: bool = False
    """Whether what follows has nothing to do with it."""
    lost: str | None = None
    """What of it cannot be kept, for the user to know."""


def verbatim(line: int, text: str, ends_document: bool = False) -> Part:
    """A stretch that stays as it is."""
    return Part(line, (), lambda _: text, ends_document)


@dataclass(frozen=True)
class Showing:
    """What is shown of each translation, besides its text."""

    scores: bool = False
    nbest: int = 1

    @property
    def plain(self) -> bool:
        """Whether there is nothing but text."""
        return not self.scores and self.nbest == 1

    def alternatives(self, translation: Translation) -> Sequence[Alternative]:
        """Those that are shown."""
        return translation.alternatives[: self.nbest]


def score_text(score: float) -> str:
    """A score as people read it."""
    return f"{score:.4f}"

"""What is asked of a search, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from focat.corpus.vocabulary import SEPARATOR


@dataclass(frozen=True)
class Request:
    """One window to translate."""

    source: Sequence[int]
    """Tokens of the source window, each sentence closed by SEPARATOR, the last by END."""
    prefix: Sequence[int] = ()
    """Target tokens that are forced, closing separators included; no start symbol."""
    sentences: int | None = None
    """Sentences the whole target must have, prefix included; any number if not given (the paper's rule)."""
    longest: int | None = None
    """Most tokens decoded after the prefix; if not given, relative to the source."""
    current: int | None = None
    """The current sentence of the source; its last one if not given."""
    number: int | None = None
    """Seeds its sampling together with the seed of the settings; its place among the requests if not given."""

    @property
    def closed(self) -> int:
        """Sentences that the prefix closes."""
        return self.prefix.count(SEPARATOR)

    @property
    def opens(self) -> bool:
        """Whether the first token is that of a sentence."""
        return not self.prefix or self.prefix[-1] == SEPARATOR

    def left(self, closed: int) -> int:
        """Source tokens whose translation is not forced, if so many sentences are closed."""
        start = 0
        for _ in range(min(closed, self.source.count(SEPARATOR)) if closed else 0):
            start = self.source.index(SEPARATOR, start) + 1
        return len(self.source) - start


@dataclass(frozen=True)
class Hypothesis:
    """A translation of one window."""

    tokens: list[int]
    """What was decoded after the prefix; SEPARATORs inside, END last."""
    token_scores: list[float] = field(repr=False)
    """Log-probability of each of these tokens."""
    log_probability: float
    """Their sum."""
    score: float
    """Log-probability over length to the power of the length penalty: hypotheses are ranked by it."""
    finished: bool
    """False: the limit had to close it."""


@dataclass(frozen=True)
class Turn:
    """A request that is to be searched."""

    chain: int
    """Where it belongs: its place among the requests, or that of the one which it follows."""
    request: Request
    limit: int
    """The most tokens of its translation."""
    closed: int
    """Sentences that its prefix closes."""
    left: int
    """Source tokens whose translation is not forced."""

    @property
    def seed(self) -> int:
        """Of its sampling, together with the seed of the settings."""
        return self.chain if self.request.number is None else self.request.number

"""What goes into the decoding engine and what comes out: requests and hypotheses, in token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from focat.corpus.vocabulary import SEPARATOR
from focat.decoding.phrases import Phrases, RequiredPhrases


@dataclass(frozen=True)
class Request:
    """One window to translate."""

    source: Sequence[int]
    """Tokens of the source window: SEPARATOR after each sentence, END after the last."""
    prefix: Sequence[int] = ()
    """Forced target tokens, with the separators that close their sentences, without the start symbol."""
    sentences: int | None = None
    """Sentences the target must have, prefix included; None for any number (the paper's rule)."""
    max_length: int | None = None
    """Most tokens to decode after the prefix; None for the limit of the settings, which is relative to the source."""
    current: int | None = None
    """Segment of the current sentence on the source; None for the last one."""
    seed: int | None = None
    """Seeds sampling, together with the seed of the settings; None for the request's id."""
    required: Phrases = ()
    """Phrases that the current sentence of every hypothesis must contain; of each, one of these forms."""
    required_in: int | None = None
    """Segment of the target that must contain them; None for the last one."""

    @property
    def prefix_sentences(self) -> int:
        """Sentences that the prefix closes."""
        return self.prefix.count(SEPARATOR)

    @property
    def starts_sentence(self) -> bool:
        """Whether the first decoded token is the first one of a sentence."""
        return not self.prefix or self.prefix[-1] == SEPARATOR

    @property
    def required_segment(self) -> int:
        """Segment of the target that must contain the phrases; -1 for the last one of any number."""
        if self.sentences is None:
            return -1
        return self.sentences - 1 if self.required_in is None else self.required_in

    @property
    def open_sentence(self) -> Sequence[int]:
        """Tokens of the prefix that belong to the first sentence that is decoded."""
        closed = max((i + 1 for i, token in enumerate(self.prefix) if token == SEPARATOR), default=0)
        return self.prefix[closed:]

    def remaining_source(self) -> int:
        """Source tokens whose translation is not part of the prefix."""
        start, closed = 0, self.prefix_sentences
        for _ in range(min(closed, self.source.count(SEPARATOR)) if closed else 0):
            start = self.source.index(SEPARATOR, start) + 1
        return len(self.source) - start


@dataclass(frozen=True)
class Hypothesis:
    """A translation of one window."""

    tokens: list[int]
    """Tokens decoded after the prefix; SEPARATOR between sentences, END last."""
    token_scores: list[float] = field(repr=False)
    """Log-probability of each of these tokens."""
    log_probability: float
    """Their sum."""
    score: float
    """Log-probability divided by length to the power of the length penalty; hypotheses are ranked by it."""
    truncated: bool
    """Whether the maximum length forced the end."""


@dataclass(frozen=True)
class ScheduledRequest:
    """A request in the engine's queue, with what scheduling needs to know about it."""

    id: int
    request: Request
    max_length: int
    """Most tokens to decode."""
    remaining_source: int
    """Source tokens whose translation is not part of the prefix: an estimate of the work that is left."""
    phrases: RequiredPhrases | None = None
    """The phrases that it requires, compiled."""

    @property
    def read_length(self) -> int:
        """Tokens to read before decoding starts: source and prefix."""
        return len(self.request.source) + len(self.request.prefix)

    @property
    def phrases_size(self) -> int:
        """Size of the automaton of its phrases; 0 without any."""
        return self.phrases.size if self.phrases else 0

    @property
    def sampling_seed(self) -> int:
        """Seed of the request's own random numbers."""
        return self.id if self.request.seed is None else self.request.seed

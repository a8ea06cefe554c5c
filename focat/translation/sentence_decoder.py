"""From windows to sentences: decode windows with the engine, and keep the current sentence of each.

The translator sees this interface only, so that a journal can stand between it and the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.engine import Engine
from focat.decoding.requests import Hypothesis, Request


@dataclass(frozen=True)
class DecodedSentence:
    """A translation of one sentence, cut out of a decoded window."""

    tokens: list[int]
    log_probability: float
    """Of its tokens and of the separator or end symbol that closes it."""
    truncated: bool
    """Whether the maximum length forced the end of its window."""


Decoded = tuple[int, list[DecodedSentence]]
"""The id of a window and the n best translations of its current sentence, the best first."""


class SentenceDecoder(Protocol):
    """Decodes windows: submit them, step until it is idle, and take what each step returns."""

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or being decoded."""

    def submit(self, request: Request, position: int) -> int:
        """Queue a window, whose current sentence is at `position` among those that are decoded; returns its id."""

    def step(self) -> list[Decoded]:
        """Do some of the work, and return the windows that have finished since."""


class EngineDecoder:
    """The sentence decoder that computes its results."""

    def __init__(self, engine: Engine, constrained: bool) -> None:
        """`constrained`: windows have as many sentences as their source; if not, the last sentence is kept."""
        self._engine, self._constrained = engine, constrained
        self._positions: dict[int, int] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or being decoded."""
        return self._engine.idle

    def submit(self, request: Request, position: int) -> int:
        """Queue a window; see `SentenceDecoder`."""
        if self.idle:
            self._positions.clear()  # of requests that were dropped by an error
        id = self._engine.submit(request)
        self._positions[id] = position
        return id

    def step(self) -> list[Decoded]:
        """Do some of the work; see `SentenceDecoder`."""
        decoded = []
        for id, hypotheses in self._engine.step():
            position = self._positions.pop(id)
            decoded.append((id, [extract_sentence(best, position, self._constrained) for best in hypotheses]))
        return decoded


def extract_sentence(hypothesis: Hypothesis, position: int, constrained: bool) -> DecodedSentence:
    """The current sentence of a decoded window: at its position, or after the last separator (the paper's rule)."""
    ends = [i for i, token in enumerate(hypothesis.tokens) if token in (SEPARATOR, END)]
    if not hypothesis.tokens or hypothesis.tokens[-1] != END:
        ends.append(len(hypothesis.tokens))
    position = position if constrained else len(ends) - 1
    start, end = ends[position - 1] + 1 if position else 0, ends[position]
    scores = hypothesis.token_scores[start : end + 1]
    return DecodedSentence(hypothesis.tokens[start:end], sum(scores), hypothesis.truncated)

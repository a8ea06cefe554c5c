"""Documents of the generated corpus: short scenes in which most sentences need the sentences before them.

A sentence that makes promises to later ones (a name, a thing, a denial) puts those on an agenda, one to three
sentences ahead, and other threads go on in between. So what a sentence needs lies at all distances, but never
further back than the three sentences before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from focat.corpus.document import Document
from focat.corpus.generated.agreement import Gender, Word
from focat.corpus.generated.lexicon import TERMS, THINGS
from focat.corpus.generated.patterns import (
    CALLS,
    DENIALS,
    ELLIPSES,
    FILLERS,
    GREETINGS,
    MENTIONS,
    MENTIONS_WITH_PRONOUN,
    PRONOUNS,
    YOU,
    YOU_AND_MENTION,
    YOU_AND_PRONOUN,
    GeneratedPair,
    Pattern,
)
from focat.corpus.generated.scene import CONTEXT, Scene
from focat.corpus.generated.seeded_random import SeededRandom

SHORTEST, LONGEST = 6, 12
"""Sentences of a document."""

Move = Callable[[], None]


def generate(documents: int, seed: int) -> Iterator[Document]:
    """Yield the first `documents` documents of the corpus of this seed; a larger corpus starts with the smaller one."""
    for index in range(documents):
        pairs = Author(SeededRandom("document", seed, index)).write()
        yield Document(
            name=f"generated-{seed}-{index}",
            source=[pair.source for pair in pairs],
            target=[pair.target for pair in pairs],
        )


class Author:
    """Writes one document, sentence by sentence; each of its moves (`greet`, `mention`, …) writes one sentence."""

    def __init__(self, draw: SeededRandom) -> None:
        self.draw = draw
        self.scene = Scene(draw)
        self.length = draw.between(SHORTEST, LONGEST)
        self.pairs: list[GeneratedPair] = []
        self.agenda: dict[int, Move] = {}
        """Sentence index → the move that an earlier sentence has promised for it."""
        self.spoken: list[Pattern] = []
        # Where the context last said how the listener is addressed, which thing is meant, what somebody does not do.
        self.addressed: int | None = None
        self.mentioned: int | None = None
        self.denied: int | None = None
        self.denial: dict[str, Word] = {}

    def write(self) -> list[GeneratedPair]:
        """Write all sentences of the document."""
        if self.draw.chance(0.7):
            self.greet()
        while len(self.pairs) < self.length:
            move = self.agenda.get(self.latest + 1) or self.draw.one_of(self.free_moves())
            move()
        return self.pairs

    def free_moves(self) -> list[Move]:
        """What can be said next without breaking a promise; a move listed twice is twice as likely."""
        moves: list[Move] = [self.fill]
        if self.addressed is None or self.in_context(self.addressed):
            moves.append(self.address)
        if not self.in_context(self.addressed):
            moves.append(self.call)
        if self.free_slots(after=self.latest + 1):
            if not self.promised(self.repeat, self.refer):
                moves += [self.mention] * 4
            if not self.in_context(self.denied):
                moves += [self.deny]
        return moves

    def greet(self) -> None:
        self.speak(GREETINGS)

    def call(self) -> None:
        self.speak(CALLS)

    def fill(self) -> None:
        self.speak(FILLERS)

    def address(self) -> None:
        self.speak(YOU)

    def mention(self) -> None:
        """Name the thing in context, or a new one if there is none: a window never holds two to choose from."""
        if not self.in_context(self.mentioned):
            things = self.draw.one_of((THINGS, TERMS, TERMS))[self.draw.one_of(tuple(Gender))]
            self.scene.speak_of(self.draw.one_of(self.draw.one_of(things).words()))
        self.speak(MENTIONS_WITH_PRONOUN if self.draw.chance(0.25) else self.with_you(MENTIONS, YOU_AND_MENTION))
        self.promise(self.draw.one_of((self.repeat, self.repeat, self.refer)), after=self.latest)

    def repeat(self) -> None:
        """Name the thing again, by the same word."""
        self.speak(self.with_you(MENTIONS, YOU_AND_MENTION))
        self.promise(self.draw.one_of((self.repeat, self.repeat, self.refer)), after=self.latest)

    def refer(self) -> None:
        """Refer to the thing by `it`, perhaps not for the last time."""
        self.speak(self.with_you(PRONOUNS, YOU_AND_PRONOUN))
        if self.mentioned is not None and self.draw.chance(0.5):
            self.promise(self.refer, after=self.mentioned)

    def deny(self) -> None:
        self.denial = self.speak(DENIALS)
        self.denied = self.latest
        self.promise(self.elide, after=self.denied)

    def elide(self) -> None:
        self.speak(ELLIPSES, who=self.denial["who"], verb=self.denial["verb"])

    def with_you(self, patterns: tuple[Pattern, ...], and_you: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
        """The patterns, and those with `you` if the context tells how to address the listener."""
        return patterns + and_you if self.in_context(self.addressed) else patterns

    def speak(self, patterns: tuple[Pattern, ...], **given: Word) -> dict[str, Word]:
        """Write a sentence of one of the patterns, a fresh one if possible; return the words in its roles."""
        pattern = self.draw.one_of([pattern for pattern in patterns if pattern not in self.spoken] or patterns)
        roles = self.scene.fill(pattern, **given)
        self.spoken.append(pattern)
        self.pairs.append(pattern.say(roles))
        if "thing" in pattern.roles:
            self.mentioned = self.latest
        if "you" in pattern.roles or "listener" in pattern.roles:
            self.addressed = self.latest
            if self.draw.chance(0.4):
                self.promise(self.address, after=self.addressed)
        return roles

    @property
    def latest(self) -> int:
        """Index of the sentence written last."""
        return len(self.pairs) - 1

    def in_context(self, index: int | None) -> bool:
        """Whether the sentence will be in the context of the next one."""
        return index is not None and self.latest + 1 - index <= CONTEXT

    def promise(self, move: Move, after: int) -> None:
        """Have the move made while the sentence `after` which it comes is in context, if there is room."""
        free = self.free_slots(after)
        if free:
            self.agenda[self.draw.one_of(free)] = move

    def promised(self, *moves: Move) -> bool:
        return any(move in moves for slot, move in self.agenda.items() if slot > self.latest)

    def free_slots(self, after: int) -> list[int]:
        """Sentences to come that will have this one in their context and are not promised to any move."""
        first, end = max(after, self.latest) + 1, min(after + CONTEXT + 1, self.length)
        return [slot for slot in range(first, end) if slot not in self.agenda]

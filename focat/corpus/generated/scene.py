"""A scene: what is fixed for a document or for one instance of a suite: who speaks to whom, about whom and what."""

from __future__ import annotations

from focat.corpus.generated.agreement import DU, SIE, Address, Person, Word, subject
from focat.corpus.generated.lexicon import FIRST_NAMES, ROLES, SPEAKERS, STRANGERS
from focat.corpus.generated.patterns import FILLERS, GeneratedPair, Pattern
from focat.corpus.generated.seeded_random import SeededRandom

CONTEXT = 3
"""Context sentences within which everything is decidable; a window of the paper holds these and the current one."""


class Scene:
    """Fills the roles of patterns: some with what the scene has fixed, the others by drawing.

    Two scenes with the same draws differ in nothing but what their caller fixes: so suites get their twins.
    """

    def __init__(self, draw: SeededRandom, address: Address | None = None) -> None:
        friend, *cast = draw.some_of(FIRST_NAMES, 4)
        stranger = draw.one_of(STRANGERS)
        drawn = draw.one_of((DU, SIE))
        address = drawn if address is None else address
        people = (*(subject(name, name, Person.THIRD) for name in cast), *SPEAKERS)

        self.draw = draw
        self.open = ROLES | {"who": people, "other": people}
        """Roles to be filled anew in each sentence, and the words to choose from."""
        self.fixed = {
            "you": Word("you", address),
            "listener": stranger if address == SIE else Word(friend, friend),
        }
        """Roles filled by the same word in every sentence."""
        self.used: list[Word] = []
        """Words used so far; people aside, they are not used again as long as there are others."""

    def speak_of(self, thing: Word) -> None:
        """From now on `the {thing}` and `it` are this thing, and somebody owns it."""
        self.fixed |= {"thing": thing, "it": thing, "owner": self.draw.one_of(ROLES["kin"])}

    def fill(self, pattern: Pattern, **given: Word) -> dict[str, Word]:
        """A word for each role of the pattern; an open role takes none that another role has."""
        roles = self.fixed | given
        for role in pattern.roles:
            if role not in roles:
                taken = set(roles.values())
                if not taken.isdisjoint(SPEAKERS):
                    taken.update(SPEAKERS)  # `I` and `we` are not two different people
                words = [word for word in self.open[role] if word not in taken]
                if role in ROLES:
                    words = [word for word in words if word not in self.used] or words
                roles[role] = self.draw.one_of(words)
                self.used.append(roles[role])
        return roles

    def say(self, pattern: Pattern) -> GeneratedPair:
        """Fill the roles of a pattern, and return the sentence."""
        return pattern.say(self.fill(pattern))

    def fillers(self, count: int) -> list[GeneratedPair]:
        """Sentences that neither need context nor decide anything for others."""
        return [self.say(self.draw.one_of(FILLERS)) for _ in range(count)]

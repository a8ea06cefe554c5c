"""The translations that a generated sentence could have in other contexts: er, sie or es; du or Sie; which verb.

What nothing on the source decides is left out: which of two words a term is first called by, and how somebody is
addressed whose name was not said.
"""

from __future__ import annotations

from itertools import product

from focat.corpus.generated.agreement import DU, SIE, Gender, GermanNoun, Word
from focat.corpus.generated.documents import Author
from focat.corpus.generated.lexicon import ROLES
from focat.corpus.generated.patterns import ELLIPSES, GeneratedPair, Pattern
from focat.corpus.generated.seeded_random import SeededRandom

_ALTERNATIVES: dict[str, tuple[Word, ...]] = {  # what may fill a role, as far as its own sentence tells
    "it": tuple(Word("it", GermanNoun("es", gender)) for gender in Gender),
    "you": (Word("you", DU), Word("you", SIE)),
    "verb": ROLES["verb"],
}


def possible_translations(seed: int, index: int) -> list[tuple[GeneratedPair, list[str]]]:
    """The sentences of a document, each with all translations that it could have in other contexts."""
    author = _AmbiguityAuthor(SeededRandom("document", seed, index))
    return list(zip(author.write(), author.possible, strict=True))


class _AmbiguityAuthor(Author):
    """Writes a document, and keeps all translations that its sentences could have."""

    def __init__(self, draw: SeededRandom) -> None:
        super().__init__(draw)
        self.possible: list[list[str]] = []
        self._named = False  # whether the source tells how the listener is addressed

    def speak(self, patterns: tuple[Pattern, ...], **given: Word) -> dict[str, Word]:
        """Write a sentence, and keep its alternatives."""
        in_context = self.in_context(self.addressed)
        roles = super().speak(patterns, **given)
        pattern = self.spoken[-1]
        ambiguous = ["it"] if "it" in pattern.roles and "thing" not in pattern.roles else []
        if "listener" in pattern.roles:
            self._named = True
        elif "you" in pattern.roles:
            self._named = self._named and in_context
            ambiguous += ["you"] * self._named
        ambiguous += ["verb"] * (pattern in ELLIPSES)
        others = (
            dict(zip(ambiguous, words, strict=True)) for words in product(*(_ALTERNATIVES[role] for role in ambiguous))
        )
        self.possible.append(list(dict.fromkeys(pattern.say(roles | other).target for other in others)))
        return roles

"""Which words of a generated document only the sentences before them decide: er, sie or es; du or Sie; which verb.

What nothing on the source decides is left out: which of two words a term is first called by, and how somebody is
addressed whose name was not said.
"""

from __future__ import annotations

from itertools import product

from focat.corpus.generated.agreement import DU, SIE, Gender, GermanNoun, Word
from focat.corpus.generated.documents import Author
from focat.corpus.generated.draw import Draw
from focat.corpus.generated.lexicon import ROLES
from focat.corpus.generated.patterns import ELLIPSES, Pair, Pattern

OPEN: dict[str, tuple[Word, ...]] = {  # what a role could be, as far as its own sentence tells
    "it": tuple(Word("it", GermanNoun("es", gender)) for gender in Gender),
    "you": (Word("you", DU), Word("you", SIE)),
    "verb": ROLES["verb"],
}


def possible_translations(seed: int, index: int) -> list[tuple[Pair, list[str]]]:
    """The sentences of a document, each with all translations it could have in other contexts; one if there is none."""
    witness = Witness(Draw("document", seed, index))
    return list(zip(witness.write(), witness.possible, strict=True))


class Witness(Author):
    """Writes a document, and notes what its sentences leave to their context."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.possible: list[list[str]] = []
        self._named = False  # whether the source has told how the listener is addressed

    def speak(self, patterns: tuple[Pattern, ...], **given: Word) -> dict[str, Word]:
        """As an author does."""
        in_context = self.in_context(self.addressed)
        roles = super().speak(patterns, **given)
        pattern = self.spoken[-1]
        left_open = ["it"] if "it" in pattern.roles and "thing" not in pattern.roles else []
        if "listener" in pattern.roles:
            self._named = True
        elif "you" in pattern.roles:
            self._named = self._named and in_context
            left_open += ["you"] * self._named
        left_open += ["verb"] * (pattern in ELLIPSES)
        others = (dict(zip(left_open, words, strict=True)) for words in product(*(OPEN[role] for role in left_open)))
        self.possible.append(list(dict.fromkeys(pattern.say(roles | other).target for other in others)))
        return roles

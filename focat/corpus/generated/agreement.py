"""Words that know how other words agree with them: the morphology of the generated corpus.

A sentence pattern writes `{thing}` for the word and `{thing:den}` for the form of *den* that agrees with it, so
that it reads as a sentence about a masculine thing; `{who:sucht}` and `{you:hast}` work the same way for verbs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Gender(IntEnum):
    MASCULINE = 0
    FEMININE = 1
    NEUTER = 2


class Person(IntEnum):
    """The persons that subjects come in; the second is a matter of `Address`."""

    I = 0  # noqa: E741 - it is what it is called
    THIRD = 1
    WE = 2


class Word(NamedTuple):
    """What fills a role of a sentence, in both languages; either side formats itself into a pattern."""

    english: object
    german: object


# Masculine form → masculine, feminine, neuter. Nominative, accusative and dative are told apart by the masculine.
BY_GENDER = {
    "der": ("der", "die", "das"),
    "den": ("den", "die", "das"),
    "dem": ("dem", "der", "dem"),
    "er": ("er", "sie", "es"),
    "ihn": ("ihn", "sie", "es"),
} | {
    owner + masculine: (owner + masculine, owner + feminine, owner + neuter)
    for owner in ("mein", "dein")
    for masculine, feminine, neuter in (("", "e", ""), ("en", "e", ""), ("em", "er", "em"))
}

# Third person singular → I, third person, we; listed only where `I` and `we` do not follow from the stem.
ENGLISH_VERBS = {
    "is": ("am", "is", "are"),
    "has": ("have", "has", "have"),
    "does": ("do", "does", "do"),
}
GERMAN_VERBS = {
    "ist": ("bin", "ist", "sind"),
    "hat": ("habe", "hat", "haben"),
    "will": ("will", "will", "wollen"),
    "weiß": ("weiß", "weiß", "wissen"),
    "hilft": ("helfe", "hilft", "helfen"),
    "trägt": ("trage", "trägt", "tragen"),
    "schläft": ("schlafe", "schläft", "schlafen"),
    "isst": ("esse", "isst", "essen"),
    "liest": ("lese", "liest", "lesen"),
    "wartet": ("warte", "wartet", "warten"),
    "arbeitet": ("arbeite", "arbeitet", "arbeiten"),
    "betet": ("bete", "betet", "beten"),
}

# What is said to a friend → what is said to a stranger.
FORMAL = {
    "du": "Sie",
    "dich": "Sie",
    "dir": "Ihnen",
    "bist": "sind",
    "hast": "haben",
    "kannst": "können",
    "willst": "wollen",
    "wohnst": "wohnen",
    "machst": "machen",
    "kommst": "kommen",
    "siehst": "sehen",
    "brauchst": "brauchen",
    "schau": "schauen Sie",
    "hör": "hören Sie",
    "komm": "kommen Sie",
} | {"dein" + ending: "Ihr" + ending for ending in ("", "e", "en", "em", "er")}


class GermanNoun(str):
    """A noun; `{thing:der}`, `{thing:ihn}`, `{kin:meinem}` agree with its gender."""

    gender: Gender

    def __new__(cls, noun: str, gender: Gender) -> GermanNoun:
        self = super().__new__(cls, noun)
        self.gender = gender
        return self

    def __format__(self, form: str) -> str:
        return BY_GENDER[form][self.gender] if form else str(self)


class Subject(str):
    """A subject; `{who:is}` and `{who:sucht}` agree with its person."""

    person: Person

    def __new__(cls, name: str, person: Person) -> Subject:
        self = super().__new__(cls, name)
        self.person = person
        return self


class EnglishSubject(Subject):
    def __format__(self, verb: str) -> str:
        if not verb:
            return str(self)
        if verb in ENGLISH_VERBS:
            return ENGLISH_VERBS[verb][self.person]
        return verb if self.person == Person.THIRD else verb.removesuffix("s")


class GermanSubject(Subject):
    def __format__(self, verb: str) -> str:
        if not verb:
            return str(self)
        if verb in GERMAN_VERBS:
            return GERMAN_VERBS[verb][self.person]
        stem = verb.removesuffix("t")
        return (stem + "e", verb, stem + "en")[self.person]


class Address(str):
    """How somebody is spoken to; `{you:hast}` and `{you:dir}` become the forms of *Sie* if formally."""

    def __format__(self, form: str) -> str:
        return FORMAL[form] if self == SIE else form


DU, SIE = Address("du"), Address("Sie")


def subject(english: str, german: str, person: Person) -> Word:
    return Word(EnglishSubject(english, person), GermanSubject(german, person))

"""The words of the generated corpus, English and German.

Kept free of accidents: no two things share a name, no adjective contradicts another one, and nothing but a thing
can be what `it` refers to.
"""

from __future__ import annotations

from typing import NamedTuple

from focat.corpus.generated.agreement import Gender, GermanNoun, Person, Word, subject


class Thing(NamedTuple):
    """Something `it` can refer to. A term has two translations, of one gender, and a document keeps to one."""

    english: str
    german: tuple[str, ...]
    gender: Gender

    def words(self) -> tuple[Word, ...]:
        """One word for each translation."""
        return tuple(Word(self.english, GermanNoun(noun, self.gender)) for noun in self.german)


def _things(gender: Gender, **german: str) -> tuple[Thing, ...]:
    return tuple(Thing(english, tuple(nouns.split("/")), gender) for english, nouns in german.items())


# As many things of each gender, and as many terms: otherwise a model could guess.
THINGS = {
    Gender.MASCULINE: _things(
        Gender.MASCULINE,
        table="Tisch",
        chair="Stuhl",
        key="Schlüssel",
        suitcase="Koffer",
        mirror="Spiegel",
        coat="Mantel",
    ),
    Gender.FEMININE: _things(
        Gender.FEMININE,
        lamp="Lampe",
        bag="Tasche",
        cup="Tasse",
        guitar="Gitarre",
        camera="Kamera",
        bottle="Flasche",
    ),
    Gender.NEUTER: _things(
        Gender.NEUTER,
        book="Buch",
        bed="Bett",
        boat="Boot",
        knife="Messer",
        piano="Klavier",
        dress="Kleid",
    ),
}
TERMS = {
    Gender.MASCULINE: _things(Gender.MASCULINE, computer="Computer/Rechner", sweater="Pullover/Pulli"),
    Gender.FEMININE: _things(Gender.FEMININE, watch="Uhr/Armbanduhr", box="Kiste/Schachtel"),
    Gender.NEUTER: _things(Gender.NEUTER, phone="Telefon/Handy", bike="Fahrrad/Rad"),
}

FIRST_NAMES = ("Anna", "Tom", "Maria", "Peter", "Lena", "Paul", "Julia", "Max")
STRANGERS = tuple(
    Word(f"{english} {surname}", f"{german} {surname}")
    for surname in ("Weber", "Klein", "Braun", "Fischer")
    for english, german in (("Mr", "Herr"), ("Mrs", "Frau"))
)
SPEAKERS = (subject("I", "ich", Person.I), subject("we", "wir", Person.WE))

# The open roles of a sentence pattern and the words that can fill them; German verbs in the third person.
ROLES = {
    "kin": (
        Word("brother", GermanNoun("Bruder", Gender.MASCULINE)),
        Word("father", GermanNoun("Vater", Gender.MASCULINE)),
        Word("sister", GermanNoun("Schwester", Gender.FEMININE)),
        Word("mother", GermanNoun("Mutter", Gender.FEMININE)),
    ),
    "virtue": (
        Word("new", "neu"),
        Word("beautiful", "schön"),
        Word("practical", "praktisch"),
    ),
    "fault": (
        Word("expensive", "teuer"),
        Word("heavy", "schwer"),
        Word("dirty", "schmutzig"),
        Word("broken", "kaputt"),
        Word("wet", "nass"),
    ),
    "state": (
        Word("tired", "müde"),
        Word("sick", "krank"),
        Word("hungry", "hungrig"),
        Word("nervous", "nervös"),
        Word("ready", "bereit"),
    ),
    "pastime": (
        Word("laughing", "lacht"),
        Word("waiting", "wartet"),
        Word("sleeping", "schläft"),
        Word("eating", "isst"),
    ),
    "place": (
        Word("outside", "draußen"),
        Word("upstairs", "oben"),
        Word("at home", "zu Hause"),
        Word("here", "hier"),
    ),
    "doing": (
        Word("buying", "kauft"),
        Word("selling", "verkauft"),
        Word("fetching", "holt"),
        Word("carrying", "trägt"),
        Word("cleaning", "reinigt"),
        Word("hiding", "versteckt"),
    ),
    "do": (
        Word("buy", "kaufen"),
        Word("sell", "verkaufen"),
        Word("fetch", "holen"),
        Word("carry", "tragen"),
        Word("clean", "reinigen"),
        Word("hide", "verstecken"),
    ),
    "verb": (
        Word("swim", "schwimmt"),
        Word("cook", "kocht"),
        Word("smoke", "raucht"),
        Word("dance", "tanzt"),
        Word("sing", "singt"),
        Word("work", "arbeitet"),
        Word("read", "liest"),
        Word("paint", "malt"),
        Word("pray", "betet"),
        Word("drink", "trinkt"),
    ),
}
ROLES["quality"] = ROLES["virtue"] + ROLES["fault"]

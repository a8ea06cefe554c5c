"""Which of a few languages a text is in, by its script, its letters and its most frequent words.

This is small and knows its limits: it chooses among the languages that are served, and says how sure it is. A word or
two of a language whose words look like another's are not enough.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from focat.translation.splitting import primary_language

_WORDS = {
    "ca": "el la els les de del que i en un una és per amb no es al ha són com més però seva aquest",
    "cs": "a v je na se že s z do o to jsem jako za by ale si by jsou tak pro co když který jeho není",
    "da": "og i at det er en til på som de med der han af for ikke jeg var den et har men vi hun du om",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es ich wir sie er wo",
    "en": "the of and to in a is that for it was on with he as you at be this have are not but they his she we where",
    "eo": "la kaj de en estas al mi ne vi li ni ili tio por kun sed ŝi kiu ke pri",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más pero sus le está",
    "et": "ja on ei et see oli ta ma kui ka aga mis oma nii siis ning olid seda mida",
    "fi": "ja on ei se että hän oli mutta ovat kun niin myös joka minä ole hänen tämä sen mitä olen",
    "fr": "de la le et les des en un du une que est pour qui dans il elle par pas sur je nous vous au plus ce où",
    "hu": "a az és hogy nem is egy ez volt meg de azt csak ha van már vagy mint én el",
    "it": "di e il la che in un a per è una sono con non del si da le dei al come più ma nel lo gli dove",
    "lt": "ir yra į kad su iš tai bet buvo kaip jis ne ar jo už dar apie aš ji",
    "lv": "un ir ka no ar uz tas bija par bet viņš kā es nav šis arī vai lai",
    "nb": "og i det er en til på som de med han av for ikke jeg var den et har men vi hun du om",
    "nl": "de het een en van in is dat op te zijn met voor niet aan er die ook als maar hij ik we ze waar",
    "pl": "i w na z się nie do jest to że o jak ale po co jego za od tak by są był czy",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele onde",
    "ro": "de și în a la cu pe nu un o este că din să mai ce se care pentru sunt dar el ea",
    "sk": "a v je na sa že s z do o to som ako za by ale si sú tak pre čo keď ktorý jeho nie",
    "sl": "in je v na se da za so ki z ne bi tudi kot pa po ni s od",
    "sv": "och i att det som en på är av för med till den har de inte om ett han men var jag sig vi hon du",
    "tr": "ve bir bu da de için çok ne o ben ama ile gibi daha mi var sen değil kadar olarak",
    "vi": "và là của có không được cho một những trong người này với đã các để khi tôi anh nhưng",
}
_SCRIPTS = {
    "ar": "ARABIC", "fa": "ARABIC", "ur": "ARABIC", "bg": "CYRILLIC", "mk": "CYRILLIC", "ru": "CYRILLIC",
    "sr": "CYRILLIC", "uk": "CYRILLIC", "bn": "BENGALI", "el": "GREEK", "he": "HEBREW", "hi": "DEVANAGARI",
    "ja": "HIRAGANA", "ko": "HANGUL", "ta": "TAMIL", "te": "TELUGU", "th": "THAI", "zh": "CJK",
}  # fmt: skip
_LETTERS = {
    "cs": "ěřů", "da": "æø", "de": "äöüß", "eo": "ĉĝĥĵŝŭ", "es": "ñ¿¡", "et": "õ", "fa": "پچژگ", "fr": "çœêèàù",
    "hu": "őű", "lt": "ėįųąę", "lv": "āēīķļņ", "mk": "ѓќѕ", "nb": "æø", "pl": "łąężźćń", "pt": "ãõ", "ro": "ășț",
    "ru": "ыэё", "sk": "ľĺŕô", "sr": "ђћџ", "sv": "åäö", "tr": "ğış", "uk": "іїєґ", "ur": "ٹڈڑے", "vi": "ơưđạảấầ",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")
_MAX_CHARACTERS = 10_000  # of a text that are looked at
_LETTER_WEIGHT = 0.5  # of a letter that few languages have, against a frequent word


@dataclass(frozen=True)
class Detected:
    """A language, and how sure that is, from 0 to 100."""

    language: str
    confidence: float


def detect(text: str, languages: Sequence[str]) -> list[Detected]:
    """The languages that a text may be in, the likeliest first; without any evidence, in the order given."""
    text = text[:_MAX_CHARACTERS].lower()
    words = Counter(_WORD.findall(text))
    letters = Counter(character for character in text if character.isalpha())
    scripts = _scripts(letters)
    scores = [_score(primary_language(language), words, letters, scripts) for language in languages]
    total = sum(scores)
    found = [
        Detected(language, round(100 * score / total, 1) if total else 0.0)
        for language, score in zip(languages, scores, strict=True)
    ]
    return sorted(found, key=lambda detected: -detected.confidence)


def _score(language: str, words: Counter[str], letters: Counter[str], scripts: Counter[str]) -> float:
    """How much of a text speaks for a language: its share of the script, times frequent words and special letters."""
    total = sum(letters.values())
    if not total:
        return 0.0
    script = _SCRIPTS.get(language, "LATIN")
    share = scripts[script] / total
    if language == "ja":
        share = min(1.0, 3 * share) * (scripts["HIRAGANA"] + scripts["CJK"]) / total  # kana between Chinese characters
    elif language == "zh":
        share *= scripts["HIRAGANA"] < 0.05 * total
    frequent = set(_WORDS.get(language, "").split())
    known = sum(count for word, count in words.items() if word in frequent)
    special = sum(letters[letter] for letter in _LETTERS.get(language, ""))
    evidence = known + _LETTER_WEIGHT * special
    # one word in fifty, if nothing is known of a language but its script
    return share * (evidence + 0.02 * sum(words.values())) ** 2


def _scripts(letters: Counter[str]) -> Counter[str]:
    """How many letters each script has; katakana counts as hiragana."""
    found: Counter[str] = Counter()
    for letter, count in letters.items():
        name = unicodedata.name(letter, "").split(" ")[0].partition("-")[0]
        found["HIRAGANA" if name == "KATAKANA" else name] += count
    return found

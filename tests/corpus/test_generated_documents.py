"""The generated corpus: its German is right, without context it can only be guessed, with context it is decided.

Nothing here asks the grammar: whatever a sentence needs is read off the text again, with word lists of its own.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import islice

import pytest

from focat.corpus.document import Document
from focat.corpus.generated import generate

GENDERS = {
    "er": "Tisch Stuhl Schlüssel Koffer Spiegel Mantel Computer Rechner Pullover Pulli",
    "sie": "Lampe Tasche Tasse Gitarre Kamera Flasche Uhr Armbanduhr Kiste Schachtel",
    "es": "Buch Bett Boot Messer Klavier Kleid Telefon Handy Fahrrad Rad",
}
GENDER = {noun: pronoun for pronoun, nouns in GENDERS.items() for noun in nouns.split()}
TERMS = {"computer", "sweater", "watch", "box", "phone", "bike"}
VERBS = {"swim": "schw", "cook": "koch", "smoke": "rauch", "dance": "tanz", "sing": "sing", "work": "arbeite"}
VERBS |= {"read": "l", "paint": "mal", "pray": "bete", "drink": "trink"}


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence)


def nouns(sentence: str) -> list[str]:
    return [word for word in words(sentence) if word in GENDER]


def address(sentence: str) -> str | None:
    """How a German sentence addresses its listener, if it does."""
    if re.search(r"\b(Herr|Frau|Ihnen|Ihr(e[nmr]?)?)\b|\w,? Sie\b|^Sie haben\b", sentence):
        return "Sie"
    greeted = r"^(Hallo|Guten Morgen|Guten Abend), \w+\.$|^(Schau|Hör zu|Komm herein),"
    return "du" if re.search(rf"{greeted}|\b([Dd]u|dir|dich|dein(e[nmr]?)?)\b", sentence) else None


def windows(documents: list[Document]) -> list[tuple[list[str], list[str], str, str]]:
    """Source context, target context, current source and current target of every sentence."""
    return [
        (document.source[max(0, i - 3) : i], document.target[max(0, i - 3) : i], source, target)
        for document in documents
        for i, (source, target) in enumerate(zip(document.source, document.target, strict=True))
    ]


@pytest.fixture(scope="module")
def translations(corpus: list[Document]) -> dict[str, set[str]]:
    """All translations of each sentence."""
    found: dict[str, set[str]] = defaultdict(set)
    for document in corpus:
        for source, target in zip(document.source, document.target, strict=True):
            found[source].add(target)
    return found


@pytest.fixture(scope="module")
def corpus() -> list[Document]:
    return list(generate(4000, seed=1))


def pronoun(target: str) -> str | None:
    """The gender of the pronoun in the translation of an `it`."""
    found = re.search(r"\b(er|ihn|sie|es)\b", target) or re.search(r"^(Er|Sie|Es)\b", target)
    return {"ihn": "er"}.get(found[1].lower(), found[1].lower()) if found else None


# --- which corpus ---------------------------------------------------------------------------------------------------


def test_a_larger_corpus_starts_with_the_smaller_one() -> None:
    assert list(generate(20, seed=5)) == list(islice(generate(1000, seed=5), 20))


def test_another_seed_is_another_corpus() -> None:
    first, second = ({tuple(document.source) for document in generate(200, seed)} for seed in (1, 2))
    assert len(first) == 200
    assert not first & second


def test_the_corpus_is_the_same_on_every_machine() -> None:
    document = next(generate(1, seed=1))
    assert document.name == "generated-1-0"
    assert list(zip(document.source, document.target, strict=True)) == [
        ("Hello, Mr Klein.", "Hallo, Herr Klein."),
        ("Paul does not drink.", "Paul trinkt nicht."),
        ("How is your father?", "Wie geht es Ihrem Vater?"),
        ("Do you have time?", "Haben Sie Zeit?"),
        ("Of course Anna does.", "Natürlich trinkt Anna."),
        ("Here is the watch.", "Hier ist die Uhr."),
        ("Anna is helping you.", "Anna hilft Ihnen."),
        ("Where do you live?", "Wo wohnen Sie?"),
        ("Where is the watch?", "Wo ist die Uhr?"),
    ]


# --- what it looks like ---------------------------------------------------------------------------------------------


def test_documents_and_sentences_are_short(corpus: list[Document]) -> None:
    lengths = Counter(len(document.source) for document in corpus)
    assert set(lengths) == set(range(6, 13))
    assert all(len(document.source) == len(document.target) for document in corpus)
    sentences = [sentence for document in corpus for sentence in document.source + document.target]
    assert all(2 <= len(words(sentence)) <= 9 for sentence in sentences)
    assert all(re.fullmatch(r"[A-ZÄÖÜ][\wäöüß ,]*[.?!]", sentence) for sentence in sentences)


def test_vocabulary_is_small_and_found_in_a_few_hundred_documents(corpus: list[Document]) -> None:
    for side in ("source", "target"):
        vocabulary = {word for document in corpus for s in getattr(document, side) for word in words(s)}
        of_few = {word for document in corpus[:500] for s in getattr(document, side) for word in words(s)}
        assert 150 <= len(vocabulary) <= 350
        assert of_few == vocabulary


# --- its German -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("Anna needs it.", {"Anna braucht ihn.", "Anna braucht sie.", "Anna braucht es."}),
        ("It is new.", {"Er ist neu.", "Sie ist neu.", "Es ist neu."}),
        (
            "I think that it is new.",
            {f"Ich glaube, dass {pronoun} neu ist." for pronoun in ("er", "sie", "es")},
        ),
        ("I am looking for it.", {"Ich suche ihn.", "Ich suche sie.", "Ich suche es."}),
        ("We know where it is.", {"Wir wissen, wo er ist.", "Wir wissen, wo sie ist.", "Wir wissen, wo es ist."}),
        ("Tomorrow I am fetching it.", {"Morgen hole ich ihn.", "Morgen hole ich sie.", "Morgen hole ich es."}),
        ("Where is the table?", {"Wo ist der Tisch?"}),
        ("I need the table.", {"Ich brauche den Tisch."}),
        ("We are happy with the table.", {"Wir sind mit dem Tisch zufrieden."}),
        ("Where is the lamp?", {"Wo ist die Lampe?"}),
        ("We need the lamp.", {"Wir brauchen die Lampe."}),
        ("We are happy with the lamp.", {"Wir sind mit der Lampe zufrieden."}),
        ("Here is the phone.", {"Hier ist das Telefon.", "Hier ist das Handy."}),
        ("We are happy with the boat.", {"Wir sind mit dem Boot zufrieden."}),
        ("I want to sell it.", {"Ich will ihn verkaufen.", "Ich will sie verkaufen.", "Ich will es verkaufen."}),
        ("Anna is helping my father.", {"Anna hilft meinem Vater."}),
        ("Tom is helping my sister.", {"Tom hilft meiner Schwester."}),
        ("I am visiting my brother.", {"Ich besuche meinen Bruder."}),
        ("Do you have time?", {"Hast du Zeit?", "Haben Sie Zeit?"}),
        ("You are right.", {"Du hast recht.", "Sie haben recht."}),
        ("Can you help me?", {"Kannst du mir helfen?", "Können Sie mir helfen?"}),
        ("I am helping you.", {"Ich helfe dir.", "Ich helfe Ihnen."}),
        ("I know that you are tired.", {"Ich weiß, dass du müde bist.", "Ich weiß, dass Sie müde sind."}),
        ("How is your mother?", {"Wie geht es deiner Mutter?", "Wie geht es Ihrer Mutter?"}),
        ("Is that your lamp?", {"Ist das deine Lampe?", "Ist das Ihre Lampe?"}),
        ("We have your key.", {"Wir haben deinen Schlüssel.", "Wir haben Ihren Schlüssel."}),
        ("Listen, Anna!", {"Hör zu, Anna!"}),
        ("Listen, Mrs Weber!", {"Hören Sie zu, Frau Weber!"}),
        ("Maria does not read.", {"Maria liest nicht."}),
        ("Today I am sick.", {"Heute bin ich krank."}),
        ("Everyone knows that we are hungry.", {"Alle wissen, dass wir hungrig sind."}),
    ],
)
def test_a_german_speaker_would_say_so(translations: dict[str, set[str]], english: str, german: set[str]) -> None:
    assert translations[english] == german


def test_every_noun_has_an_article_of_its_gender(corpus: list[Document]) -> None:
    articles = {"er": "der den dem", "sie": "die der", "es": "das dem"}
    possessives = {"er": "dein deinen Ihr Ihren", "sie": "deine Ihre", "es": "dein Ihr"}
    seen = set()
    for _, _, _, target in windows(corpus):
        for determiner, noun in re.findall(r"(\w+) (\w+)", target) + re.findall(r"(?<= )(\w+) (\w+)", target):
            if noun in GENDER:
                seen.add(noun)
                allowed = f"{articles[GENDER[noun]]} {possessives[GENDER[noun]]}".split()
                assert determiner in allowed or determiner.lower() in allowed, target
    assert seen == set(GENDER)


# --- without context it can only be guessed -------------------------------------------------------------------------


def assert_balanced(counts: Counter[str], kinds: int, what: str) -> None:
    """All kinds occur, each as often as the others but for chance: five standard deviations."""
    total = sum(counts.values())
    assert len(counts) == kinds, (what, counts)
    allowed = 5 * (total * (1 / kinds) * (1 - 1 / kinds)) ** 0.5
    assert all(abs(count - total / kinds) < allowed for count in counts.values()), (what, counts)


def test_each_it_sentence_is_followed_by_every_gender_equally_often(corpus: list[Document]) -> None:
    genders: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, source, target in windows(corpus):
        if re.search(r"\bit\b", source, re.IGNORECASE) and " the " not in source and not source.startswith("The "):
            shape = re.sub(r"\b(Anna|Tom|Maria|Peter|Lena|Paul|Julia|Max)\b", "X", source)
            genders[shape][pronoun(target) or ""] += 1
    frequent = {source: counts for source, counts in genders.items() if sum(counts.values()) >= 40}
    assert len(frequent) > 20
    for source, counts in frequent.items():
        assert_balanced(counts, 3, source)


def test_each_you_sentence_is_du_and_sie_equally_often(corpus: list[Document]) -> None:
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, source, target in windows(corpus):
        if re.search(r"\byour?\b", source, re.IGNORECASE):
            forms[source][address(target) or ""] += 1
    frequent = {source: counts for source, counts in forms.items() if sum(counts.values()) >= 60}
    assert len(frequent) > 20
    for source, counts in frequent.items():
        assert_balanced(counts, 2, source)


def test_each_term_is_translated_both_ways_equally_often(corpus: list[Document]) -> None:
    translations: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, source, target in windows(corpus):
        for term in TERMS & set(words(source)):
            translations[term].update(nouns(target))
    assert set(translations) == TERMS
    for term, counts in translations.items():
        assert_balanced(counts, 2, term)


def test_each_ellipsis_has_every_verb_equally_often(corpus: list[Document]) -> None:
    verbs: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, source, target in windows(corpus):
        if re.search(r"\b(do|does)\.$", source):
            verbs[re.sub(r" \w+ (does|do)\.", "", source)][elided_verb(target)] += 1
    assert set(verbs) == {"But", "Of course", "Everyone knows that"}
    for source, counts in verbs.items():
        assert_balanced(counts, 10, source)


def elided_verb(target: str) -> str:
    """The English verb in the translation of an ellipsis."""
    verb = target.split()[1] if target.startswith("Natürlich") else words(target)[-1]
    return max((stem, english) for english, stem in VERBS.items() if verb.startswith(stem))[1]


# --- with context it is decided -------------------------------------------------------------------------------------


def test_the_context_holds_exactly_one_thing_that_it_can_be(corpus: list[Document]) -> None:
    distances: Counter[int] = Counter()
    for _, context, source, target in windows(corpus):
        if not re.search(r"\bit\b", source, re.IGNORECASE):
            continue
        mentions = [*(nouns(sentence) for sentence in context), nouns(target)]
        assert len({noun for mentioned in mentions for noun in mentioned}) == 1, (context, target)
        distance, noun = next((d, found[0]) for d, found in enumerate(reversed(mentions)) if found)
        assert pronoun(target) == GENDER[noun], (context, target)
        distances[distance] += 1
    shares = {distance: count / sum(distances.values()) for distance, count in distances.items()}
    assert set(shares) == {0, 1, 2, 3}
    assert min(shares.values()) > 0.1, shares


def test_after_the_first_you_the_context_knows_how_to_address(corpus: list[Document]) -> None:
    distances: Counter[int] = Counter()
    for document in corpus:
        told: list[int] = []
        for i, (source, target) in enumerate(zip(document.source, document.target, strict=True)):
            if re.search(r"\byour?\b", source, re.IGNORECASE) and told:
                assert i - told[-1] <= 3, document
                assert address(target) == address(document.target[told[-1]]), document
                distances[i - told[-1]] += 1
            if address(target):
                told.append(i)
    assert set(distances) == {1, 2, 3}
    assert min(distances.values()) > 0.15 * sum(distances.values()), distances


def test_a_document_keeps_its_terms(corpus: list[Document]) -> None:
    distances: Counter[int] = Counter()
    for source_context, target_context, source, target in windows(corpus):
        for term in TERMS & set(words(source)):
            for distance in (1, 2, 3):
                if distance <= len(source_context) and term in words(source_context[-distance]):
                    assert nouns(target_context[-distance]) == nouns(target)
                    distances[distance] += 1
                    break
    assert min(distances[distance] for distance in (1, 2, 3)) > 0.15 * sum(distances.values()), distances


def test_an_ellipsis_takes_up_the_only_denial_in_its_context(corpus: list[Document]) -> None:
    distances: Counter[int] = Counter()
    for context, _, source, target in windows(corpus):
        if not re.search(r"\b(do|does)\.$", source):
            continue
        denials = [(d, s) for d, s in enumerate(reversed(context), 1) if re.search(r"\bdo(es)? not\b", s)]
        assert len(denials) == 1, context
        distance, denial = denials[0]
        assert elided_verb(target) == words(denial)[-1]
        denier, other = words(denial)[0], words(source)[-2]
        assert other != denier
        assert not {denier.lower(), other.lower()} <= {"i", "we"}, "nobody contradicts himself"
        distances[distance] += 1
    assert min(distances[distance] for distance in (1, 2, 3)) > 0.15 * sum(distances.values()), distances


def test_a_window_has_one_translation(corpus: list[Document]) -> None:
    """Where the context decides what a sentence needs, equal windows have equal translations."""
    translations: dict[object, set[str]] = defaultdict(set)
    open_windows = 0
    for source_context, target_context, source, target in windows(corpus):
        first_you = re.search(r"\byour?\b", source, re.IGNORECASE) and not any(map(address, target_context))
        mentioned = {word for sentence in source_context for word in words(sentence)}
        if first_you or TERMS & set(words(source)) - mentioned:
            open_windows += 1
            continue
        translations[tuple(source_context), tuple(target_context), source].add(target)
    assert all(len(targets) == 1 for targets in translations.values())
    assert open_windows < 0.12 * sum(len(document.source) for document in corpus)

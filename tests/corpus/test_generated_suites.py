"""The suites of the generated corpus: in the published layout, a coin toss without context, no question with it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from focat.corpus.generated import GENERATED_PHENOMENA, contrapro_suite, generate, voita_suite, write_suites
from tests.corpus.test_generated_documents import GENDER, address, elided_verb, nouns, pronoun, words

VOITA_FIELDS = {"src": str, "dst": list, "true_ind": int, "ctx_dist": int}
CONTRAPRO_FIELDS = {
    "document id": str,
    "segment id": int,
    "src pronoun": str,
    "ref pronoun": str,
    "ante distance": int,
    "intrasegmental": bool,
    "corpus": str,
    "src segment": str,
    "ref segment": str,
    "errors": list,
    "src ante head": str,
    "src ante head gender": type(None),
    "src ante head id": int,
    "src ante head lemma": str,
    "src ante head morpho": type(None),
    "src ante head pos": str,
    "src ante phrase": str,
    "ref ante head": str,
    "ref ante head gender": str,
    "ref ante head id": int,
    "ref ante head lemma": str,
    "ref ante head morpho": str,
    "ref ante head pos": str,
    "ref ante phrase": str,
}
ERROR_FIELDS = {"contrastive": str, "replacement": str, "replacement gender": str, "type": str}
PRONOUN_GENDER = {"er": "Masc", "ihn": "Masc", "sie": "Fem", "es": "Neut"}

Chooser = Callable[[str, list[str]], int]


def sentences(window: str) -> list[str]:
    return window.split(" _eos ")


def types(fields: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in fields.items()}


@pytest.fixture(scope="module")
def best_guess() -> Chooser:
    """The best that can be done without context: the most frequent translation of a sentence in a large corpus."""
    frequency: dict[str, Counter[str]] = defaultdict(Counter)
    for document in generate(3000, seed=1):
        for source, target in zip(document.source, document.target, strict=True):
            frequency[source][target] += 1

    def choose(source: str, candidates: list[str]) -> int:
        # Never a tie: of equally frequent translations the alphabet decides, whichever way they are ordered.
        best = max(candidates, key=lambda candidate: (frequency[source][candidate], candidate))
        return candidates.index(best)

    return choose


@pytest.fixture(scope="module")
def vocabulary() -> set[str]:
    return {word for document in generate(500, seed=1) for s in document.source + document.target for word in words(s)}


# --- the suites of Voita et al. -------------------------------------------------------------------------------------


@pytest.mark.parametrize("phenomenon", GENERATED_PHENOMENA)
def test_voita_layout(phenomenon: str, vocabulary: set[str]) -> None:
    suite = voita_suite(phenomenon, 60, seed=3)
    assert len(suite) == 60
    for instance in suite:
        assert types(dict(instance)) == VOITA_FIELDS
        assert len(sentences(instance["src"])) == 4
        contexts = {tuple(sentences(candidate)[:3]) for candidate in instance["dst"]}
        currents = {sentences(candidate)[3] for candidate in instance["dst"]}
        assert len(contexts) == 1, "candidates differ in the last sentence only"
        assert len(currents) == len(instance["dst"]) == (5 if phenomenon == "ellipsis_vp" else 2)
        text = " ".join([*sentences(instance["src"]), *(s for c in instance["dst"] for s in sentences(c))])
        assert set(words(text)) <= vocabulary
    assert Counter(instance["ctx_dist"] for instance in suite) == {1: 20, 2: 20, 3: 20}


@pytest.mark.parametrize(("phenomenon", "chance"), [("deixis", 1 / 2), ("lex_cohesion", 1 / 2), ("ellipsis_vp", 1 / 5)])
def test_without_context_consistency_is_chance(phenomenon: str, chance: float, best_guess: Chooser) -> None:
    suite = voita_suite(phenomenon, 300, seed=3)

    def accuracy(choose: Chooser) -> float:
        right = [
            choose(sentences(instance["src"])[3], [sentences(candidate)[3] for candidate in instance["dst"]])
            == instance["true_ind"]
            for instance in suite
        ]
        return sum(right) / len(right)

    assert accuracy(best_guess) == chance
    assert accuracy(lambda source, candidates: 0) == chance, "a scorer of nothing but ties"
    assert accuracy(lambda source, candidates: candidates.index(min(candidates, key=len))) == chance


def by_address(source: list[str], target: list[str], current: str) -> bool:
    return {address(sentence) for sentence in target} - {None} == {address(current)}


def by_term(source: list[str], target: list[str], current: str) -> bool:
    return {noun for sentence in target for noun in nouns(sentence)} == set(nouns(current))


def by_denial(source: list[str], target: list[str], current: str) -> bool:
    denied = [words(sentence)[-1] for sentence in source if " not " in sentence]
    return denied == [elided_verb(current)]


@pytest.mark.parametrize(
    ("phenomenon", "fits"), [("deixis", by_address), ("lex_cohesion", by_term), ("ellipsis_vp", by_denial)]
)
def test_with_context_exactly_the_true_candidate_fits(phenomenon: str, fits: Callable[..., bool]) -> None:
    for instance in voita_suite(phenomenon, 300, seed=3):
        *source, _ = sentences(instance["src"])
        fitting = []
        for candidate in instance["dst"]:
            *target, current = sentences(candidate)
            fitting.append(fits(source, target, current))
        assert fitting == [index == instance["true_ind"] for index in range(len(fitting))]
        # What decides stands where ctx_dist says: take that sentence out, and no candidate fits any more.
        *target, current = sentences(instance["dst"][instance["true_ind"]])
        source[-instance["ctx_dist"]] = target[-instance["ctx_dist"]] = ""
        assert not fits(source, target, current)


def test_deixis_is_decided_by_names_and_by_earlier_forms() -> None:
    """In half of the pairs the source tells, so that a translation without target context can be right too."""
    suite = voita_suite("deixis", 300, seed=3)
    pairs = list(zip(suite[::2], suite[1::2], strict=True))
    same_source = sum(first["src"] == second["src"] for first, second in pairs)
    assert 0.3 < same_source / len(pairs) < 0.7
    assert all(first["dst"] != second["dst"] for first, second in pairs)


def test_unknown_phenomenon_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'gender'; choose one of deixis, lex_cohesion, ellipsis_vp"):
        voita_suite("gender", 10, seed=1)


# --- ContraPro ------------------------------------------------------------------------------------------------------


def test_contrapro_layout(vocabulary: set[str]) -> None:
    entries, source, target = contrapro_suite(120, seed=3)
    assert len(entries) == 120
    assert len(source) == len(target) == 120 * 3 * 3
    assert Counter(entry["ante distance"] for entry in entries) == {0: 30, 1: 30, 2: 30, 3: 30}
    assert len({entry["document id"] for entry in entries}) == 120
    for entry in entries:
        assert types(entry) == CONTRAPRO_FIELDS
        assert [types(error) for error in entry["errors"]] == [ERROR_FIELDS] * 2
        assert entry["src pronoun"] in words(entry["src segment"])
        assert entry["ref pronoun"] in words(entry["ref segment"])
        genders = [PRONOUN_GENDER[entry["ref pronoun"].lower()]]
        for error in entry["errors"]:
            assert PRONOUN_GENDER[error["replacement"]] == error["replacement gender"]
            assert error["type"] == "pronominal coreference"
            genders.append(error["replacement gender"])
            replaced = error["replacement"]
            replaced = replaced.capitalize() if entry["ref pronoun"][0].isupper() else replaced
            reference = re.sub(rf"\b{entry['ref pronoun']}\b", replaced, entry["ref segment"])
            assert error["contrastive"] == reference, "nothing but the pronoun is replaced"
        assert set(genders) == {"Masc", "Fem", "Neut"}
        assert genders[0] == entry["ref ante head gender"]
        assert set(words(entry["src segment"] + " " + entry["ref segment"])) <= vocabulary
    assert set(words(" ".join(source + target))) <= vocabulary


def test_contrapro_context_is_repeated_per_candidate_oldest_first() -> None:
    entries, source, target = contrapro_suite(120, seed=3)
    for lines in (source, target):
        for i, entry in enumerate(entries):
            reference, *others = (lines[9 * i + 3 * c : 9 * i + 3 * c + 3] for c in range(3))
            assert others == [reference, reference]
            blank = max(0, 4 - entry["segment id"])
            assert [bool(line) for line in reference] == [False] * blank + [True] * (3 - blank)
    assert {entry["segment id"] for entry in entries} == {1, 2, 3, 4}


@pytest.mark.parametrize("context_lines", [0, 1, 5])
def test_contrapro_with_another_number_of_context_lines(context_lines: int) -> None:
    entries, source, target = contrapro_suite(24, seed=3, context_lines=context_lines)
    same_entries, *three_lines = contrapro_suite(24, seed=3)
    assert entries == same_entries
    for lines, three in zip((source, target), three_lines, strict=True):
        assert len(lines) == 24 * 3 * context_lines
        for candidate in range(24 * 3):
            context = lines[candidate * context_lines : (candidate + 1) * context_lines]
            expected = ["", "", *three[candidate * 3 : candidate * 3 + 3]]
            assert context == expected[5 - context_lines :]


def test_contrapro_antecedent_is_where_the_entry_says() -> None:
    entries, source, target = contrapro_suite(240, seed=3)
    for i, entry in enumerate(entries):
        english = [*source[9 * i : 9 * i + 3], entry["src segment"]]
        german = [*target[9 * i : 9 * i + 3], entry["ref segment"]]
        mentions = [(distance, noun) for distance in range(4) for noun in nouns(german[3 - distance])]
        assert mentions == [(entry["ante distance"], entry["ref ante head"])]
        assert pronoun(entry["ref segment"]) == GENDER[entry["ref ante head"]]
        assert entry["intrasegmental"] == (entry["ante distance"] == 0)

        for side, sentence in (
            ("src", english[3 - entry["ante distance"]]),
            ("ref", german[3 - entry["ante distance"]]),
        ):
            tokens = re.findall(r"\w+|[.,?!]", sentence)
            assert tokens[entry[f"{side} ante head id"] - 1] == entry[f"{side} ante head"]
            assert entry[f"{side} ante phrase"] in sentence
            assert entry[f"{side} ante phrase"].split()[1] == entry[f"{side} ante head"]
        article = entry["ref ante phrase"].split()[0].lower()
        gender, case, number = entry["ref ante head morpho"].split("|")
        assert (gender, number) == (entry["ref ante head gender"], "Sg")
        assert article == ARTICLES[gender, case]


ARTICLES = {
    ("Masc", "Nom"): "der",
    ("Masc", "Akk"): "den",
    ("Masc", "Dat"): "dem",
    ("Fem", "Nom"): "die",
    ("Fem", "Akk"): "die",
    ("Fem", "Dat"): "der",
    ("Neut", "Nom"): "das",
    ("Neut", "Akk"): "das",
    ("Neut", "Dat"): "dem",
}


def test_without_context_a_pronoun_is_guessed_once_in_three(best_guess: Chooser) -> None:
    entries, _, _ = contrapro_suite(360, seed=3)
    right: dict[int, list[bool]] = defaultdict(list)
    for entry in entries:
        candidates = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        right[entry["ante distance"]].append(best_guess(entry["src segment"], candidates) == 0)
    for distance in (1, 2, 3):
        assert sum(right[distance]) * 3 == len(right[distance]) == 90


# --- as files -------------------------------------------------------------------------------------------------------


def test_suites_are_written_as_published(tmp_path: Path) -> None:
    paths = write_suites(tmp_path / "suites", instances=30, seed=3)
    assert [path.name for path in paths] == [
        "deixis.json",
        "lex_cohesion.json",
        "ellipsis_vp.json",
        "contrapro.json",
        "contrapro.context.en",
        "contrapro.context.de",
    ]
    for phenomenon, path in zip(GENERATED_PHENOMENA, paths, strict=False):
        assert json.loads(path.read_text(encoding="utf-8")) == voita_suite(phenomenon, 30, seed=3)
    entries, source, target = contrapro_suite(30, seed=3)
    assert json.loads(paths[3].read_text(encoding="utf-8")) == entries
    assert paths[4].read_text(encoding="utf-8").split("\n") == [*source, ""]
    assert paths[5].read_text(encoding="utf-8").split("\n") == [*target, ""]


@pytest.mark.parametrize(("phenomenon", "whole"), [("deixis", 8), ("lex_cohesion", 8), ("ellipsis_vp", 10)])
def test_suites_are_whole_groups_and_start_alike(phenomenon: str, whole: int) -> None:
    suite = voita_suite(phenomenon, 7, seed=3)
    assert len(suite) == whole
    assert voita_suite(phenomenon, 60, seed=3)[:whole] == suite
    assert voita_suite(phenomenon, 7, seed=4) != suite
    assert len(contrapro_suite(7, seed=3)[0]) == 9

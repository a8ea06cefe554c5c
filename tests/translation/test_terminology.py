"""Glossaries and do-not-translate lists: what is read, what is found in sentences, and what translations contain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from focat.api import Model
from focat.errors import FocatError
from focat.translation.formats import FileSegment
from focat.translation.jobs import JobStats
from focat.translation.journal import Journal
from focat.translation.phrases import PhraseEncoder
from focat.translation.result import Translation
from focat.translation.terminology import Terminology, occurrences


def sources(terms: Terminology, text: str) -> list[str]:
    """The first form of the terms of a sentence."""
    return [term.forms[0] for term in terms.find(text)]


def test_lines_of_a_glossary(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text(
        "\ufeff# terms\n\nbank\tBank\tBanken\r\nriver bank\tUfer | Ufers\nmouse|mice\tMaus|Mäuse\n#tag\t#Marke\n"
    )
    terms = Terminology(file)
    assert [term.forms for term in terms.find("Mice at the River Bank saw a bank.")] == [
        ("Maus", "Mäuse"),
        ("Ufer", "Ufers"),
        ("Bank", "Banken"),
    ]
    assert sources(terms, "A #tag, embankment, mice-trap") == ["#Marke", "Maus"]
    assert sources(terms, "banks, mousetrap") == []


def test_a_glossary_with_a_header(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text(
        "pos\tTarget\tsource\tCase\nnoun\tEs\tit\tyes\n\tIT\tIT\t\n\thaus|Häuser\thouse\tno\n\tLeu\tLEO\tno\n"
    )
    terms = Terminology(file)
    assert sources(terms, "It is IT, it is a HOUSE, Leo.") == ["IT", "Es", "haus", "Leu"]
    [house] = terms.find("house")
    assert house.forms == ("haus", "Haus", "Häuser")  # with a capital, too: it may begin the sentence


def test_what_is_kept_comes_before_the_glossary(tmp_path: Path) -> None:
    file = tmp_path / "keep.txt"
    file.write_text("# names\nWindows\n%s\nNew York Times\n")
    terms = Terminology({"windows": "Fenster", "new york": ["New York", "New Yorks"]}, file)
    assert sources(terms, "Windows and windows in New York") == ["Windows", "Fenster", "New York"]
    assert sources(terms, "The New York Times: x%s%s") == ["New York Times", "%s", "%s"]
    assert [t.forms for t in terms.find("%s of %s", required=(("%s",),))] == [("%s",)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"bank Bank\n", "line 1: has no tab"),
        (b"# x\nbank\t \n", "line 2: has no target"),
        (b"\tBank\n", "line 1: has no source"),
        (b"source\ttarget\tcase\nbank\tBank\tmaybe\n", "line 2: case is `maybe`; write yes, no, or nothing"),
        (b"bank\tB\xe4nke\n", "line 1: byte 0xE4 at column 7 is not UTF-8"),
    ],
)
def test_bad_lines_are_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(content)
    with pytest.raises(FocatError, match=f"terms.tsv, {message}"):
        Terminology(file)


def test_bad_parameters_are_named(model: Model, tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text("a\tb\n")
    for options, message in (
        ({"keep": tmp_path / "keep.txt"}, r"keep.txt, line 1: has a tab"),
        ({"keep": tmp_path / "none.txt"}, r"none.txt.*"),
        ({"keep": ["a", ""]}, r"keep\[1\] = '': is empty"),
        ({"glossary": ["a"]}, r"glossary = \['a'\]: should be a file, or a dictionary"),
        ({"glossary": {"a": []}}, r"glossary = 'a': has an empty source, or an empty target"),
        ({"glossary": {"a": "b"}, "sample": True}, r"sample = True: samples cannot be made to contain terms"),
    ):
        with pytest.raises(FocatError, match=message):
            model.translate(["Hi."], **options)


def test_occurrences_in_text() -> None:
    for forms, text, count in (
        (("Bank",), "Bank, Banken (Bank) Datenbank Bank-Karte", 3),
        (("%s",), "x%s, %s%s; %server", 3),
        (("電話",), "私の電話です電話", 2),
        (("a b", "a"), "a b a", 2),
    ):
        assert occurrences(forms, text) == count


@pytest.mark.parametrize(
    "options", [{}, {"context": "regenerate"}, {"context": "none", "constrained": False}, {"beam": 1}]
)
def test_translations_contain_the_terms(model: Model, options: dict[str, object]) -> None:
    """Of an untrained model, which would never say them; in long sentences that are split, too."""
    long = "The cat is old, and the cat sleeps in the river bank, says Tom. " * 4
    document = ["The cat sleeps at the bank.", "It is old.", "Cat %s is IT.", long.strip()]
    glossary = {"cat": ["Katze", "Kater"], "river bank": "Flussufer", "bank": "Geldinstitut", "IT": "EDV"}
    translator = model.translator(glossary=glossary, keep=["Tom", "%s"], **options)
    found = list(itertools.chain(*translator.translate([document, document[::-1]])))
    assert [translation.terms for translation in found] == [2, 0, 3, 16, 16, 3, 0, 2]
    for translation in found:
        assert translation.unmet == ()
        for forms, source in (*((f, s) for s, f in glossary.items()), ("Tom", "Tom"), ("%s", "%s")):
            times = sum(term.forms[0] in (forms, forms[0]) for term in translator.terminology.find(translation.source))
            assert occurrences([forms] if isinstance(forms, str) else forms, translation.text) >= times, source
    assert found[3].chunks > 1


def test_a_job_with_terms_is_resumed_and_reported(model: Model, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The cat sleeps.\nTom is here.\nThe cat is old.\n")
    (tmp_path / "terms.tsv").write_text("cat\tKatze\n")
    (tmp_path / "keep.txt").write_text("Tom\n")
    whole = tmp_path / "whole.txt"
    stats = model.translate_file(
        tmp_path / "in.txt", whole, glossary=tmp_path / "terms.tsv", keep=tmp_path / "keep.txt"
    )
    assert (stats.terms, stats.unmet) == (3, {})
    assert list(stats.notes())[-1] == "terms that translations had to contain: 3"
    for word, line in zip(("Katze", "Tom", "Katze"), whole.read_text().splitlines(), strict=True):
        assert word in line


def test_an_interrupted_job_needs_the_same_terms(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.txt").write_text("The cat sleeps.\nTom is here.\nThe cat is old.\n")
    paths = tmp_path / "in.txt", tmp_path / "out.txt"
    whole = tmp_path / "whole.txt"
    model.translate_file(paths[0], whole, glossary={"cat": "Katze"})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            model.translate_file(*paths, glossary={"cat": "Katze"})
    for options in ({}, {"glossary": {"cat": "Kater"}}, {"glossary": {"cat": "Katze"}, "keep": ["Tom"]}):
        with pytest.raises(FocatError, match="belongs to a job with other terms"):
            model.translate_file(*paths, **options)
    model.translate_file(*paths, glossary={"cat": "Katze"})
    assert paths[1].read_bytes() == whole.read_bytes()


def test_a_term_that_no_token_can_write_is_reported(model: Model) -> None:
    """Say, of a vocabulary without byte fallback, where a character is unknown."""
    translator = model.translator(keep=["Ωmega"])
    encoder = translator.jobs.phrases
    known = encoder.encode(("Ωmega",))
    assert known
    unknown = {token for form in known for token in form if model.tokenizer.target.piece(token).startswith("<0x")}
    assert unknown

    class Forgetful(type(model.tokenizer.target)):  # type: ignore[misc]
        """A vocabulary that does not know the bytes of an omega."""

        def decode(self, tokens: Iterable[int]) -> str:
            return super().decode(token for token in tokens if token not in unknown)

    target = Forgetful(model.tokenizer.target.model, model.tokenizer.target.normalisation)
    assert PhraseEncoder(target).encode(("Ωmega",)) == ()
    assert PhraseEncoder(target).missing([("Ωmega",)], "mega") == ("Ωmega",)
    stats = JobStats()
    stats.add(FileSegment(7, ("Ωmega.",), lambda _: ""), [Translation("Ωmega.", "mega.", terms=1, unmet=("Ωmega",))])
    assert list(stats.notes()) == [
        "terms that translations had to contain: 1",
        "`Ωmega` could not be put into the translation: line 7",
    ]

"""Forms of address: the rules that find them, the tags of training sentences, and the tags that a translator adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import focat
from focat.api import Model
from focat.choices import FORMALITY_LANGUAGES
from focat.config.data import DataSettings
from focat.corpus.formality import TAGS, formality_of, tag_document
from focat.corpus.generated import generate
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.decoding.requests import Request
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from tests.evaluation.commands import refused
from tests.translation.tiny import tiny_run


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("de", "Haben Sie Zeit?", "formal"),
        ("de", "Ist das Ihr Auto?", "formal"),
        ("de", "Hast du Zeit?", "informal"),
        ("de", "Dein Hund, bitte.", "informal"),
        ("de", "Ich sehe euch.", "informal"),
        ("de", "Sie schläft.", None),  # she, they or you
        ("de", "Ja. Sie schläft.", None),
        ("de", "Er sieht sie und ihr Auto.", None),
        ("de", "Du sagst, Sie kommen?", None),
        ("de", "Nein.", None),
        ("ru", "Вы здесь?", "formal"),
        ("ru", "где ваша книга?", "formal"),
        ("ru", "Ты здесь?", "informal"),
        ("ru", "Я с тобой.", "informal"),
        ("ru", "Твой друг ждёт вас.", None),
        ("ru", "Выход там.", None),
    ],
)
def test_rules(language: str, sentence: str, expected: str | None) -> None:
    assert language in FORMALITY_LANGUAGES
    assert formality_of(sentence, language) == expected


def test_the_rules_agree_with_the_generated_corpus() -> None:
    """Its documents address one person in one way, and its sentences say so to both."""
    for document in generate(200, 3):
        found = {formality_of(sentence, "de") for sentence in document.target} - {None}
        assert len(found) <= 1, document


def test_tags_of_training_sentences() -> None:
    documents = list(generate(200, 5))
    tagged = [tag_document(document, "de", 0.5) for document in documents]
    assert tagged == [tag_document(document, "de", 0.5) for document in documents]
    counts = {"right": 0, "wrong": 0, "either": 0, "none": 0}
    for before, after in zip(documents, tagged, strict=True):
        assert after.target == before.target
        for old, new, target in zip(before.source, after.source, before.target, strict=True):
            tag = next((tag for tag in TAGS.values() if new == f"{tag} {old}"), None)
            assert tag is not None or new == old
            said = formality_of(target, "de")
            counts[
                "none" if tag is None else "either" if said is None else "right" if tag == TAGS[said] else "wrong"
            ] += 1
    assert counts["wrong"] == 0
    assert 0.45 < counts["none"] / sum(counts.values()) < 0.55
    assert min(counts["right"], counts["either"]) > 100
    assert tag_document(documents[0], "de", 0) == documents[0]


def test_only_training_sentences_have_tags(tmp_path: Path) -> None:
    corpus = {"format": "generated", "documents": 30}
    settings = {"store": tmp_path / "store", "train": [corpus], "dev": [corpus], "tokenizer": {"vocabulary": 400}}
    plain = DataSettings.model_validate(settings | {"store": tmp_path / "plain"})
    data = DataSettings.model_validate(settings | {"formality": 1.0})
    keys = [prepare(one, NULL_PROGRESS)["keys"] for one in (plain, data)]
    assert keys[0]["train"] != keys[1]["train"]
    store = Store(data.store)
    decode = store.tokenizer.source.decode
    train, dev = ([decode(store.split(name).source[i].tolist()) for i in range(50)] for name in ("train", "dev"))
    assert [text.partition("> ")[2] for text in train] == dev
    with pytest.raises(ValueError, match="formality has rules for target_language de, ru, not for fr"):
        DataSettings.model_validate(settings | {"formality": 0.5, "target_language": "fr"})


@pytest.fixture(scope="module")
def tagged_model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    run = tiny_run(
        tmp_path_factory.mktemp("tagged"), data={"train": [{"format": "generated", "documents": 60}], "formality": 0.5}
    )
    return focat.load(run.path, "cpu")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The source windows that the engine has been asked to translate, in order."""
    windows: list[list[int]] = []
    init = Request.__init__

    def record(self: Request, *args: object, **values: object) -> None:
        init(self, *args, **values)  # type: ignore[arg-type]
        windows.append(list(self.source))

    monkeypatch.setattr(Request, "__init__", record)
    return windows


def test_a_long_sentence_leaves_room_for_its_tag(tagged_model: Model, seen: list[list[int]]) -> None:
    """One that fills the window without a tag is cut, and each part has its tag."""
    most = tagged_model.settings.windows.max_tokens - 1
    encode = tagged_model.tokenizer.source.encode
    tag = encode(TAGS["informal"])
    sentence = next(text for n in range(1, 99) if len(encode(text := " ".join("a" * n))) > most - len(tag))
    assert len(encode(sentence)) <= most
    tagged_model.translate([sentence], formality="informal")
    assert len(seen) > 1
    assert all(window[: len(tag)] == tag and len(window) <= most + 1 for window in seen)


def test_a_translator_puts_the_tag_in_front_of_every_sentence(tagged_model: Model, seen: list[list[int]]) -> None:
    """What the engine is asked is what training windows look like, and what is reported is the text as it was."""
    document = ["Where is the cat?", "It is old."]
    (found,) = tagged_model.stream([document], formality="formal")
    encode = tagged_model.tokenizer.source.encode
    tagged = [encode(f"{TAGS['formal']} {text}") for text in document]
    assert seen[0][: len(tagged[0])] == tagged[0]
    joined = np.array(seen[1])
    assert joined[: len(tagged[0])].tolist() == tagged[0]
    assert joined[len(tagged[0]) + 1 :][: len(tagged[1])].tolist() == tagged[1]
    assert [translation.source for translation in found] == document


def test_who_may_ask(tagged_model: Model, model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Do you have time?\n")
    with pytest.raises(FocatError, match="formality = polite: choose from formal, informal"):
        tagged_model.translate(["a"], formality="polite")  # type: ignore[arg-type]
    message = refused(tmp_path, "translate", model.runs[0].path, "a.txt", "--formality", "formal")
    assert message.endswith("was trained without tags for it; train with data.formality=0.5")
    assert message.startswith("--formality formal: ")

"""Sentences with wishes: what reaches the search, and to which chunk of a long sentence it belongs."""

from __future__ import annotations

import pytest

import focat
from focat import InputSentence
from focat.api import Model
from focat.errors import ParameterError
from focat.translation.phrases import PhraseEncoder
from tests.translation.test_translator import RecordingDecoder

LINES = ["The cat sleeps.", "It is old.", "Tom is here."]


def test_a_string_is_a_sentence_without_wishes(model: Model) -> None:
    for context in ("reuse", "regenerate"):
        translator = model.translator(context=context)
        plain, wrapped = RecordingDecoder(translator.decoder), RecordingDecoder(translator.decoder)
        found = list(translator.sentences(LINES, plain))
        assert list(translator.sentences([InputSentence(line) for line in LINES], wrapped)) == found
        assert wrapped.waves == plain.waves
        assert not any(request.required for request in plain.requests)


@pytest.mark.parametrize(("context", "segments"), [("reuse", [0, 1, 2]), ("regenerate", [0, 1, 2]), ("none", [0] * 3)])
def test_required_phrases_reach_the_request(model: Model, context: str, segments: list[int]) -> None:
    decoder = RecordingDecoder()
    phrases = (("Katze", "Katzen"), ("%s",))
    list(model.translator(context=context).sentences([InputSentence(line, phrases) for line in LINES], decoder))
    target = model.tokenizer.target
    for request in decoder.requests:
        assert [{target.decode(form) for form in phrase} for phrase in request.required] == [set(p) for p in phrases]
    assert [request.required_in for request in decoder.requests] == segments
    free = model.translator(context=context, constrained=False)
    list(free.sentences([InputSentence(line, phrases) for line in LINES], decoder := RecordingDecoder()))
    assert [request.required_in for request in decoder.requests] == [None] * 3


def test_a_phrase_has_tokens_after_a_space_and_after_punctuation(model: Model) -> None:
    target = model.tokenizer.target
    spaced, glued = PhraseEncoder(target).encode(("Katze",))
    assert list(spaced) == target.encode("Katze")
    assert [*target.encode("("), *glued] == target.encode("(Katze")
    assert target.decode([*spaced, *glued]) == "KatzeKatze"


def test_a_phrase_belongs_to_the_chunk_whose_source_has_it(model: Model) -> None:
    text = "The old cat sleeps, %s. " * 4 + "Tom has %d of them, and x%d too. " + "It is old, and small. " * 4 + "xx%s"
    decoder = RecordingDecoder()
    phrases = (("%s",), ("%d",), ("%s",), ("Hund",), ("%d",), ("%s",), ("%s",), ("%s",))
    [found] = model.translator(context="none").sentences([InputSentence(text, phrases)], decoder)
    assert found.chunks > 2
    target, source = model.tokenizer.target, model.tokenizer.source
    wanted = [[target.decode(phrase[0]) for phrase in request.required] for request in decoder.requests]
    parts = [source.decode(request.source) for request in decoder.requests]
    assert sum(map(len, wanted)) == len(phrases)
    for forms, part in zip(wanted, parts, strict=True):
        for placeholder in ("%s", "%d"):
            assert forms.count(placeholder) == part.count(placeholder)
    assert "Hund" in wanted[0]  # which the source does not have


def test_what_is_no_sentence_is_refused(model: Model) -> None:
    for wrong, message in (
        ([InputSentence(3)], r"text\[0\]\.text = 3: should be a sentence"),
        ([InputSentence("Hi.", ("a",))], r"required\[0\] = 'a': should be a tuple of forms"),
        ([InputSentence("Hi.", (("a", " "),))], r"has no form, or an empty one"),
        ([InputSentence("Hi.", ((),))], r"has no form, or an empty one"),
    ):
        with pytest.raises(ParameterError, match=message):
            model.translate(wrong)
    assert len(model.translate([focat.InputSentence("Hi."), "Ho."])) == 2

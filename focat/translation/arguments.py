"""What Python callers pass in: checked, so that a mistake is an error that names the parameter."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Set
from typing import Any

from focat.config.explain import short_text
from focat.errors import ParameterError
from focat.translation.options import TranslateOptions
from focat.translation.sentence import InputSentence, Sentence


def check_type(parameter: str, value: object, types: Any, expected: str) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, types) or (isinstance(value, bool) and types is int):
        raise ParameterError(parameter, short_text(repr(value)), f"should be {expected}")


def check_options(options: Mapping[str, object], *others: str) -> None:
    """Refuse options that `TranslateOptions` does not have; `others` are parameters that the function has besides."""
    names = [*TranslateOptions.__annotations__, *others]
    for name, value in options.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            problem = f"there is no such parameter{meant} (there are: {', '.join(sorted(names))})"
            raise ParameterError(name, short_text(repr(value)), problem)


def list_of(parameter: str, value: Any, expected: str) -> list[Any]:
    """The items of a list, or of another iterable with an order."""
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise ParameterError(parameter, short_text(repr(value)), f"should be {expected}")
    return list(value)


def sentences_of(parameter: str, value: Any) -> list[str]:
    """The sentences of a document: a list of strings."""
    sentences = list_of(parameter, value, "a list of sentences; a document is a list of sentences")
    for i, sentence in enumerate(sentences):
        check_sentence(f"{parameter}[{i}]", sentence)
    return sentences


def input_sentences_of(parameter: str, value: Any) -> list[Sentence]:
    """The sentences of a document to translate: a list of strings, or of sentences with wishes."""
    sentences: list[Sentence] = list_of(parameter, value, "a list of sentences; a document is a list of sentences")
    for i, sentence in enumerate(sentences):
        check_input(f"{parameter}[{i}]", sentence)
    return sentences


def check_input(parameter: str, sentence: object) -> None:
    """Refuse what is neither text nor an `InputSentence` of texts."""
    if not isinstance(sentence, InputSentence):
        check_sentence(parameter, sentence)
        return
    check_sentence(f"{parameter}.text", sentence.text)
    if sentence.translation is not None:
        check_sentence(f"{parameter}.translation", sentence.translation)
    for i, phrase in enumerate(list_of(f"{parameter}.required", sentence.required, "a tuple of phrases")):
        forms = list_of(f"{parameter}.required[{i}]", phrase, "a tuple of forms, which are strings")
        for form in forms:
            check_sentence(f"{parameter}.required[{i}]", form)
        if not forms or not all(form.strip() for form in forms):
            raise ParameterError(f"{parameter}.required[{i}]", short_text(repr(phrase)), "has no form, or an empty one")


def check_sentence(parameter: str, sentence: object) -> None:
    """Refuse what is no text: another type, or half a character."""
    check_type(parameter, sentence, str, "a sentence, a string")
    try:
        str(sentence).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        problem = f"holds {half}, half of a surrogate pair; give the whole character"
        raise ParameterError(parameter, short_text(repr(sentence)), problem) from None

"""Blocks of mark-up: text with inline tags that is translated sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from focat.translation.formats.placeholders import required_phrases, restore_placeholders, without_placeholders
from focat.translation.inline import InlineText, Part
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence


@dataclass(frozen=True)
class Block:
    """Text that belongs together, such as a paragraph."""

    text: InlineText
    language: str
    """Of the text: how sentences end."""
    escape: Callable[[str], str] = str
    """Writes text as it must stand in the file."""

    @cached_property
    def units(self) -> list[InlineText]:
        """Its sentences, and what stands between them."""
        return self.text.sentences(self.language)

    @cached_property
    def sentences(self) -> list[InputSentence]:
        """What is translated."""
        found = (unit.sentence for unit in self.units)
        return [
            replace(sentence, required=required_phrases(sentence.text))
            for sentence in found
            if has_words(sentence.text)
        ]

    def write(self, translations: Sequence[Translation]) -> str:
        """The block with the translations of its sentences."""
        return "".join(unit.render(translation, self.escape) for unit, translation in self._filled(translations))

    def translated(self, translations: Sequence[Translation]) -> Iterator[Part]:
        """Text and tags of the block with the translations of its sentences."""
        for unit, translation in self._filled(translations):
            yield from unit.translated(translation)

    def _filled(self, translations: Sequence[Translation]) -> Iterator[tuple[InlineText, Translation]]:
        following = iter(translations)
        for unit in self.units:
            text = unit.sentence.text
            yield unit, mended(next(following)) if has_words(text) else Translation(text, text)


def has_words(text: str) -> bool:
    """Whether there is anything to translate besides placeholders."""
    return any(character.isalpha() for character in without_placeholders(text))


def mended(translation: Translation) -> Translation:
    """A translation that has the placeholders of its source."""
    text = restore_placeholders(translation.source, translation.text)
    return translation if text == translation.text else replace(translation, text=text)


def as_context(source: Sequence[InputSentence], translations: Sequence[str]) -> Iterator[InputSentence]:
    """Sentences with their translations, one by one if there are as many, or else all in one."""
    if len(source) == len(translations):
        for sentence, text in zip(source, translations, strict=True):
            yield InputSentence(sentence.text, translation=text)
    elif source and translations:
        yield InputSentence(" ".join(each.text for each in source), translation=" ".join(translations))

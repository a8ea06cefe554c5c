"""Messages of programs: lines and sentences of one string, with tags, placeholders and an accelerator.

PO and XLIFF files are lists of messages. A message is translated in units: its lines, or paragraphs where it was
wrapped, split into sentences; tags are put back around their words, and the rest stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from focat.translation.formats.blocks import as_context, has_words, mended
from focat.translation.formats.entities import Spelling
from focat.translation.formats.placeholders import mask_placeholders, required_phrases, restore_placeholders
from focat.translation.formats.text import paragraphs
from focat.translation.inline import InlineText, Part, Tag
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence

_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w:.-]*)(?:\s[^<>]*?)?(?P<single>/?)>")
_ENTITY = re.compile(r"&(?:#\w+|amp|lt|gt|quot|apos|nbsp);")
_LIST = re.compile(r"\s*(?:(?:[-*+•–—>#]+|\d+[.)])\s+)*")
_LINE = re.compile(r"([^\n]*?)(\r?\n)|([^\n]+)")
_AT_WORD_START = re.compile(r"(?<!\S)[&_](?=\w)")
_IN_WORD = re.compile(r"(?<=[A-Za-z])[&_](?=[a-z])")  # E_xit, but not AT&T
_MAX_LABEL = 8  # words of a label that may have an accelerator
_VOID = {"br", "hr", "img", "input", "wbr"}  # tags that enclose nothing


@dataclass(frozen=True)
class _Unit:
    """A sentence of a message, and whether there is anything to translate in it."""

    text: InlineText
    translated: bool


@dataclass(frozen=True)
class Message:
    """A string to translate."""

    text: str
    language: str
    """Of the text: how sentences end."""
    flags: tuple[str, ...] = ()
    """Of a PO entry, such as `c-format`."""

    @cached_property
    def sentences(self) -> list[InputSentence]:
        """What is translated."""
        found = (unit.text.sentence for unit in self._units if unit.translated)
        return [replace(sentence, required=required_phrases(sentence.text)) for sentence in found]

    def write(self, translations: Sequence[Translation]) -> str:
        """The message with the translations of its sentences."""
        following = map(mended, translations)
        escape = self._spelling.write if self._has_entities else str
        written = "".join(
            unit.text.render(next(following) if unit.translated else _same(unit.text), escape) for unit in self._units
        )
        written = restore_placeholders(self.text, written, self.flags)
        return written if self._marker is None else _with_marker(written, self.text, self._marker)

    def with_translation(self, translation: str, language: str) -> Iterator[InputSentence]:
        """The sentences as context, with their translations if as many are found; or else the whole message."""
        return as_context(self.sentences, [sentence.text for sentence in Message(translation, language).sentences])

    @cached_property
    def _marker(self) -> int | None:
        return _find_marker(self.text)

    @cached_property
    def _has_entities(self) -> bool:
        return _ENTITY.search(self.text) is not None

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling()

    @cached_property
    def _units(self) -> list[_Unit]:
        """The message in pieces. Lines that a paragraph was wrapped in belong together."""
        text, units, block = self.text, list[_Unit](), list[tuple[str, str]]()
        if self._marker is not None:
            text = text[: self._marker] + text[self._marker + 1 :]
        lines = [(match[1] or match[3] or "", match[2] or "") for match in _LINE.finditer(text)]
        for line, end in [*lines, ("", "")]:
            if line.strip():
                block.append((line, end))
                continue
            for paragraph in paragraphs(block) if block else ():
                own, block = block[: len(paragraph.lines)], block[len(paragraph.lines) :]
                units += self._paragraph("".join(content + line_end for content, line_end in own))
            units.append(_Unit(InlineText([line + end]), False))
        return units

    def _paragraph(self, text: str) -> Iterator[_Unit]:
        """What precedes the text, as `- ` of a list, and its sentences."""
        indent = _LIST.match(text)
        start = indent.end() if indent else 0
        yield _Unit(InlineText([text[:start]]), False)
        read = self._spelling.read if self._has_entities else str
        parts = [read(part) if isinstance(part, str) else part for part in split_tags(text[start:])]
        for sentence in InlineText(parts).sentences(self.language):
            yield _Unit(sentence, has_words(sentence.sentence.text))


def split_tags(text: str) -> Iterator[Part]:
    """Text and tags like those of HTML."""
    end = 0
    for match in _TAG.finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        name = match["name"].lower()
        single = match["single"] or name in _VOID
        yield Tag(match[0], "close" if match["close"] else "single" if single else "open", name)
        end = match.end()
    if end < len(text):
        yield text[end:]


def _same(text: InlineText) -> Translation:
    sentence = text.sentence.text
    return Translation(sentence, sentence)


def _find_marker(text: str) -> int | None:
    """Where the mark of an accelerator is, as in `_File`, `Save &As…` and `E_xit`: one, in a short label."""
    words = text.split()
    if len(words) > _MAX_LABEL or "\n" in text or _ENTITY.search(text) or not words[:1]:
        return None
    if not words[0].lstrip("&_")[:1].isupper():
        return None
    for pattern in (_AT_WORD_START, _IN_WORD):
        found = list(pattern.finditer(text))
        if len(found) == 1 and text.count(found[0][0]) == 1:
            return found[0].start()
    return None


def _with_marker(written: str, source: str, position: int) -> str:
    """Mark an accelerator: the same letter, as near as possible to where it was, or else the first one."""
    mark, letter = source[position], source[position + 1]
    masked = _TAG.sub(lambda match: " " * len(match[0]), mask_placeholders(written))
    same = [i for i, character in enumerate(masked) if character.casefold() == letter.casefold()]
    letters = [i for i, character in enumerate(masked) if character.isascii() and character.isalnum()]
    if not (same or letters):  # as translations into Japanese do it
        return f"{written}({mark}{letter.upper()})"
    place = min(same, key=lambda i: abs(i - position)) if same else letters[0]
    return written[:place] + mark + written[place:]

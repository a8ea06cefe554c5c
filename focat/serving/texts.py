"""Texts of several sentences: split for the translator, and joined again as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from starlette.concurrency import run_in_threadpool

from focat.translation.formats.blocks import Block, has_words, mended
from focat.translation.formats.entities import Spelling
from focat.translation.formats.html import markup_segments
from focat.translation.formats.lines import ANY_LINE, split_line_end
from focat.translation.formats.markup import Token, tokens
from focat.translation.formats.placeholders import placeholders, required_phrases
from focat.translation.formats.segments import FileSegment, FormatOptions
from focat.translation.formats.text import split_paragraphs
from focat.translation.inline import InlineText, Part, Tag
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence, Sentence, as_input
from focat.translation.splitting import split_sentences

_QUICK = 5_000  # characters that are split in about a millisecond
Result = TypeVar("Result")
TextKind = Literal["text", "html", "xml", "sentence"]
"""Plain text; text with the tags of HTML, or with any tags inside its sentences; plain text that is one sentence."""


async def run_by_size(characters: int, function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function that splits texts of so many characters, in a thread if that would keep others waiting."""
    return function(*arguments) if characters < _QUICK else await run_in_threadpool(function, *arguments)


@dataclass(frozen=True)
class TranslatableText:
    """A text as sentences."""

    segments: Sequence[FileSegment]

    @property
    def sentences(self) -> list[Sentence]:
        """All sentences, in order."""
        return [sentence for segment in self.segments for sentence in segment.sentences]

    @property
    def paragraphs(self) -> list[int]:
        """The number of the paragraph of each sentence."""
        with_sentences = [segment for segment in self.segments if segment.sentences]
        return [number for number, segment in enumerate(with_sentences) for _ in segment.sentences]

    def join(self, translations: Sequence[Translation]) -> str:
        """The text with these sentences in place of its own."""
        remaining = iter(translations)
        return "".join(segment.write([next(remaining) for _ in segment.sentences]) for segment in self.segments)


def split_text(text: str, source_language: str, target_language: str) -> TranslatableText:
    """Split running text into sentences; paragraphs, blank lines, indents and lists stay."""
    numbered = ((i, *split_line_end(line)) for i, line in enumerate(ANY_LINE.findall(text), 1))
    return TranslatableText(list(split_paragraphs(numbered, source_language, target_language)))


def read_text(
    text: str, kind: TextKind, source_language: str, target_language: str, ignored: Sequence[str] = ()
) -> TranslatableText:
    """A text of a client as sentences. Placeholders and tags stay; so does what the `ignored` tags of `xml` enclose."""
    match kind:
        case "sentence":
            return TranslatableText([_keep_placeholders(FileSegment(1, (text,), lambda found: found[0].text))])
        case "html":
            options = FormatOptions(languages=(source_language, target_language))
            return TranslatableText(list(markup_segments(list(tokens(text, html=True)), options)))
        case "xml":
            return TranslatableText([_inline_segment(text, source_language, ignored)])
        case "text":
            split = split_text(text, source_language, target_language)
            return TranslatableText([_keep_placeholders(segment) for segment in split.segments])


def _inline_segment(text: str, language: str, ignored: Sequence[str]) -> FileSegment:
    """A text whose tags all stand inside sentences."""
    spelling = Spelling()
    parts: list[Part] = []
    kept: list[Token] = []  # an element that is left alone, so far
    depth = 0  # of elements of its name
    for token in tokens(text):
        if kept or (token.kind == "open" and token.name in ignored):
            kept.append(token)
            if token.name == kept[0].name:
                depth += (token.kind == "open") - (token.kind == "close")
            if not depth:
                parts.append(Tag("".join(each.text for each in kept), "single"))
                kept = []
        elif token.kind == "text":
            parts.append(spelling.read(token.text))
        else:
            parts.append(Tag(token.text, token.kind if token.kind in ("open", "close") else "single", token.name))
    parts += [Tag(each.text, "single") for each in kept]
    block = Block(InlineText(parts), language, spelling.write)
    return FileSegment(1, block.sentences, block.write)


def _keep_placeholders(segment: FileSegment) -> FileSegment:
    """The segment with placeholders that its translations must have, as `{name}` and `%s`."""
    given = [as_input(sentence).text for sentence in segment.sentences]
    if not any(map(placeholders, given)):
        return segment
    sentences = [
        # nothing but placeholders is its own translation
        InputSentence(text, required_phrases(text), translation=None if has_words(text) else text)
        for text in given
    ]
    return replace(segment, sentences=sentences, write=lambda found: segment.write([mended(each) for each in found]))


def split_context(text: str, language: str) -> list[str]:
    """The sentences of a text that is only read."""
    lines = [split_line_end(line)[0] for line in ANY_LINE.findall(text)]
    return [sentence for line in lines for sentence in split_sentences(line, language)]

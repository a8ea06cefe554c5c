"""OpenDocument texts and presentations (`.odt`, `.odp`): the text of their paragraphs is translated.

Spans and links are put around the words that translate theirs; notes, fields and pictures stay between the words they
stand between. Breaks and tabs divide a paragraph. Comments and what has been deleted are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from focat.translation.formats.blocks import Block
from focat.translation.formats.documents.archives import Archive, ReadMember
from focat.translation.formats.documents.paragraphs import (
    BlockText,
    Nest,
    Paragraph,
    element_end,
    paragraph_segments,
)
from focat.translation.formats.entities import Spelling
from focat.translation.formats.languages import with_language
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markup import Token, tokens
from focat.translation.formats.segments import FileSegment, FormatOptions
from focat.translation.inline import InlineText, Part, Tag

_TRANSLATED = ("content.xml", "styles.xml")  # headers and footers are among the styles
_PARAGRAPHS = frozenset(["p", "h"])
_SKIPPED = frozenset(["tracked-changes", "annotation"])
_WRAPPERS = frozenset(["span", "a", "meta"])
_BREAKS = frozenset(["tab", "line-break"])


def opendocument_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The segments of a text or a presentation, its headers, footers, notes and text boxes."""
    archive = Archive(lines, "OpenDocument")

    def read(name: str) -> Iterator[FileSegment]:
        of_file = partial(read_paragraph, language=options.languages[0])
        found = with_language(tokens(archive.read_xml(name)), ["fo:language"], options.languages, country="fo:country")
        return paragraph_segments(found, _PARAGRAPHS, _SKIPPED, of_file)

    archive.read(_TRANSLATED[0])
    members: dict[str, ReadMember] = dict.fromkeys(_TRANSLATED, read)
    yield from archive.segments(members)


def read_paragraph(found: Sequence[Token], nest: Nest, language: str) -> Paragraph:
    """A paragraph or heading, with the nested elements that `nest` reads."""
    spelling = Spelling()
    content: list[BlockText | Tag] = [Tag(found[0].text, "single")]
    for is_break, group in groupby(_items(found, nest, spelling), lambda item: item[0]):
        parts = [part for _, part in group]
        if is_break:
            content += [part for part in parts if isinstance(part, Tag)]
        else:
            content.append(BlockText(Block(InlineText(parts), language), partial(_write, spelling)))
    return Paragraph([*content, Tag(found[-1].text, "single")])


def _items(found: Sequence[Token], nest: Nest, spelling: Spelling) -> Iterator[tuple[bool, Part]]:
    """Text and tags, and whether each is a break."""
    i = 1
    while i < len(found) - 1:
        token, end = found[i], i + 1
        if token.kind == "text":
            yield False, spelling.read(token.text)
        elif token.kind == "close" or (token.kind == "open" and token.name in _WRAPPERS):
            yield False, Tag(token.text, token.kind, token.name)
        else:
            end = element_end(found, i)
            yield token.name in _BREAKS, nest(found[i:end])
        i = end


def _write(spelling: Spelling, parts: Iterable[Part]) -> str:
    return "".join(spelling.write(part) if isinstance(part, str) else part.text for part in parts)

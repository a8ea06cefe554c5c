"""Paragraphs of XML documents: their text is translated, and everything around them is copied.

A paragraph may hold others, in a text box or a footnote. Their sentences come after its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from focat.translation.formats.blocks import Block
from focat.translation.formats.markup import Token, joined
from focat.translation.formats.segments import FileSegment, verbatim
from focat.translation.inline import Part, Tag
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence

_MOST_NESTED = 20  # paragraphs inside each other; those inside so many are copied

ReadParagraph = Callable[[Sequence[Token], "Nest"], "Paragraph"]
"""A paragraph, by its tokens from its opening to its closing tag, in one of the formats."""
Nest = Callable[[Sequence[Token]], "Nesting"]
"""An element in a paragraph that is copied, but for paragraphs inside of it."""


@dataclass(frozen=True)
class Nesting(Tag):
    """Mark-up that may hold paragraphs."""

    pieces: Sequence[str | Paragraph] = ()
    """Its text, and the paragraphs in it; empty if there are none."""


@dataclass(frozen=True)
class BlockText:
    """Text without breaks in it, and how it is written."""

    block: Block
    write: Callable[[Iterable[Part]], str]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph with its tags."""

    content: Sequence[BlockText | Tag]

    @cached_property
    def sentences(self) -> list[InputSentence]:
        """What is translated: in the paragraph itself, and then in those that it holds."""
        own = [sentence for part in self._blocks for sentence in part.block.sentences]
        return own + [sentence for paragraph in self._inner for sentence in paragraph.sentences]

    def write(self, translations: Sequence[Translation]) -> str:
        """The paragraph with the translations of its sentences."""
        following = iter(translations)
        own = [list(islice(following, len(part.block.sentences))) for part in self._blocks]
        inner = (paragraph.write(list(islice(following, len(paragraph.sentences)))) for paragraph in self._inner)
        written = dict(zip(map(id, self._inner), inner, strict=True))
        of_blocks = iter(own)
        pieces = []
        for part in self.content:
            if isinstance(part, Tag):
                pieces.append(_filled(part, written).text)
            else:
                translated = part.block.translated(next(of_blocks))
                pieces.append(
                    part.write(_filled(each, written) if isinstance(each, Tag) else each for each in translated)
                )
        return "".join(pieces)

    @cached_property
    def _blocks(self) -> list[BlockText]:
        return [part for part in self.content if isinstance(part, BlockText)]

    @cached_property
    def _inner(self) -> list[Paragraph]:
        parts = (part for each in self.content for part in ([each] if isinstance(each, Tag) else each.block.text.parts))
        pieces = (piece for part in parts if isinstance(part, Nesting) for piece in part.pieces)
        return [piece for piece in pieces if isinstance(piece, Paragraph)]


def _filled(tag: Tag, written: dict[int, str]) -> Tag:
    """The tag with the paragraphs that it holds, as they are written."""
    if not isinstance(tag, Nesting) or not tag.pieces:
        return tag
    pieces = (piece if isinstance(piece, str) else written[id(piece)] for piece in tag.pieces)
    return Tag("".join(pieces), tag.kind, tag.name)


def paragraph_segments(
    found: Iterable[Token], names: frozenset[str], skipped: frozenset[str], read: ReadParagraph
) -> Iterator[FileSegment]:
    """The segments of a file.

    Args:
        found: all of it.
        names: of the elements that are paragraphs.
        skipped: of elements whose paragraphs are copied.
        read: reads a paragraph.
    """
    for piece in _pieces(found, names, skipped, read, 0):
        if isinstance(piece, str):
            yield verbatim(0, piece)
        else:
            yield FileSegment(0, piece.sentences, piece.write)


def _pieces(
    found: Iterable[Token], names: frozenset[str], skipped: frozenset[str], read: ReadParagraph, depth: int
) -> Iterator[str | Paragraph]:
    """Paragraphs that have something to translate, and what stands between them."""

    def nest(element: Sequence[Token]) -> Nesting:
        inner: list[str | Paragraph] = []
        if depth < _MOST_NESTED and any(token.name in names for token in element):
            inner = list(_pieces(element, names, skipped, read, depth + 1))
        return Nesting(joined(element), "single", "", inner if len(inner) > 1 else ())

    following = iter(found)
    copied: list[str] = []
    for token in following:
        if token.kind != "open" or token.name not in names | skipped:
            copied.append(token.text)
            continue
        element = [token, *_rest(following)]
        paragraph = None if token.name in skipped else read(element, nest)
        if paragraph is None or not paragraph.sentences:
            copied.append(joined(element))
            continue
        yield "".join(copied)
        yield paragraph
        copied = []
    yield "".join(copied)


def _rest(following: Iterator[Token]) -> Iterator[Token]:
    """What follows the opening tag of an element, to its closing tag."""
    depth = 1
    while depth:
        token = next(following)
        depth += (token.kind == "open") - (token.kind == "close")
        yield token


def element_end(found: Sequence[Token], start: int) -> int:
    """Behind the element that begins here; behind the token, if it opens none."""
    end, depth = start, 0
    while True:
        depth += (found[end].kind == "open") - (found[end].kind == "close")
        end += 1
        if depth <= 0:
            return end

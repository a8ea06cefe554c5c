"""Text with inline tags: a plain sentence for the model, and the tags put back around the words they belong to.

    text = InlineText(["The ", Tag("<b>", "open"), "red", Tag("</b>", "close"), " car."])
    translation = translate(text.sentence)  # of "The red car."
    text.render(translation)  # Das <b>rote</b> Auto.

Tags stay well nested, and none is lost, whatever the translation. If it is the sentence itself, the text comes back
exactly. Tags inside a hundred others are not lost, either, but go where their own words go, each by itself; and where
a sentence has more than five hundred, all stay as many characters from its start as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np

from focat.translation.alignment import Span, Weights, WordAlignment, positional_alignment, word_spans
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence
from focat.translation.splitting import sentence_offsets
from focat.translation.tag_placement import Element, Placement, place_elements

_SPACE = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029]")
_SPACES = re.compile(f"{_SPACE.pattern}+")  # what a model sees as one space
_MOST_OPEN = 100  # tags inside each other that are put around words; browsers stop at 512
_MOST_TAGS = 500  # that are put around words: to find the words takes time that grows with tags times words
_TEXT = re.compile("[^\x00-\x20\x7f-\x9f\u2028\u2029\\s]")


@dataclass(frozen=True)
class Tag:
    """A piece of mark-up inside a sentence."""

    text: str
    """As it stands in the file."""
    kind: Literal["open", "close", "single"]
    name: str = ""
    """A tag closes the last open one of the same name."""


Part = str | Tag


class _White(Tag):
    """White space between tags, which stays between them."""


@dataclass
class _Node:
    """A tag and its place in the plain text; with a closing tag, what it encloses."""

    tag: Tag
    start: int
    closing: Tag | None = None
    end: int = -1
    children: list[_Node] = field(default_factory=list)
    is_cut: bool = False


@dataclass(frozen=True)
class InlineText:
    """Text and tags, in the order of the file."""

    parts: Sequence[Part]

    @property
    def sentence(self) -> InputSentence:
        """What is translated; aligned if there are tags inside it."""
        layout = self._layout
        inside = (_is_inside(node, layout) for node in _flat(layout.nodes))
        return InputSentence(layout.text, align=layout.goes_by_words and any(inside))

    def sentences(self, language: str) -> list[InlineText]:
        """Split the text; what stands between two sentences is part of either."""
        plain = "".join(part for part in self.parts if isinstance(part, str))
        starts = _sentence_starts(plain, language)
        if not starts:
            return [self]
        found: list[list[Part]] = [[]]
        offset = 0
        for part in self.parts:
            if isinstance(part, Tag):
                # a tag in front of the next sentence belongs to it, unless it closes something
                if starts and part.kind != "close" and not _TEXT.search(plain, offset, starts[0]):
                    starts.pop(0)
                    found.append([])
                found[-1].append(part)
                continue
            end = offset + len(part)
            while starts and starts[0] < end:
                start = starts.pop(0)
                found[-1].append(plain[offset:start])
                found.append([])
                offset = start
            found[-1].append(plain[offset:end])
            offset = end
        return [InlineText(tuple(part for part in parts if part != "")) for parts in found]

    def render(self, translation: Translation, escape: Callable[[str], str] = str) -> str:
        """The translation with all tags, those that belong to words around their translations.

        Args:
            escape: writes text as it must stand in the file.
        """
        parts = self.translated(translation)
        return "".join(escape(part) if isinstance(part, str) else part.text for part in parts)

    def translated(self, translation: Translation) -> Sequence[Part]:
        """Text and tags of the translation, in their order."""
        layout, text = self._layout, translation.text
        if not layout.text:
            return self.parts
        words = _NO_WORDS
        if layout.goes_by_words:
            alignment = translation.alignment or positional_alignment(layout.text, text)
            words = _split_words(alignment, layout, text)
        elements = [_element(node, words) for node in layout.nodes]
        writer = _Writer(layout, text, words)
        writer.write_nodes(layout.nodes, place_elements(elements, words.weights))
        return [layout.before, *writer.finish(), layout.after]

    @cached_property
    def _layout(self) -> _Layout:
        return _read_layout(self.parts)


@dataclass(frozen=True)
class _Layout:
    """The plain text of a sentence, and what must be added to it."""

    text: str
    """As the model sees it: white space is single spaces inside, and none around it."""
    before: str
    after: str
    breaks: Sequence[tuple[int, str]]
    """White space that is no single space, by the offset of the space that stands for it."""
    nodes: Sequence[_Node]

    @property
    def goes_by_words(self) -> bool:
        """Whether there are tags, and few enough to put them around words."""
        return 0 < sum(1 for _ in _flat(self.nodes)) <= _MOST_TAGS

    @cached_property
    def offsets(self) -> set[int]:
        """Where tags are."""
        return {offset for node in _flat(self.nodes) for offset in (node.start, node.end) if offset >= 0}


def _read_layout(parts: Sequence[Part]) -> _Layout:
    plain = "".join(part for part in parts if isinstance(part, str))
    found = list(_TEXT.finditer(plain))
    first, last = (found[0].start(), found[-1].end()) if found else (len(plain), len(plain))
    text, before, after = "", "", ""
    breaks: list[tuple[int, str]] = []
    tags: list[tuple[int, Tag]] = []
    offset = 0
    for part in parts:
        if isinstance(part, Tag):
            if after:  # white space between tags at the end
                tags.append((len(text), _White(after, "single")))
                after = ""
            tags.append((len(text), part))
            continue
        lead, body, tail = _cut(part, first - offset, last - offset)
        offset += len(part)
        if lead and tags:
            tags.append((0, _White(lead, "single")))
        else:
            before += lead
        for piece in re.split(f"({_SPACES.pattern})", body):
            if not piece:
                continue
            if not _SPACES.fullmatch(piece):
                text += piece
            elif text.endswith(" "):  # only a tag between
                tags.append((len(text), _White(piece, "single")))
            else:
                if piece != " ":
                    breaks.append((len(text), piece))
                text += " "
        after += tail
    return _Layout(text, before, after, breaks, _pair(tags))


def _cut(text: str, first: int, last: int) -> tuple[str, str, str]:
    """The text before, between and behind these offsets, which may lie outside it."""
    first, last = (min(max(offset, 0), len(text)) for offset in (first, last))
    return text[:first], text[first:last], text[last:]


def _pair(tags: Sequence[tuple[int, Tag]]) -> list[_Node]:
    """The tree of tags. One whose other end is not here divides the text, or stands for itself if others are open."""
    root = _Node(Tag("", "open"), 0)
    stack = [root]
    deeper = 0  # open tags that are in no pair, as too many are open
    for offset, tag in tags:
        if (deeper and tag.kind == "close") or (len(stack) > _MOST_OPEN and tag.kind == "open"):
            stack[-1].children.append(_Node(tag, offset))
            deeper += 1 if tag.kind == "open" else -1
            continue
        if tag.kind == "close" and any(node.tag.name == tag.name for node in stack[1:]):
            while stack[-1].tag.name != tag.name:
                _dissolve(stack)
            stack[-1].closing, stack[-1].end = tag, offset
            stack.pop()
            continue
        node = _Node(tag, offset, is_cut=tag.kind == "close" and len(stack) == 1)
        stack[-1].children.append(node)
        if tag.kind == "open":
            stack.append(node)
    while len(stack) > 1:  # innermost first; in the end, all are children of the root
        stack[-1].is_cut = True
        _dissolve(stack)
    return root.children


def _dissolve(stack: list[_Node]) -> None:
    """Make the innermost open tag one that encloses nothing, and its children those of its parent."""
    node = stack.pop()
    stack[-1].children += node.children
    node.children = []


def _flat(nodes: Sequence[_Node]) -> Iterator[_Node]:
    for node in nodes:
        yield node
        yield from _flat(node.children)


def _is_inside(node: _Node, layout: _Layout) -> bool:
    """Whether the place of a tag depends on the words of the sentence."""
    edges = 0, len(layout.text)
    if node.closing is None or node.start == node.end:
        return node.start not in edges
    return (node.start, node.end) != edges


@dataclass(frozen=True)
class _Words:
    """The words of both sides, those of the source cut where a tag is inside one."""

    source: Sequence[Span]
    target: Sequence[Span]
    weights: Weights


_NO_WORDS = _Words((), (), np.zeros((0, 0)))


def _split_words(alignment: WordAlignment, layout: _Layout, text: str) -> _Words:
    """Cut words of the source at tags, and words of the translation that are the same in the same places.

    The translation of a word that is cut belongs to the longest part of it, unless it is the same word.
    """
    if alignment.source != word_spans(layout.text) or alignment.target != word_spans(text):
        alignment = positional_alignment(layout.text, text)
    parts: list[list[Span]] = []
    for start, end in alignment.source:
        cuts = sorted({start, end} | {offset for offset in layout.offsets if start < offset < end})
        parts.append(list(pairwise(cuts)))
    first = [0, *accumulate(map(len, parts))]  # the first part of each source word
    longest = [max(range(len(each)), key=lambda j: each[j][1] - each[j][0]) for each in parts]
    main = np.array([start + part for start, part in zip(first, longest, strict=False)], int)
    target: list[Span] = []
    rows = []
    for (start, end), weights in zip(alignment.target, alignment.weights, strict=True):
        row = np.zeros(first[-1])
        row[main] = weights
        best = int(weights.argmax()) if len(weights) else 0
        origin = alignment.source[best] if len(weights) else (0, 0)
        if len(parts) and len(parts[best]) > 1 and text[start:end] == layout.text[slice(*origin)]:
            for j, (part_start, part_end) in enumerate(parts[best]):
                target.append((start + part_start - origin[0], start + part_end - origin[0]))
                row = np.zeros(first[-1])
                row[first[best] + j] = 1.0
                rows.append(row)
        else:
            target.append((start, end))
            rows.append(row)
    weights = np.stack(rows) if rows else np.zeros((0, first[-1]))
    return _Words([part for of_word in parts for part in of_word], target, weights)


def _element(node: _Node, words: _Words) -> Element:
    start = sum(end <= node.start for _, end in words.source)
    end = sum(begin < node.end for begin, _ in words.source) if node.closing else start
    return Element(start, max(start, end), [_element(child, words) for child in node.children], node.is_cut)


class _Writer:
    """Writes the translation and its tags from left to right."""

    def __init__(self, layout: _Layout, text: str, words: _Words) -> None:
        self._layout, self._text, self._words = layout, text, words
        self._breaks = _place_breaks(layout, text)
        self._written: list[Part] = []
        self._position = 0

    def write_nodes(self, nodes: Sequence[_Node], placements: Sequence[Placement]) -> None:
        """Write tags and what they enclose, in the order of the translation."""
        order = sorted(range(len(nodes)), key=lambda i: (placements[i].start, placements[i].end, i))
        for i in order:
            node, placed = nodes[i], placements[i]
            self._advance(self._offset(node.start, placed.start, node.tag.kind))
            self._written.append(node.tag.text if isinstance(node.tag, _White) else node.tag)
            if node.closing:
                self.write_nodes(node.children, placed.children)
                self._advance(self._offset(node.end, placed.end, "close"))
                self._written.append(node.closing)

    def finish(self) -> list[Part]:
        """Write the rest; returns everything."""
        self._advance(len(self._text))
        return self._written

    def _advance(self, offset: int) -> None:
        """Write the text up to an offset, unless it is written already."""
        start = self._position
        for position in range(start, offset):
            if position in self._breaks:
                self._written.append(self._text[start:position] + self._breaks[position])
                start = position + 1
        if start < offset:
            self._written.append(self._text[start:offset])
        self._position = max(self._position, offset)

    def _offset(self, source_offset: int, gap: int, kind: str) -> int:
        """Where in a gap between target words a tag goes: beside the word it stands beside in the source."""
        start, end = _gap(self._words.target, gap, len(self._text))
        source_gap = sum(begin < source_offset for begin, _ in self._words.source)
        source_start, source_end = _gap(self._words.source, source_gap, len(self._layout.text))
        if source_start == source_end:
            return start if kind == "close" else end
        return end if source_offset == source_end else min(start + source_offset - source_start, end)


def _gap(words: Sequence[Span], gap: int, length: int) -> Span:
    return words[gap - 1][1] if gap else 0, words[gap][0] if gap < len(words) else length


def _place_breaks(layout: _Layout, text: str) -> dict[int, str]:
    """White space such as line breaks, by the offset of the space of the translation that it replaces.

    Each goes as far into the translation as it was in the source, so that lines keep their proportions.
    """
    spaces = [i for i, character in enumerate(text) if character == " "]
    found: dict[int, str] = {}
    scale = len(text) / max(len(layout.text), 1)
    for offset, white in layout.breaks:
        if not spaces:
            break
        nearest = min(spaces, key=lambda i: abs(i - offset * scale))
        found[nearest] = white
        spaces = [i for i in spaces if i > nearest]
    return found


def _sentence_starts(plain: str, language: str) -> list[int]:
    """Where sentences begin, without the first."""
    flat = _SPACE.sub(" ", plain)
    starts: list[int] = []
    previous = 0
    for offset in sentence_offsets(flat, language):
        if _TEXT.search(plain, previous, offset) and _TEXT.search(plain, offset):
            starts.append(offset)
            previous = offset
    return starts
